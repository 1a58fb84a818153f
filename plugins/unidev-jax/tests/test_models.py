"""Flax modules, placed while they are in use."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx, struct
from flax_models import Net, X, adam, devices_in, loss_of

import unidev
from unidev import nn


def bits(x: Any) -> bytes:
    is_key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(x) if is_key else x).tobytes()


def test_random_keys_and_an_optimizers_arrays_arrive_as_they_were() -> None:
    net = Net()
    optimizer = adam(net)
    before = [bits(x) for x in jax.tree.leaves(nnx.state(net))]
    assert unidev.place(net, "gpu:1", optimizer=optimizer) == (net, optimizer)
    assert devices_in(net) == devices_in(optimizer) == {str(unidev.gpu(1).native)}
    assert [bits(x) for x in jax.tree.leaves(nnx.state(net))] == before


def test_what_is_there_already_is_committed() -> None:
    """Or JAX computes where the batch is, on another device than that of the net."""
    x, net = jnp.ones(3), Net()
    assert not x.committed
    doubled = jax.grad(lambda x: unidev.device_put([x * x], "gpu:1")[0].sum())(unidev.ones(3))
    assert doubled.tolist() == [2, 2, 2]  # in what is differentiated, too
    assert unidev.as_in_device(x, "cpu") is x
    for placed in (
        unidev.place([x], "cpu"), unidev.place([x], "cpu", optimizer=[x])[1],
        unidev.device_put([x], "cpu"), unidev.gather([x, x], "cpu"), unidev.convert(x, "jax"),
        nnx.state(unidev.place(net, "cpu", optimizer=adam(net))[0]),
    ):  # fmt: skip
        assert all(each.committed for each in jax.tree.leaves(placed))
    before = net.first.kernel.get_value()
    assert unidev.place(net, "cpu").first.kernel.get_value() is before


def test_tied_and_shared_parts_and_their_names_stay() -> None:
    net = Net()
    before = {path: id(x) for path, x in unidev.parameters(net).items()}
    unidev.place(net, "gpu:1")
    assert net.first.kernel is net.second.kernel
    assert net.block is net.again
    assert {path: id(x) for path, x in unidev.parameters(net).items()} == before
    assert list(before) == [
        "again.dense.bias", "again.dense.kernel", "again.tables.more.0",
        "first.bias", "first.kernel", "frozen", "norm.bias", "norm.scale", "second.bias",
    ]  # fmt: skip
    assert {str(unidev.device_of(x)) for x in unidev.parameters(net).values()} == {"gpu:1"}


def test_arrays_outside_of_variables_and_in_containers_move() -> None:
    net = Net()
    unidev.place(net, "gpu:2")
    held = [net.calls, net.block.tables["first"], *net.pair.get_value()]
    assert {str(unidev.device_of(x)) for x in held} == {"gpu:2"}


@struct.dataclass
class Pair:
    first: Any
    note: str = struct.field(pytree_node=False)


def test_arrays_in_whatever_is_a_pytree_move_too() -> None:
    net = nnx.Dict()
    net.pair = nnx.data(Pair(jnp.ones(3), "kept"))
    unidev.place(net, "gpu:1")
    assert str(unidev.device_of(net.pair.first)) == "gpu:1"
    assert net.pair.note == "kept"


class Loose(nnx.Module, pytree=False):
    """Whose attributes Flax does not check."""

    def __init__(self) -> None:
        self.tables = {1: "one", "two": 2}
        self.weight = nnx.Param(jnp.ones(3))


def test_what_jax_cannot_take_apart_stays_as_it_is() -> None:
    net = Loose()
    tables = net.tables
    unidev.place(net, "gpu:1")
    assert net.tables is tables
    assert str(unidev.device_of(net)) == "gpu:1"


def test_a_compiled_step_of_flax_goes_on_after_a_move() -> None:
    compiled = nnx.jit(loss_of)
    net = nnx.Linear(4, 4, rngs=nnx.Rngs(0))
    before = compiled(net, X)
    unidev.place(net, "gpu:1")
    after = compiled(net, unidev.as_in_device(X, "gpu:1"))
    assert str(unidev.device_of(after)) == "gpu:1"
    assert float(after) == float(before)


def test_a_module_spread_over_devices_is_placed_on_one() -> None:
    natives = np.array([unidev.gpu(0).native, unidev.gpu(1).native])
    mesh = jax.sharding.Mesh(natives, ("data",))
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    net = nnx.Linear(4, 4, rngs=nnx.Rngs(0))
    before = bits(net.kernel.get_value())
    nnx.update(net, jax.device_put(nnx.state(net), everywhere))
    assert devices_in(unidev.place(net, "gpu:1")) == {str(unidev.gpu(1).native)}
    assert bits(net.kernel.get_value()) == before


@pytest.mark.parametrize("made", [nnx.MultiMetric(x=nnx.metrics.Average("x")), nnx.Rngs(0)])
def test_metrics_and_generators_are_placed_as_modules_are(made: Any) -> None:
    assert unidev.place(made, "gpu:1") is made
    assert str(unidev.device_of(made)) == "gpu:1"
    with pytest.raises(unidev.NotATensorError, match="place"):  # a copy's variables were arrays
        unidev.copy_to(made, "cpu")


def test_mutable_arrays_of_jax_are_refused() -> None:
    net = nnx.Dict(x=nnx.Variable(jnp.ones(3), ref=True))
    with pytest.raises(unidev.UnsupportedOperation, match="ref=False"):
        unidev.place(net, "gpu:1")


def test_what_is_not_an_optimizer_of_flax_is_refused() -> None:
    with pytest.raises(unidev.NotAModelError, match=r"nnx\.Optimizer"):
        unidev.place(Net(), "gpu:1", optimizer=object())


def test_a_checkpoint_has_each_variable_but_random_states(tmp_path: Any) -> None:
    net = nnx.Dict(norm=nnx.BatchNorm(4, rngs=nnx.Rngs(0)), drop=nnx.Dropout(0.5, rngs=nnx.Rngs(0)))
    assert list(unidev.active_backend().models.stored(net)) == [
        "norm.bias", "norm.mean", "norm.scale", "norm.var",
    ]  # fmt: skip
    net.norm(X)
    unidev.save_parameters(net, tmp_path / "net")
    other = nnx.Dict(norm=nnx.BatchNorm(4, rngs=nnx.Rngs(0)))
    unidev.place(other, "gpu:1")
    unidev.load_parameters(other, tmp_path / "net")
    assert np.array_equal(other.norm.mean[...], net.norm.mean[...])
    assert str(unidev.device_of(other.norm.mean)) == "gpu:1"


def test_a_container_of_arrays_in_a_variable_is_not_saved(tmp_path: Any) -> None:
    with pytest.raises(unidev.UnsupportedOperation, match="pair"):
        unidev.save_parameters(Net(), tmp_path / "net")


def test_a_model_cannot_be_placed_inside_a_compiled_function() -> None:
    net = nn.dense(4, 4)

    @jax.jit
    def placing(x: Any) -> Any:
        unidev.place(net, "gpu:1")
        return net(x)

    before = {path: id(x.get_raw_value()) for path, x in unidev.parameters(net).items()}
    with pytest.raises(Exception, match="trace"):
        placing(X)
    assert {path: id(x.get_raw_value()) for path, x in unidev.parameters(net).items()} == before
