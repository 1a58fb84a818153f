"""Parts of the examples of transfers: arrays, and the transfers to expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]

from unidev.contract import PlannedTransfer

if TYPE_CHECKING:
    from unidev.contract import Device

    Size = tuple[int, tuple[int, ...]]

MATRIX: Size = (16, (2, 2))
"""The bytes and the shape of ``matrix``."""


def matrix(device: Device) -> Any:
    """Four float32."""
    return mx.np.array([[1.0, 2.0], [3.0, 4.0]], ctx=device.native)


def legacy(device: Device) -> Any:
    """The same, of the legacy class."""
    return matrix(device).as_nd_ndarray()


def one(device: Device) -> Any:
    """A float32 without dimensions."""
    return mx.np.array(3.0, ctx=device.native)


def moves(
    name: str, source: Device, target: Device, *sizes: Size
) -> tuple[PlannedTransfer, ...]:  # fmt: skip
    """Transfers of that name, one of each size, which is its bytes and its shape."""
    return tuple(PlannedTransfer(name, source, target, *size) for size in sizes)
