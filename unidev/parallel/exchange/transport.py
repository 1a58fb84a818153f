"""The tensors of a stage on their way: packed, cast, brought to the host, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.contract.backend import Unsupported
from unidev.parallel.devices.packing import copied, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.group_engine import GroupEngine
    from unidev.device import Device
    from unidev.parallel.exchange.plans import Stage, Way
    from unidev.parallel.exchange.trees import Tree

    Tensor = Any


def outgoing(tree: Tree, stage: Stage, *, may_write: bool, factor: float | None = None) -> Tensor:
    """The tree's tensors of a stage as one, times ``factor``.

    In new memory, unless it ``may_write`` to the only one.
    """
    backend, (bucket, way, _) = tree.backend, stage
    tensors = [tree.tensors[position] for position in bucket.positions]
    if bucket.is_packed:
        flat = backend.collectives.pack(tensors)
    else:
        (flat,) = tensors
        goes_away = _goes_away(backend, tree.device, way.engine)
        if not may_write and way.wide is None and not goes_away:
            flat = backend.copy_to(flat, tree.device, False)
    return departing(backend, tree.device, way, flat, factor)


def departing(
    backend: Backend, device: Device, way: Way, flat: Tensor, factor: float | None
) -> Tensor:
    """A tensor on ``device`` in the dtype in which it travels, times ``factor``, for its engine."""
    if way.wide is not None:
        flat = backend.cast(flat, way.wide, device)
    if factor is not None:
        flat = backend.collectives.scale(flat, factor)
    if _goes_away(backend, device, way.engine):
        flat = copied(backend, "all_reduce", flat, backend.cpu)
    return flat


def arrived(backend: Backend, device: Device, stage: Stage, flat: Tensor) -> Tensor:
    """The exchanged tensor on ``device``, in the dtype that it had before."""
    if _goes_away(backend, device, stage.way.engine):
        flat = copied(backend, "all_reduce", flat, device)
    return flat if stage.way.wide is None else backend.cast(flat, stage.dtype, device)


def with_empty_ones(tree: Tree, values: Sequence[Tensor]) -> list[Tensor]:
    """The values of the tree's own tensors; those that were not exchanged have no elements."""
    return [
        tree.backend.empty(kind.shape, kind.dtype, tree.device) if value is None else value
        for kind, value in zip(tree.kinds, values, strict=False)
    ]


def write_back(tree: Tree, values: Sequence[Tensor]) -> None:
    """Write to the tree's tensors what was not exchanged in their own memory."""
    pairs = [
        (target, value)
        for target, value in zip(tree.tensors, values, strict=False)
        if value is not None and not _is_same_memory(target, value, tree.backend)
    ]
    if pairs:
        targets, new = zip(*pairs, strict=True)
        write(tree.backend, targets, new)


def _goes_away(backend: Backend, device: Device, engine: GroupEngine) -> bool:
    return engine.on_host and device is not backend.cpu


def _is_same_memory(target: Tensor, value: Tensor, backend: Backend) -> bool:
    if value is target:
        return True
    if isinstance(backend.extents, Unsupported):
        return False
    return bool(backend.extents(target) == backend.extents(value))
