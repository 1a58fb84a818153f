"""How the tensors of a tree travel: together or alone, by which engine, packed, cast, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.contract.backend import Unsupported
from unidev.contract.dtypes import portable_name
from unidev.errors import UnsupportedDtypeError, UnsupportedOperation
from unidev.parallel.devices.packing import copied, write

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.group_engine import GroupEngine
    from unidev.device import Device
    from unidev.parallel.devices.packing import Bucket, Kind
    from unidev.parallel.exchange.trees import Tree

    Tensor = Any


class Way(NamedTuple):
    """How the tensors of one dtype travel."""

    engine: GroupEngine
    wide: Any
    """The framework's dtype to which they are cast meanwhile; None: none."""


class Stage(NamedTuple):
    """One exchange."""

    bucket: Bucket
    way: Way
    dtype: Any


class Plan(NamedTuple):
    """The exchanges that the workers agreed on for one structure."""

    code: int
    """The code of the call and the structure, the same on all workers."""
    stages: list[Stage]


def stages_of(  # noqa: PLR0913  what, by whom and how
    backend: Backend,
    kinds: Sequence[Kind],
    buckets: Iterable[Bucket],
    act: str,
    engines: Sequence[GroupEngine],
    *,
    reduce_dtype: str | None = None,
) -> list[Stage]:
    """The exchanges of these buckets; the first of ``engines`` that can takes each.

    ``act`` is one of the keys of ``GroupEngine.carries``. A sum of floating-point tensors is made
    in ``reduce_dtype``, if that is given; ``check_narrow`` has been called.

    Raises:
        UnsupportedDtypeError: no engine can.
    """
    dtypes = dict.fromkeys(kind.dtype for kind in kinds)
    ways = {dtype: _way(backend, dtype, act, engines, reduce_dtype) for dtype in dtypes}
    of_buckets = [(each, kinds[each.positions[0]].dtype) for each in buckets]
    return [Stage(bucket, ways[dtype], dtype) for bucket, dtype in of_buckets]


def check_narrow(engine: GroupEngine, reduce_dtype: str) -> None:
    """Raise UnsupportedOperation if the engine cannot sum in ``reduce_dtype``."""
    if reduce_dtype not in engine.narrow:
        raise UnsupportedOperation(
            f'reduce_dtype="{reduce_dtype}"',
            f"{engine.backend.spec.framework}'s engine sums it in a wider dtype only",
        )


def _way(
    backend: Backend, dtype: Any, act: str, engines: Sequence[GroupEngine], reduce_dtype: str | None
) -> Way:
    name = portable_name(dtype, backend) or ""
    if reduce_dtype is not None and "float" in name:
        return Way(engines[0], None if name == reduce_dtype else backend.dtypes[reduce_dtype])
    for engine in engines:
        carried = engine.carries.get(act, frozenset[str]())
        wider = engine.wider.get(name)
        if name in carried and (wider is None or act != "sum"):
            return Way(engine, None)
        if wider in carried and wider in backend.dtypes:
            return Way(engine, backend.dtypes[wider])
    raise UnsupportedDtypeError(
        f"the workers cannot exchange {dtype} tensors: convert them to a dtype such as float32."
    )


def outgoing(tree: Tree, stage: Stage, *, may_write: bool, factor: float | None = None) -> Tensor:
    """The tree's tensors of a stage as one, times ``factor``; a copy, unless it ``may_write``."""
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
