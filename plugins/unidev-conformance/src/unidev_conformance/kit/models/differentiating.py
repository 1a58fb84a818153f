"""Shared by the checks of gradients: sample numbers, losses, and assertions about a gradient.

Functions use only ``+``, ``-``, ``*`` and ``@``, which every framework has, and compute within the
scope of their operand's device, since not every framework's results follow their operands.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Array = np.ndarray[Any, Any]
    Tensor = Any


def wholes(*shape: int, start: int = 1) -> Array:
    """Small integers in float32: their products and sums are exact in any order."""
    count = int(np.prod(shape, dtype=np.int64))
    return (np.arange(count) % 5 + start).astype("float32").reshape(shape)


def times(x: Tensor, y: Tensor) -> Tensor:
    """``x * y``, computed on the device of ``x``."""
    with unidev.device_of(x):
        return x * y


def plus(x: Tensor, y: Tensor) -> Tensor:
    """``x + y``, computed on the device of ``x``."""
    with unidev.device_of(x):
        return x + y


def total(x: Tensor) -> Tensor:
    """The sum of a matrix as a tensor of one element, on the matrix's device."""
    device = unidev.device_of(x)
    rows, columns = (int(size) for size in x.shape)
    left = unidev.ones((1, rows), dtype=x.dtype, device=device)
    right = unidev.ones((columns, 1), dtype=x.dtype, device=device)
    with device:
        return left @ x @ right


def squares(x: Tensor) -> Tensor:
    """The sum of the squares of a matrix."""
    return total(times(x, x))


def squares_of(model: Any, x: Tensor) -> Tensor:
    """Those of the model's output, computed on the device of ``x``."""
    with unidev.device_of(x):
        return squares(model(x))


def gradients(
    bench: Workbench,
    function: Callable[..., Tensor],
    arrays: Sequence[Array],
    devices: Sequence[Device],
    where: str,
) -> Sequence[Tensor | None]:
    """The probe's gradients of the sum of ``function``.

    Raises:
        AssertionError: it raises, as some frameworks do if nothing flows.
    """
    bench.evidence.touch(*devices)
    try:
        return bench.probe.autograd.gradients(function, arrays, devices)
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{where}: no gradient: {type(error).__name__}: {error}") from error


def within_scopes(levels: Sequence[bool], call: Callable[[], Tensor]) -> Tensor:
    """``call`` in nested ``no_grad``, once the inner ones were left, if True by an exception."""
    found: list[Tensor] = []
    with contextlib.suppress(ZeroDivisionError), unidev.no_grad():
        if len(levels) > 1:
            within_scopes(levels[1:], call)
        found.append(call())
        if levels[0]:
            raise ZeroDivisionError("as a user's own code may, within the scope")
    return found[0]


def after_gradients(bench: Workbench, device: Device, call: Callable[[], Tensor]) -> Tensor:
    """``call()``, once ``value_and_grad`` has returned here, and has passed on an error."""
    values = wholes(2, 3)
    x = bench.make(values, device)
    _, gradient = bench.works(unidev.value_and_grad(squares), x)
    check_gradient(
        bench, gradient, 2 * values, device, f"value_and_grad inside no_grad, on {device}"
    )
    with contextlib.suppress(ZeroDivisionError):
        unidev.value_and_grad(_raising)(x)
    return call()


def refuses_where_it_records(bench: Workbench) -> bool:
    """Whether ``no_grad`` cannot be entered in a function that the framework differentiates.

    If so, its caller learns that on each device, and outside of such functions it changes nothing.
    """
    values, refused = wholes(2, 3), []

    def function(x: Tensor) -> Tensor:
        try:
            with unidev.no_grad():
                times(x, x)
        except unidev.UnsupportedOperation as error:
            refused.append(str(error))
        return times(x, x)

    for number, device in enumerate(bench.devices):
        where = f"on {device}, with no_grad inside"
        (gradient,) = gradients(bench, function, (values,), (device,), where)
        check_gradient(bench, gradient, 2 * values, device, where)
        if not refused:
            return False
        assert len(refused) == number + 1, f"{where}: not refused, and elsewhere it is"
        with unidev.no_grad():
            after_gradients(bench, device, lambda: None)
    bench.evidence.add("refused where the framework records", refused[0])
    return True


def _raising(_: Tensor) -> Tensor:
    raise ZeroDivisionError("as a user's own loss may, which must reach the user")


def check_gradient(
    bench: Workbench, grad: Tensor | None, expected: Array, device: Device, where: str
) -> None:
    """A gradient exists, has exactly these numbers, and is on ``device``."""
    assert grad is not None, f"{where}: no gradient reaches the source"
    found = read(bench, grad, expected)
    assert np.array_equal(found, expected), f"{where}: the gradient"
    bench.oracle.check_device(grad, device, f"{where}: the gradient")
    bench.evidence.add("gradient", f"{where}: {found.ravel()[:4].tolist()} on {device}")


def check_none(bench: Workbench, grad: Tensor | None, shape: tuple[int, ...], where: str) -> None:
    """No gradient exists, or it is zeros."""
    if grad is None:
        return
    found = read(bench, grad, np.zeros(shape, "float32"))
    assert not found.any(), f"{where}: a gradient arrives where none should: {found.tolist()}"


def read(bench: Workbench, x: Tensor, like: Array) -> Array:
    """The numbers of a tensor of the dtype of ``like``, read by the probe."""
    content = bench.probe.read(x)
    shapes = f"shape {tuple(x.shape)}, not {like.shape}"
    assert len(content) == like.nbytes, f"a tensor of other bytes: {shapes}"
    found: Array = np.frombuffer(content, dtype=like.dtype).reshape(like.shape)
    return found
