"""Keras 3 on JAX: what the suite, which judges Keras's models by ``keras_probe``, does not ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import keras
import numpy as np
import pytest
from keras import layers

import unidev

if TYPE_CHECKING:
    from pathlib import Path

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4)
Y = X.sum(axis=1, keepdims=True)


def made() -> Any:
    """The same values each time, with dropout's generator, statistics and a regularizer."""
    net = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(4, kernel_regularizer="l2"),
            layers.BatchNormalization(),
            layers.Dropout(0.5, seed=3),
            layers.Dense(1),
        ]
    )
    for number, variable in enumerate(net.trainable_variables):
        values = np.sin(np.arange(variable.value.size) + number)
        variable.assign(values.reshape(variable.shape).astype(np.float32))
    return net


def loss_of(net: Any, x: Any, y: Any) -> Any:
    return ((net(x, training=True) - y) ** 2).mean() + sum(net.losses)


def where(variables: Any) -> set[tuple[str, bool]]:
    """The devices of the arrays, and whether they are committed to those."""
    return {(str(unidev.device_of(x)), x.value.committed) for x in variables}


def on(device: str) -> Any:
    return unidev.copy_to((jax.numpy.asarray(X), jax.numpy.asarray(Y)), device)


def test_a_loss_is_differentiated_as_by_stateless_call_and_what_it_assigns_arrives() -> None:
    net, by_hand = made(), made()
    unidev.place(net, "gpu:1")
    metric = keras.metrics.Mean()

    def counted(net: Any, x: Any, y: Any) -> Any:
        loss = loss_of(net, x, y)
        metric.update_state(loss)
        return loss

    def own(values: Any, others: Any) -> Any:
        y, others, losses = by_hand.stateless_call(
            values, others, X, training=True, return_losses=True
        )
        return ((y - Y) ** 2).mean() + sum(losses), others

    for _ in range(2):
        loss, gradients = unidev.value_and_grad(counted)(net, *on("gpu:1"))
        values = [x.value for x in by_hand.trainable_variables]
        others = [x.value for x in by_hand.non_trainable_variables]
        (expected, others), own_gradients = jax.value_and_grad(own, has_aux=True)(values, others)
        for variable, value in zip(by_hand.non_trainable_variables, others, strict=True):
            variable.assign(value)
        assert float(loss) == float(expected)
        assert float(metric.result()) == float(expected)
        metric.reset_state()
        for mine, other in zip(gradients.values(), own_gradients, strict=True):
            np.testing.assert_array_equal(mine, other)
    pairs = zip(net.non_trainable_variables, by_hand.non_trainable_variables, strict=True)
    assert all(np.array_equal(one.value, other.value) for one, other in pairs)
    assert where(net.variables) == {("gpu:1", True)}


def test_a_step_is_compiled_in_a_stateless_scope_and_refused_without() -> None:
    eager, compiled = made(), made()
    for net in (eager, compiled):
        unidev.place(net, "gpu:2")

    def step(net: Any) -> Any:
        loss, gradients = unidev.value_and_grad(loss_of)(net, *on("gpu:2"))
        unidev.sgd(net, gradients, lr=0.1)
        return loss

    variables = compiled.variables

    @jax.jit
    def stateless(values: Any) -> Any:
        with keras.StatelessScope(zip(variables, values, strict=True)) as scope:
            loss = step(compiled)
        return loss, [scope.get_current_value(x) for x in variables]

    before = values = [x.value for x in variables]
    for _ in range(3):
        loss, values = stateless(values)
        assert float(loss) == pytest.approx(float(step(eager)), rel=1e-5)
    for variable, value in zip(eager.variables, values, strict=True):
        np.testing.assert_allclose(value, variable.value, rtol=1e-4, atol=1e-6)
    for wrong in (lambda _: step(compiled), lambda g: unidev.sgd(compiled, {"0.bias": g}, lr=0.1)):
        with pytest.raises(unidev.UnsupportedOperation, match="StatelessScope"):
            jax.jit(wrong)(jax.numpy.ones(4))
    assert all(x.value is value for x, value in zip(variables, before, strict=True))


def test_two_devices_train_a_model_as_one_does() -> None:
    def mean(net: Any, x: Any, y: Any) -> Any:
        return ((net(x) - y) ** 2).mean()

    alone, both = made(), made()
    spread = unidev.DataParallel(both, ["gpu:0", "gpu:1"])
    for net, (x, y) in ((alone, on("cpu")), (spread, on("cpu"))):
        for _ in range(2):
            _, gradients = unidev.value_and_grad(mean)(net, x, y)
            unidev.sgd(net, gradients, lr=0.1)
    for one, other in zip(alone.weights, both.weights, strict=True):
        np.testing.assert_allclose(one.value, other.value, rtol=1e-4, atol=1e-6)


