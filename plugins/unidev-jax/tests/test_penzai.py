"""Penzai's modules with frozen parameters, which are trees: placed and stepped as new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import pytest
from penzai import pz
from penzai.models import simple_mlp

import unidev

if TYPE_CHECKING:
    from pathlib import Path

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4)


def made() -> Any:
    """With parameters that are variables, as Penzai makes it."""
    return simple_mlp.MLP.from_config(
        name="mlp", init_base_rng=jax.random.key(0), feature_sizes=[4, 8, 1]
    )


def outputs_of(net: Any, x: Any) -> Any:
    return net(pz.nx.wrap(x).tag("batch", "features")).unwrap("batch", "features")


def test_a_module_of_penzai_is_placed_stepped_and_saved_as_a_new_one(tmp_path: Path) -> None:
    net = pz.bind_variables(*pz.unbind_params(made(), freeze=True))
    moved = unidev.place(net, "gpu:1")
    assert type(moved) is type(net)
    assert (str(unidev.device_of(moved)), str(unidev.device_of(net))) == ("gpu:1", "cpu:0")
    assert list(unidev.parameters(moved))[:2] == [
        "sublayers.0.sublayers.0.weights.value.data_array",
        "sublayers.0.sublayers.2.bias.value.data_array",
    ]
    x = unidev.copy_to(jax.numpy.asarray(X), "gpu:1")
    step = unidev.value_and_grad(lambda net: ((outputs_of(net, x) - 1) ** 2).mean())
    loss, gradients = step(moved)
    stepped = unidev.sgd(moved, gradients, lr=0.1)
    own = jax.grad(lambda net: ((outputs_of(net, x) - 1) ** 2).mean())(moved)
    for mine, other in zip(jax.tree.leaves(gradients), jax.tree.leaves(own), strict=True):
        np.testing.assert_array_equal(mine, other)
    assert float(step(stepped)[0]) < float(loss)
    unidev.save_parameters(stepped, tmp_path / "net.npz")
    loaded = unidev.load_parameters(moved, tmp_path / "net.npz")
    np.testing.assert_array_equal(outputs_of(loaded, x), outputs_of(stepped, x))


def test_parameters_that_are_variables_are_not_left_behind() -> None:
    with pytest.raises(unidev.UnsupportedContainerError, match="Parameter"):
        unidev.place(made(), "gpu:1")
