"""Gradients, as the core gives them: what is asked, what comes back, and what is refused.

NumPy has no autograd, so it gets the plainest one here: by differences.
"""

from __future__ import annotations

import contextlib
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import unidev
from unidev.backends.loading import load_backend
from unidev.backends.numpy_backend.backend import NumpyBackend
from unidev.contract.autograd import Autograd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STEP = 0.25
"""Central differences of squares of few binary digits are exact, whatever the step."""


class ByDifferences(Autograd):
    """Moves each number of each leaf up and down, and sees what that does to the loss."""

    def leaf(self, x: Any) -> Any:
        return x

    def gradients(self, loss_of: Callable[[], Any], leaves: Sequence[Any]) -> tuple[Any, list[Any]]:
        loss = loss_of()
        return loss, [self.slope(loss_of, leaf) for leaf in leaves]

    def slope(self, loss_of: Callable[[], Any], leaf: Any) -> Any:
        slope = leaf * 0
        values, found = leaf.view(np.ndarray), slope.view(np.ndarray)
        for place in np.ndindex(leaf.shape):
            value, losses = values[place], []
            for moved in (value + STEP, value - STEP):
                values[place] = moved
                losses.append(np.asarray(loss_of().view(np.ndarray)).item())
            values[place] = value
            found[place] = (losses[0] - losses[1]) / (2 * STEP)
        return slope if found.any() else None

    def no_grad(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def descend(self, parameters: Sequence[Any], gradients: Sequence[Any], lr: float) -> Any:
        for x, slope in zip(parameters, gradients, strict=True):
            x -= slope * x.dtype.type(lr)  # noqa: PLW2901  in place
        return parameters


@pytest.fixture
def autograd(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NumpyBackend, "autograd", property(ByDifferences))


def total(x: Any) -> Any:
    """Of a row, as a tensor of one element."""
    return x @ unidev.ones((x.shape[1], 1), device=unidev.device_of(x))


def total_square(parameters: Any) -> Any:
    return total(parameters["w"] * parameters["w"])


def test_more_arguments_and_options_are_handed_on_and_not_differentiated(autograd: None) -> None:
    def loss_of(w: Any, x: Any, *, scale: float) -> Any:
        return total(w * x * scale)

    x = unidev.array([[3.0, 4.0]])
    loss, gradient = unidev.value_and_grad(loss_of)(unidev.ones((1, 2)), x, scale=2.0)
    assert unidev.to_numpy(loss).item() == 14.0
    assert unidev.to_numpy(gradient).tolist() == [[6.0, 8.0]]


def test_the_function_that_is_given_keeps_its_name_and_words() -> None:
    made = unidev.value_and_grad(total_square)
    assert made.__name__ == "total_square"


@pytest.mark.parametrize(
    ("loss_of", "words"),
    [
        (lambda w: w * w, r"one element, not a tensor of shape \(2,\)"),
        (lambda w: 3.0, "one element, not float"),
        (lambda w: None, "one element, not NoneType"),
        (lambda w: np.float32(3), "one element, not numpy.float32"),
        (lambda w: unidev.zeros(()), "does not depend on any parameter"),
    ],
)
def test_a_loss_that_is_none_is_refused(autograd: None, loss_of: Any, words: str) -> None:
    with pytest.raises(unidev.InvalidDataError, match=words):
        unidev.value_and_grad(loss_of)(unidev.ones(2))


@pytest.mark.parametrize("nothing", [{}, [], {"name": "first"}, ()])
def test_what_holds_no_tensor_cannot_be_differentiated_by(autograd: None, nothing: Any) -> None:
    with pytest.raises(unidev.NotATensorError, match="contains no tensors"):
        unidev.value_and_grad(total_square)(nothing)


@pytest.mark.parametrize("dtype", ["bool", "int64", "uint8"])
def test_integers_have_no_gradients(autograd: None, dtype: str) -> None:
    parameters = {"w": unidev.ones((1, 1)), "steps": unidev.zeros(2, dtype=dtype)}
    with pytest.raises(
        unidev.UnsupportedDtypeError, match=f"no gradient with respect to a tensor of {dtype}: pass"
    ):
        unidev.value_and_grad(total_square)(parameters)


@pytest.mark.parametrize("error", [ValueError, KeyError, RuntimeError])
def test_an_error_of_the_users_own_reaches_the_user_as_it_is(
    autograd: None, error: type[Exception]
) -> None:
    mine = error("mine")

    def loss_of(w: Any) -> Any:
        raise mine

    with pytest.raises(error) as caught:
        unidev.value_and_grad(loss_of)(unidev.ones(2))
    assert caught.value is mine


def test_a_step_goes_down_in_place_and_leaves_what_is_no_tensor(autograd: None) -> None:
    w = unidev.array([1.0, 2.0])
    parameters = {"w": w, "again": w, "name": "first"}
    gradients = {"w": unidev.ones(2), "again": unidev.ones(2), "name": "first"}
    assert unidev.sgd(parameters, gradients, lr=0.5) is parameters
    assert parameters["w"] is parameters["again"] is w
    assert unidev.to_numpy(w).tolist() == [0.5, 1.5]  # once, though it stands twice


@pytest.mark.parametrize(
    ("gradients", "words"),
    [
        ({"w": [1.0]}, r"gradients \(0\) differs from the number of parameters \(1\)"),
        ({}, r"gradients \(0\) differs from the number of parameters \(1\)"),
        (None, "a tensor is needed"),
    ],
)
def test_gradients_that_are_none_are_refused(autograd: None, gradients: Any, words: str) -> None:
    with pytest.raises(unidev.UnidevError, match=words):
        unidev.sgd({"w": unidev.ones(2)}, gradients, lr=0.1)


@pytest.mark.parametrize(
    ("gradients", "words"),
    [
        (lambda g, h: {"w": g, "u": h}, r"at \['v'\], but its gradient at \['u'\]"),
        (lambda g, h: [g, h], r"at \['v'\], but its gradient at \[0\]"),
    ],
)
def test_gradients_by_other_names_are_refused_and_nothing_is_changed(
    autograd: None, gradients: Any, words: str
) -> None:
    parameters = {"w": unidev.ones(2), "v": unidev.ones(2)}
    with pytest.raises(unidev.InvalidDataError, match=words):
        unidev.sgd(parameters, gradients(unidev.ones(2), unidev.ones(2)), lr=0.1)
    with pytest.raises(unidev.InvalidDataError, match="at the top, but its gradient at"):
        unidev.sgd(parameters["w"], [unidev.ones(2)], lr=0.1)
    assert unidev.to_numpy(parameters["w"]).tolist() == [1.0, 1.0]


def test_gradients_go_by_name_in_whatever_order(autograd: None) -> None:
    parameters = {"w": unidev.zeros(1), "v": unidev.zeros(1)}
    stepped = unidev.sgd(parameters, {"v": unidev.zeros(1), "w": unidev.ones(1)}, lr=1.0)
    assert {name: unidev.to_numpy(x).item() for name, x in stepped.items()} == {"w": -1, "v": 0}


@pytest.mark.parametrize("lr", [None, "0.1", True, [0.1], 1j, np.ones(1), 10**400])
def test_a_learning_rate_is_a_number(autograd: None, lr: Any) -> None:
    with pytest.raises(unidev.InvalidDataError, match="the learning rate, must be a real"):
        unidev.sgd(unidev.ones(2), unidev.ones(2), lr=lr)


@pytest.mark.parametrize("lr", [0.5, np.float32(0.5), np.float64(0.5), Fraction(1, 2)])
def test_a_learning_rate_may_be_a_number_of_any_kind(autograd: None, lr: Any) -> None:
    stepped = unidev.sgd(unidev.ones(2), unidev.ones(2), lr=lr)
    assert unidev.to_numpy(stepped).tolist() == [0.5, 0.5]
    assert unidev.to_numpy(unidev.sgd(stepped, unidev.ones(2), lr=np.int64(1)))[0] == -0.5


def test_of_a_model_gradients_go_by_name_and_unknown_names_are_refused(autograd: None) -> None:
    net = unidev.nn.dense(2, 1)

    def loss_of(net: Any, x: Any) -> Any:
        return net(x) * net(x)

    before = {name: unidev.to_numpy(x) for name, x in unidev.parameters(net).items()}
    _, gradients = unidev.value_and_grad(loss_of)(net, unidev.ones((1, 2)))
    assert list(gradients) == list(unidev.parameters(net)) == ["weight", "bias"]
    assert unidev.sgd(net, {"bias": gradients["bias"]}, lr=0.1) is net
    after = {name: unidev.to_numpy(x) for name, x in unidev.parameters(net).items()}
    assert np.array_equal(before["weight"], after["weight"])
    assert not np.array_equal(before["bias"], after["bias"])
    with pytest.raises(unidev.InvalidDataError, match="no parameter 'offset'; it has: weight"):
        unidev.sgd(net, {"offset": gradients["bias"]}, lr=0.1)
    with pytest.raises(unidev.InvalidDataError, match="a dict by parameter name, not list"):
        unidev.sgd(net, list(gradients.values()), lr=0.1)


def test_functions_of_their_arguments_are_differentiated_by_what_they_are_given(toy: None) -> None:
    w, outer = unidev.array([[1.0, -2.0]]), unidev.array([[3.0, 5.0]])
    _, found = unidev.value_and_grad(lambda p: total(p["w"] * outer))({"w": w, "outer": outer})
    assert unidev.to_numpy(found["w"]).tolist() == [[3.0, 5.0]]
    assert unidev.to_numpy(found["outer"]).tolist() == [[0.0, 0.0]]
    with pytest.raises(unidev.InvalidDataError, match="does not depend on any parameter"):
        unidev.value_and_grad(lambda given: total(w * w))(w)


def test_a_part_that_differentiates_only_tensors_says_so_of_a_model(toy: None) -> None:
    from toy_backend.autograd import ToyAutograd

    class OfTensors(ToyAutograd):
        of_model = Autograd.of_model

    part = OfTensors(load_backend("toy"))
    with pytest.raises(unidev.UnsupportedOperation, match="only tensors and containers of them"):
        part.of_model(lambda model: model, object(), {})


def test_a_part_with_no_way_to_differentiate_does_not_load(two_gpus: None) -> None:
    class Nothing(ByDifferences):
        gradients = Autograd.gradients

    with pytest.raises(unidev.PluginError, match=r"Nothing has none of the methods `gradients`"):
        Nothing(load_backend("numpy"))


def test_what_unidev_computes_itself_needs_no_way_to_stop_recording(toy: None) -> None:
    with load_backend("toy").autograd.detached():
        pass
    with pytest.raises(unidev.UnsupportedOperation, match="toy records nothing outside"):
        unidev.no_grad()


def test_numpy_says_that_it_has_no_autograd(two_gpus: None) -> None:
    for call in (
        lambda: unidev.value_and_grad(lambda x: x.sum())(unidev.ones(2)),
        lambda: unidev.sgd(unidev.ones(2), unidev.ones(2), lr=0.1),
        unidev.no_grad,
    ):
        with pytest.raises(unidev.UnsupportedOperation, match="NumPy has no autograd"):
            call()


@pytest.mark.parametrize("thing", [None, 3, "f", [], object()])
def test_what_is_no_function_is_refused_before_it_is_called(thing) -> None:
    with pytest.raises(unidev.InvalidDataError, match="value_and_grad needs a function"):
        unidev.value_and_grad(thing)
