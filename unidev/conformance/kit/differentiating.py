"""Shared by the checks of gradients: sample numbers, losses, and assertions about a gradient.

Functions use only ``+``, ``-``, ``*`` and ``@``, which every framework has, and compute within the
scope of their operand's device, since not every framework's results follow their operands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.conformance.kit.workbench import Workbench
    from unidev.contract.device import Device

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


def total(workbench: Workbench, x: Tensor) -> Tensor:
    """The sum of a matrix as a tensor of one element, on the matrix's device."""
    device = unidev.device_of(x)
    rows, columns = (int(size) for size in x.shape)
    left = workbench.make(np.ones((1, rows), "float32"), device)
    right = workbench.make(np.ones((columns, 1), "float32"), device)
    with device:
        return left @ x @ right


def gradients(
    workbench: Workbench,
    function: Callable[..., Tensor],
    arrays: Sequence[Array],
    devices: Sequence[Device],
    where: str,
) -> Sequence[Tensor | None]:
    """The probe's gradients of the sum of ``function``.

    Raises:
        AssertionError: it raises, as some frameworks do if nothing flows.
    """
    workbench.evidence.touch(*devices)
    try:
        return workbench.probe.autograd.gradients(function, arrays, devices)
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{where}: no gradient: {type(error).__name__}: {error}") from error


def check_gradient(
    workbench: Workbench, slope: Tensor | None, expected: Array, device: Device, where: str
) -> None:
    """A gradient exists, has exactly these numbers, and is on ``device``."""
    assert slope is not None, f"{where}: no gradient reaches the source"
    found = read(workbench, slope, expected)
    assert np.array_equal(found, expected), (
        f"{where}: the gradient is {found.tolist()}, not {expected.tolist()}"
    )
    workbench.oracle.check_device(slope, device, f"{where}: the gradient")
    workbench.evidence.add("gradient", f"{where}: {found.ravel()[:4].tolist()} on {device}")


def check_none(
    workbench: Workbench, slope: Tensor | None, shape: tuple[int, ...], where: str
) -> None:
    """No gradient exists, or it is zeros."""
    if slope is None:
        return
    found = read(workbench, slope, np.zeros(shape, "float32"))
    assert not found.any(), f"{where}: a gradient arrives where none should: {found.tolist()}"


def read(workbench: Workbench, x: Tensor, like: Array) -> Array:
    """The numbers of a float32 tensor, read by the probe."""
    content = workbench.probe.read(x)
    assert len(content) == like.nbytes, (
        f"a tensor of {len(content)} bytes where {like.nbytes} were expected: shape "
        f"{tuple(x.shape)}, not {like.shape}"
    )
    found: Array = np.frombuffer(content, dtype="float32").reshape(like.shape)
    return found
