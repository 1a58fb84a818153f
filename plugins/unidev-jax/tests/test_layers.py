"""What ``unidev.nn`` makes of Flax: modules with portable names, compiled, copied and placed."""

from __future__ import annotations

from typing import Any

import optax
import pytest
from flax import nnx
from layer_samples import IMAGES, LABELS, make_net

import unidev
from unidev import nn
from unidev.nn import functional as F
from unidev_jax.models.flax import check_version


def test_they_are_modules_of_flax_whose_names_are_positions() -> None:
    net = make_net()
    assert all(isinstance(each, nnx.Module) for each in net)
    assert list(unidev.parameters(net)) == [
        "0.bias", "0.weight", "1.bias", "1.weight", "4.0.bias", "4.0.weight", "6.bias", "6.weight",
    ]  # fmt: skip


def test_an_optimizer_of_optax_trains_them_in_one_compiled_step_on_a_gpu() -> None:
    net = make_net(0.2)
    unidev.place(net, "gpu:1")
    x = unidev.array(IMAGES, device="gpu:1")
    y = unidev.array(LABELS, device="gpu:1")
    with unidev.gpu(1):
        optimizer = nnx.Optimizer(net, optax.adam(0.02), wrt=nnx.Param)

    @nnx.jit
    def step(net: Any, optimizer: Any, x: Any, y: Any) -> Any:
        def loss_of(net: Any) -> Any:
            return F.softmax_cross_entropy(net(x), y)

        loss, gradients = nnx.value_and_grad(loss_of)(net)
        optimizer.update(net, gradients)
        return loss

    losses = [float(step(net, optimizer, x, y)) for _ in range(30)]
    assert losses[-1] < losses[0] / 2
    assert {str(unidev.device_of(each)) for each in unidev.parameters(net).values()} == {"gpu:1"}


def test_the_mode_is_that_of_flax() -> None:
    net = make_net(0.5)
    nn.eval_mode(net)
    assert net[1].use_running_average
    assert net[6].deterministic
    net.train()
    assert all(mode for _, mode in unidev.active_backend().layers.modes(net))


def test_batch_norm_refuses_what_is_neither_rows_nor_images() -> None:
    with pytest.raises(ValueError, match="input of shape"):
        nn.batch_norm(4)(unidev.ones((2, 4, 3)))


def test_a_hook_before_a_layer_sees_its_input_and_others_of_its_class_do_not() -> None:
    layer, other = nn.relu(), nn.relu()
    unidev.active_backend().layers.before(layer, lambda _, x: x - 1)
    x = unidev.array([0.5, 2.0])
    assert layer(x).tolist() == [0.0, 1.0]
    assert other(x).tolist() == [0.5, 2.0]


@pytest.mark.parametrize(
    ("version", "is_old"), [("0.12.3", True), ("0.12.8", False), ("0.13.0", False)]
)
def test_a_flax_without_what_is_read_of_variables_is_refused(version, is_old):
    if is_old:
        with pytest.raises(ImportError, match=r"0\.12\.3 is too old: unidev needs 0\.12\.8"):
            check_version(version)
    else:
        check_version(version)
