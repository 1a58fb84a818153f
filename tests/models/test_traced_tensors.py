"""Tensors that a compiler traces, which have neither a device nor memory yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import unidev
from unidev.backends.numpy_backend.backend import NumpyBackend
from unidev.contract.autograd import Autograd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Symbol(np.ndarray):  # type: ignore[type-arg]
    """An array for which nothing but shape and dtype may be asked."""


def symbol(*values: float) -> Any:
    return np.array(values, np.float32).view(Symbol)


class OfSquares(Autograd):
    """Differentiates sums of squares, of the first leaf alone."""

    def leaf(self, x: Any) -> Any:
        return x

    def of_tensors(
        self, loss_of: Callable[[Sequence[Any]], Any], leaves: Sequence[Any]
    ) -> tuple[Any, Sequence[Any]]:
        return loss_of(leaves), [2 * leaves[0], *(None for _ in leaves[1:])]

    no_grad = unidev.unsupported("nothing is recorded")

    def descend(self, parameters: Sequence[Any], gradients: Sequence[Any], lr: float) -> Any:
        return [x - np.float32(lr) * slope for x, slope in zip(parameters, gradients, strict=True)]


@pytest.fixture(autouse=True)
def compiler(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    device_of = NumpyBackend.device_of

    def refuse(self: Any, x: Any) -> Any:
        if type(x) is Symbol:
            raise unidev.UnsupportedOperation("the device of a Symbol", "it is being traced")
        return device_of(self, x)

    monkeypatch.setattr(NumpyBackend, "autograd", property(OfSquares))
    monkeypatch.setattr(NumpyBackend, "traced", lambda _, x: type(x) is Symbol)
    monkeypatch.setattr(NumpyBackend, "device_of", refuse)
    monkeypatch.setattr(
        NumpyBackend, "full_like", lambda _, x, value: np.full(x.shape, value, x.dtype).view(Symbol)
    )


def test_what_the_loss_does_not_use_has_zeros_like_it() -> None:
    x, unused = symbol(1, 2), symbol(5, 6, 7)
    loss, (slope, zeros) = unidev.value_and_grad(lambda both: (both[0] ** 2).sum(keepdims=True))(
        (x, unused)
    )
    assert (loss.tolist(), slope.tolist(), zeros.tolist()) == ([5], [2, 4], [0, 0, 0])
    assert type(zeros) is Symbol


def test_a_step_needs_no_device() -> None:
    assert unidev.sgd(symbol(1, 2), symbol(2, 4), lr=0.5).tolist() == [0, 0]


def test_a_step_with_a_gradient_of_another_shape_is_refused() -> None:
    with pytest.raises(unidev.InvalidDataError, match=r"shape \(2,\), but its gradient \(1,\)"):
        unidev.sgd(symbol(1, 2), symbol(2), lr=0.5)


def test_a_length_that_is_not_known_yet_is_left_to_the_framework(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Blind(Symbol):
        shape = (None,)  # type: ignore[assignment]

    monkeypatch.setattr(NumpyBackend, "traced", lambda _, x: isinstance(x, Symbol))
    assert unidev.sgd(symbol(1, 2).view(Blind), symbol(2, 4), lr=0.5).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("make", "value"), [(unidev.zeros_like, 0), (unidev.ones_like, 1), (unidev.empty_like, 0)]
)
def test_likenesses_are_where_it_will_be(make: Callable[[Any], Any], value: int) -> None:
    made = make(symbol(3, 4))
    assert (type(made), made.tolist()) == (Symbol, [value, value])
    assert unidev.device_of(make(unidev.ones(2, device="gpu:1"))) is unidev.gpu(1)


@pytest.mark.parametrize(
    "call",
    [
        unidev.device_of,
        lambda x: unidev.as_in_device(x, "gpu:1"),
        lambda x: unidev.same_device(x, x),
        lambda x: unidev.device_put({"x": x}, "cpu"),
    ],
)
def test_what_needs_a_device_is_refused_in_words(call: Callable[[Any], Any]) -> None:
    with pytest.raises(unidev.UnsupportedOperation, match="it is being traced"):
        call(symbol(1))


def test_a_refusal_can_be_raised_again_from_its_message() -> None:
    error = unidev.UnsupportedOperation("device_of", "it is being traced")
    assert str(type(error)(f"{error}, in line 3")) == f"{error}, in line 3"
