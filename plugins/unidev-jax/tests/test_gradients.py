"""Gradients of arrays and of Flax modules: eager, compiled, and of what a closure holds."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from flax_models import Net, X, is_trained, loss_of

import unidev
from unidev import nn


def test_a_step_in_jit_is_that_of_jax() -> None:
    parameters = {"w": unidev.array([[1.0, 2.0], [3.0, 4.0]], device="gpu:1")}
    x = unidev.array([[1.0, -1.0]], device="gpu:1")

    def loss(p: Any, x: Any) -> Any:
        return (jnp.tanh(x @ p["w"]) ** 2).sum()

    @jax.jit
    def ours(p: Any, x: Any) -> Any:
        value, gradients = unidev.value_and_grad(loss)(p, x)
        return value, unidev.sgd(p, gradients, lr=0.1)

    @jax.jit
    def by_hand(p: Any, x: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(p, x)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, p, gradients)

    for mine, other in zip(
        *(jax.tree.leaves(f(parameters, x)) for f in (ours, by_hand)), strict=True
    ):
        assert np.array_equal(mine, other)
        assert unidev.device_of(mine) is unidev.gpu(1)


def test_a_step_in_nnx_jit_trains_the_module_and_its_statistics() -> None:
    ours, by_hand = Net(), Net()

    @nnx.jit
    def step(net: Any, x: Any) -> Any:
        value, gradients = unidev.value_and_grad(loss_of)(net, x)
        unidev.sgd(net, gradients, lr=0.1)
        return value

    @nnx.jit
    def step_by_hand(net: Any, x: Any) -> Any:
        wrt = nnx.DiffState(0, is_trained)
        value, gradients = nnx.value_and_grad(loss_of, argnums=wrt)(net, x)
        nnx.update(
            net, jax.tree.map(lambda p, g: p - 0.1 * g, nnx.state(net, is_trained), gradients)
        )
        return value

    for _ in range(3):
        assert float(step(ours, X)) == pytest.approx(float(step_by_hand(by_hand, X)), rel=1e-5)
    for path, x in unidev.active_backend().models.tensors(ours).items():
        if path.startswith("drop") or path == "calls":
            continue
        other = unidev.active_backend().models.tensors(by_hand)[path]
        np.testing.assert_allclose(unidev.to_numpy(x), unidev.to_numpy(other), rtol=1e-4, atol=1e-6)
    assert ours.first.kernel is ours.second.kernel


def test_what_a_loss_changes_in_its_model_changes_in_the_users() -> None:
    net = Net()
    mean, count = net.norm.mean[...], net.drop.rngs.count[...]
    unidev.value_and_grad(loss_of)(net, X)
    assert not np.array_equal(net.norm.mean[...], mean)
    assert int(net.drop.rngs.count[...]) == int(count) + 1
    assert int(net.calls) == 1
    assert not isinstance(net.norm.mean.get_raw_value(), jax.core.Tracer)


def test_parameters_of_integers_bools_and_keys_have_no_gradients() -> None:
    given = (jnp.ones(2), jnp.arange(2), jnp.array([True]), jax.random.key(0))
    net = nnx.Dict({f"x{at}": nnx.Param(x) for at, x in enumerate(given)})
    _, gradients = unidev.value_and_grad(lambda net: net.x0[...].sum())(net)
    assert list(gradients) == ["x0"]
    assert unidev.sgd(net, gradients, lr=0.5).x0[...].tolist() == [0.5, 0.5]


def test_a_loss_that_raises_changes_nothing() -> None:
    net = Net()
    mean = net.norm.mean.get_raw_value()

    def failing(net: Any, x: Any) -> Any:
        net(x)
        raise LookupError("of the loss")

    with pytest.raises(LookupError):
        unidev.value_and_grad(failing)(net, X)
    assert net.norm.mean.get_raw_value() is mean


def test_a_tied_kernel_has_the_sum_of_both_places() -> None:
    net = Net()
    net.eval()
    _, gradients = unidev.value_and_grad(loss_of)(net, X)
    by_hand = nnx.grad(loss_of, argnums=nnx.DiffState(0, is_trained))(net, X)
    np.testing.assert_allclose(
        gradients["first.kernel"], by_hand["first"]["kernel"].get_value(), rtol=1e-5
    )
    assert "second.kernel" not in gradients
    assert "frozen" not in gradients


def test_a_model_of_an_enclosing_scope_is_a_constant() -> None:
    net = nn.dense(4, 2)
    with pytest.raises(unidev.InvalidDataError, match="does not depend"):
        unidev.value_and_grad(lambda _: (net(X) ** 2).sum())(net)


def test_no_grad_is_entered_outside_of_a_trace_and_refused_inside() -> None:
    with unidev.no_grad():
        _, gradient = unidev.value_and_grad(lambda x: (x * x).sum())(X)
    assert np.array_equal(gradient, 2 * X)

    def inside(x: Any) -> Any:
        with unidev.no_grad():
            return (x * x).sum()

    for traced in (jax.grad(inside), jax.jit(inside), unidev.value_and_grad(inside)):
        with pytest.raises(unidev.UnsupportedOperation, match="stop_gradient"):
            traced(X)
    with unidev.no_grad():
        pass


def test_gradients_of_arrays_need_no_flax(python: Any) -> None:
    done = python("""
import sys, unidev
x = unidev.array([1.0, 2.0])
with unidev.no_grad():
    loss, gradient = unidev.value_and_grad(lambda x: (x * x).sum())(x)
assert unidev.sgd(x, gradient, lr=0.5).tolist() == [0.0, 0.0]
assert "flax" not in sys.modules
""")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64"])
def test_a_step_keeps_the_dtype_and_the_device(dtype: str) -> None:
    x = unidev.array([1.0, 2.0], dtype=dtype, device="gpu:1")
    stepped = unidev.sgd(x, unidev.ones_like(x), lr=0.5)
    assert stepped.dtype == x.dtype
    assert unidev.device_of(stepped) is unidev.gpu(1)
    assert unidev.to_numpy(stepped).astype("complex64").tolist() == [0.5, 1.5]


def test_a_gradient_of_64_bits_has_64_bits_where_jax_s_are_enabled() -> None:
    x = unidev.array([1.0, 1e-300], dtype="float64", device="gpu:1")
    with jax.enable_x64(True):
        _, gradient = unidev.value_and_grad(lambda x: (x * x).sum())(x)
    assert gradient.dtype == np.float64
    assert np.asarray(gradient)[1] == 2e-300


def test_a_gradient_that_is_only_the_seed_is_committed_beside_its_parameter() -> None:
    x = unidev.array([1.0], device="gpu:2")
    _, gradient = unidev.value_and_grad(lambda x: x.sum())(x)
    assert gradient.committed
    assert unidev.device_of(gradient) is unidev.gpu(2)


def test_a_variable_is_stepped_in_place_and_an_array_is_replaced() -> None:
    variable, plain = nnx.Param(jnp.ones(2)), jnp.ones(2)
    parameters = {"variable": variable, "plain": plain}
    _, gradients = unidev.value_and_grad(lambda p: (p["variable"] * p["plain"]).sum())(parameters)
    stepped = unidev.sgd(parameters, gradients, lr=0.5)
    assert stepped["variable"] is variable
    assert stepped["plain"] is not plain
    assert variable[...].tolist() == stepped["plain"].tolist() == [0.5, 0.5]
