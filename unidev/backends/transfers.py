"""The transfers of unidev's own verbs, as ``PlannedTransfer``s: bytes from shape and dtype."""

from __future__ import annotations

import math

from unidev.contract.dtypes import DTYPES, NARROW, name_of
from unidev.errors import UnidevError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.values import PlannedTransfer

    Shape = tuple[int, ...]

_known: dict[tuple[str, Any], int | None] = {}
"""By backend and dtype: looking up a name compares with every dtype."""


def of_tensor(
    operation: str, x: Any, target: Device, backend: Backend
) -> tuple[PlannedTransfer, ...]:
    """The transfer of ``x`` to ``target``: none if ``x`` is there already."""
    source = _device_of(x, backend)
    if source is None or source is target:
        return ()
    return (planned(operation, source, target, nbytes_of(x, backend), known_shape(x)),)


def into_tensor(operation: str, x: Any, backend: Backend) -> tuple[PlannedTransfer, ...]:
    """The transfer of values from the host into ``x``."""
    target = _device_of(x, backend)
    if target is None or target is backend.cpu:
        return ()
    return (planned(operation, backend.cpu, target, nbytes_of(x, backend), known_shape(x)),)


def from_host(
    operation: str, shape: tuple[int, ...], dtype: Any, target: Device, backend: Backend
) -> tuple[PlannedTransfer, ...]:
    """The transfer of a new tensor's values from the host to ``target``."""
    if target is backend.cpu:
        return ()
    size = math.prod(shape) * (item_bytes(dtype, backend) or 0)
    return (planned(operation, backend.cpu, target, size, shape),)


def of_model(
    operation: str, model: Any, target: Device, backend: Backend
) -> tuple[PlannedTransfer, ...]:
    """The transfers that place ``model`` on ``target``, one from each device; no optimizer's."""
    try:
        tensors = backend.models.tensors(model).values()
    except UnidevError:  # placing it raises the same error, to the user
        return ()
    return of_tensors(operation, tensors, target, backend)


def of_tensors(
    operation: str, tensors: Iterable[Any], target: Device, backend: Backend
) -> tuple[PlannedTransfer, ...]:
    """The transfers that bring these to ``target``: one from each device where some are."""
    sizes: dict[Device, int] = {}
    shapes: dict[Device, list[tuple[int, ...] | None]] = {}
    for x in {id(x): x for x in tensors}.values():  # each once
        source = _device_of(x, backend)
        if source is not None and source is not target:
            sizes[source] = sizes.get(source, 0) + nbytes_of(x, backend)
            shapes.setdefault(source, []).append(known_shape(x))
    return tuple(
        planned(operation, source, target, size, found[0] if len(found) == 1 else None)
        for (source, size), found in zip(sizes.items(), shapes.values(), strict=True)
    )


def nbytes_of(x: Any, backend: Backend) -> int:
    """The bytes of the values of ``x``; for a composite tensor, of all its memory."""
    shape = known_shape(x)
    item = item_bytes(getattr(x, "dtype", None), backend)
    if shape is not None and item is not None:
        return math.prod(shape) * item
    try:
        return sum(extent.nbytes for extent in backend.extents(x))
    except UnidevError:  # the backend does not report addresses
        return 0
    except backend.framework_errors:  # nor does the framework, for strings and the like
        return 0


def planned(
    operation: str, source: Device, target: Device, nbytes: int, shape: Shape | None
) -> PlannedTransfer:
    """A transfer, as a recorder takes it."""
    from unidev.values import PlannedTransfer  # only where something records

    return PlannedTransfer(operation, source, target, nbytes, shape)


def _device_of(x: Any, backend: Backend) -> Device | None:
    try:
        return backend.device_of(x)
    except UnidevError:  # symbolic, deleted or spread: the call itself reports that
        return None


def known_shape(x: Any) -> tuple[int, ...] | None:
    """The shape of tensor ``x``, if it is known in full and says all."""
    try:
        return tuple(int(length) for length in x.shape)
    except (AttributeError, TypeError, ValueError, RuntimeError):  # no rank; ragged, nested
        return None


def item_bytes(dtype: Any, backend: Backend) -> int | None:
    """The bytes of one element; None for a dtype that unidev does not know."""
    key = (backend.name, dtype)
    if key not in _known:
        name = name_of(dtype, backend) or ""
        known = DTYPES.get(name) or NARROW.get(name)
        _known[key] = None if known is None else known.nbytes
    return _known[key]