def test_names_are_those_of_keras_on_tensorflow_without_generators(tmp_path: Path) -> None:
    net, other = made(), made()
    net(X, training=True)
    unidev.save_parameters(net, tmp_path / "net.safetensors")
    assert list(unidev.active_backend().models.stored(net)) == [
        "0.kernel", "0.bias", "1.gamma", "1.beta", "1.moving_mean", "1.moving_variance",
        "3.kernel", "3.bias",
    ]  # fmt: skip
    unidev.place(other, "gpu:3")
    unidev.load_parameters(other, tmp_path / "net.safetensors")
    assert where(other.weights) == {("gpu:3", True)}
    np.testing.assert_array_equal(other(on("gpu:3")[0]), net(X))


@pytest.mark.parametrize("given", [{}, {"mean": [1.0, 2, 3, 4], "variance": [4.0, 1, 9, 1]}])
def test_constants_that_a_layer_makes_of_its_variables_are_loaded_and_move(
    given: Any, tmp_path: Path
) -> None:
    """Keras's ``Normalization`` computes with arrays; keras-team/keras#20163."""
    norm = layers.Normalization(**given)
    net = keras.Sequential([keras.Input((4,)), norm, layers.Dense(1)])
    new = keras.models.clone_model(net)
    stale = new.predict(X, verbose=0)
    if not given:
        norm.adapt(X)
    wanted = np.asarray(net(X))
    assert not np.allclose(stale, wanted)
    unidev.save_parameters(net, tmp_path / "net.safetensors")
    unidev.load_parameters(new, tmp_path / "net.safetensors")
    for y in (new(X), new.predict(X, verbose=0)):
        np.testing.assert_allclose(y, wanted, rtol=1e-5)
    for device in ("gpu:0", "gpu:1"):
        unidev.place(net, device)
        if not given:
            norm.adapt(X)  # elsewhere
            unidev.place(net, device)
        np.testing.assert_allclose(net(on(device)[0]), wanted, rtol=1e-5)
        assert [str(unidev.device_of(x)) for x in (norm.mean, norm.variance)] == [device] * 2
    spread = unidev.DataParallel(unidev.place(net, "gpu:0"), ["gpu:0", "gpu:1"])
    np.testing.assert_allclose(spread(on("cpu")[0]), wanted, rtol=1e-5)
    assert unidev.device_of(norm.mean) is unidev.gpu(0)


def test_optimizers_in_attributes_move_as_well() -> None:
    """As those of a GAN, whose own ``compile`` takes two."""
    net = made()
    net.d_optimizer, net.others = keras.optimizers.Adam(), {"g": [keras.optimizers.Adam()]}
    optimizers = [net.d_optimizer, *net.others["g"]]
    for each in optimizers:
        each.build(net.trainable_variables)
    unidev.place(net, "gpu:1")
    assert [where(each.variables) for each in optimizers] == [{("gpu:1", True)}] * 2


def test_what_cannot_be_placed_is_refused_with_the_reason() -> None:
    net = made()
    with pytest.raises(unidev.NotAModelError, match=r"keras\.optimizers"):
        unidev.place(net, "gpu:1", optimizer=object())
    with keras.StatelessScope(), pytest.raises(unidev.UnsupportedOperation, match="Stateless"):
        unidev.place(net, "gpu:1")
    mesh = jax.sharding.Mesh(np.array([unidev.gpu(0).native]), ("x",))
    layout = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    layer = layers.Layer()
    layer.weight = keras.Variable(np.ones(2), layout=layout)
    layer.built = True
    with pytest.raises(unidev.UnsupportedOperation, match="distribution"):
        unidev.place(layer, "gpu:1")
    assert where(net.variables) == {("cpu:0", False)}


MODEL = """
import unidev; unidev.active_backend()  # before Keras makes an array
import keras
net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
"""


def test_keras_on_another_backend_is_not_jaxs(python: Any) -> None:
    done = python(
        f"{MODEL}\ntry: unidev.place(net, 'cpu')\nexcept unidev.NotAModelError: print('refused')",
        KERAS_BACKEND="numpy",
    )
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr


def test_keras_needs_no_flax(python: Any) -> None:
    done = python(
        "import sys; sys.modules['flax'] = sys.modules['flax.nnx'] = None\n"
        f"{MODEL}\nunidev.place(net, 'gpu:0'); print(unidev.device_of(net))",
        UNIDEV_SIMULATE="2",
    )
    assert (done.returncode, done.stdout) == (0, "gpu:0\n"), done.stderr
