"""Trees of arrays as models: Linen's parameters, Optax's state, whatever is registered with JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import core, linen, nnx, struct
from flax.training.train_state import TrainState

import unidev

if TYPE_CHECKING:
    from pathlib import Path

GPU = unidev.gpu(1)


class Net(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        x = linen.Dense(8)(x)
        x = linen.BatchNorm(use_running_average=False)(x)
        return linen.Dense(2)(linen.relu(x))


@struct.dataclass
class Batch:
    x: Any
    name: str = struct.field(pytree_node=False, default="batch")


@jax.tree_util.register_pytree_with_keys_class
class Pair:
    """A program's own, of which unidev sees no attribute."""

    def __init__(self, a: Any, b: Any) -> None:
        self.parts = lambda: (a, b)

    def tree_flatten_with_keys(self) -> Any:
        key = jax.tree_util.GetAttrKey
        return tuple(zip((key("a"), key("b")), self.parts(), strict=True)), None

    @classmethod
    def tree_unflatten(cls, _: None, parts: Any) -> Pair:
        return cls(*parts)


def where(tree: Any) -> str:
    return str(unidev.device_of(tree))


def bits(tree: Any) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(tree)]


def variables() -> Any:
    return Net().init(jax.random.key(0), jnp.ones((3, 4)))


def test_parameters_are_named_by_their_keys() -> None:
    assert list(unidev.parameters(variables()["params"])) == [
        "BatchNorm_0.bias", "BatchNorm_0.scale", "Dense_0.bias", "Dense_0.kernel",
        "Dense_1.bias", "Dense_1.kernel",
    ]  # fmt: skip
    pair = Pair(jnp.ones(1), {"c": jnp.ones(2)})
    assert list(unidev.parameters({"pair": pair})) == ["pair.a", "pair.b.c"]
    assert list(unidev.parameters(core.freeze({"a": {"b": jnp.ones(1)}}))) == ["a.b"]
    state = nnx.state(nnx.Linear(2, 3, rngs=nnx.Rngs(0)))
    assert list(unidev.parameters(state)) == ["bias", "kernel"]


def test_a_train_state_is_one_tree(tmp_path: Path) -> None:
    state = TrainState.create(
        apply_fn=Net().apply, params=variables()["params"], tx=optax.sgd(0.1, momentum=0.9)
    )
    file = tmp_path / "state.safetensors"
    for step in (5, jnp.asarray(5)):  # as it is made, and as `jit` returns it
        for made in (0, jnp.asarray(0)):
            unidev.save_parameters(state.replace(step=step), file)
            loaded = unidev.load_parameters(state.replace(step=made), file)
            assert (loaded.step, type(loaded.step)) == (5, type(made))
    placed = unidev.place(state.replace(step=jnp.asarray(0)), GPU)
    assert type(placed) is TrainState
    assert (where(placed), where(state.params)) == ("gpu:1", "cpu:0")
    gradients = jax.tree.map(jnp.ones_like, placed.params)
    assert where(placed.apply_gradients(grads=gradients)) == "gpu:1"


@pytest.mark.parametrize(
    "tree",
    [
        Batch(jnp.ones(2)),
        Pair(jnp.ones(2), [jnp.zeros(3), 3]),
        jax.tree_util.Partial(jnp.add, jnp.ones(2)),
        core.freeze({"a": {"b": jnp.ones(1)}}),
        nnx.state(nnx.Linear(2, 3, rngs=nnx.Rngs(0))),
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_what_jax_takes_apart_is_moved(tree: Any) -> None:
    for verb in (unidev.place, unidev.copy_to, unidev.as_in_device):
        moved = verb(tree, GPU)
        assert type(moved) is type(tree)
        assert (where(moved), where(tree)) == ("gpu:1", "cpu:0")
        assert bits(moved) == bits(tree)
        assert jax.tree.structure(moved) == jax.tree.structure(jax.device_put(tree))


def test_a_step_is_compiled_with_jit() -> None:
    def step(params: Any, x: Any) -> Any:
        loss, gradients = unidev.value_and_grad(lambda p, x: ((x @ p.x) ** 2).mean())(params, x)
        return unidev.sgd(params, gradients, lr=0.5), loss

    params, x = unidev.place(Batch(jnp.ones((4, 2))), GPU), unidev.ones((3, 4), device=GPU)
    new, loss = jax.jit(step)(params, x)
    assert (where(new), float(loss), new.name) == ("gpu:1", 16.0, "batch")
    expected, _ = step(params, x)
    assert bits(new) == bits(expected)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_a_random_key_is_saved_by_its_numbers(impl: str, tmp_path: Path) -> None:
    """google/orbax#1105: the advice of the error is followed."""
    file, key = tmp_path / "tree.safetensors", jax.random.key(3, impl=impl)
    with pytest.raises(unidev.UnsupportedOperation, match=rf"'rng'.*key_data.*impl='{impl}'"):
        unidev.save_parameters({"rng": key}, file)
    unidev.save_parameters({"rng": jax.random.key_data(key)}, file)
    data = unidev.load_parameters({"rng": jnp.zeros_like(jax.random.key_data(key))}, file)["rng"]
    assert (jax.random.wrap_key_data(data, impl=impl) == key).all()


def test_a_module_of_flax_keeps_its_numbers_and_no_array_is_left_out(tmp_path: Path) -> None:
    net = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    net.count = nnx.Variable(7)
    unidev.save_parameters(net, tmp_path / "net.safetensors")
    net.count.set_value(0)
    assert unidev.load_parameters(net, tmp_path / "net.safetensors") is net
    assert net.count.get_value() == 7
    tree = {"w": jnp.ones(2), "pair": Pair(np.zeros(2), 3)}
    with pytest.raises(unidev.BackendMismatchError, match=r"device_put\(tree, device\)"):
        unidev.save_parameters(tree, tmp_path / "net.safetensors")
    unidev.save_parameters(unidev.device_put(tree, "cpu"), tmp_path / "tree.safetensors")
    assert unidev.load_tensors(tmp_path / "tree.safetensors", "cpu")["pair.b"] == 3
    net.count.set_value(np.zeros(2))
    with pytest.raises(unidev.UnsupportedOperation, match=r"saving count, a .*numpy\.asarray"):
        unidev.save_parameters(net, tmp_path / "net.safetensors")


def test_a_module_of_flax_is_still_moved_in_place() -> None:
    net = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    assert unidev.place(net, GPU) is net
    assert where(net) == "gpu:1"


def test_without_flax_trees_are_models_all_the_same(python: Any) -> None:
    done = python(
        "import sys; sys.modules['flax'] = sys.modules['flax.nnx'] = None\n"
        "import unidev; x = {'w': unidev.ones(3)}\n"
        "y = unidev.place(x, 'gpu:0'); print(y is x, unidev.device_of(y), unidev.device_of(x))",
        UNIDEV_SIMULATE="2",
    )
    assert (done.returncode, done.stdout) == (0, "False gpu:0 cpu:0\n"), done.stderr
