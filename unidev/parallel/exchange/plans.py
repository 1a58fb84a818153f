"""How the tensors of a tree travel: which together, by which engine, in which dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.contract.dtypes import portable_name
from unidev.errors import UnsupportedDtypeError, UnsupportedOperation
from unidev.parallel.devices.packing import Bucket, Kind, buckets_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.group_engine import GroupEngine


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


def stages_of(
    backend: Backend, kinds: Sequence[Kind], act: str, engines: Sequence[GroupEngine]
) -> list[Stage]:
    """The exchanges for tensors of these kinds; the first of ``engines`` that can takes each.

    ``act`` is one of the keys of ``GroupEngine.carries``.

    Raises:
        UnsupportedDtypeError: none can.
    """
    ways = {dtype: _way(backend, dtype, act, engines) for dtype in _dtypes(kinds)}
    return _stages(kinds, buckets_of(backend, kinds), ways)


def sums_of(
    backend: Backend,
    kinds: Sequence[Kind],
    buckets: Iterable[Bucket],
    engines: Sequence[GroupEngine],
    reduce_dtype: str | None,
) -> list[Stage]:
    """Sums of these buckets; of floating-point tensors in ``reduce_dtype``, if it is given.

    ``check_narrow`` has been called.

    Raises:
        UnsupportedDtypeError: no engine can.
    """
    ways = {
        dtype: _way(backend, dtype, "sum", engines)
        if reduce_dtype is None
        else _narrow_way(backend, dtype, engines, reduce_dtype)
        for dtype in _dtypes(kinds)
    }
    return _stages(kinds, buckets, ways)


def _dtypes(kinds: Sequence[Kind]) -> list[Any]:
    return list(dict.fromkeys(kind.dtype for kind in kinds))


def _stages(
    kinds: Sequence[Kind], buckets: Iterable[Bucket], ways: Mapping[Any, Way]
) -> list[Stage]:
    found = []
    for bucket in buckets:
        dtype = kinds[bucket.positions[0]].dtype
        found.append(Stage(bucket, ways[dtype], dtype))
    return found


def check_narrow(engine: GroupEngine, reduce_dtype: str) -> None:
    """Raise UnsupportedOperation if the engine cannot sum in ``reduce_dtype``."""
    if reduce_dtype not in engine.narrow:
        raise UnsupportedOperation(
            f'reduce_dtype="{reduce_dtype}"',
            f"{engine.backend.spec.framework}'s engine sums it in a wider dtype only",
        )


def _narrow_way(
    backend: Backend, dtype: Any, engines: Sequence[GroupEngine], reduce_dtype: str
) -> Way:
    name = portable_name(dtype, backend) or ""
    if "float" not in name:
        return _way(backend, dtype, "sum", engines)
    return Way(engines[0], None if name == reduce_dtype else backend.dtypes[reduce_dtype])


def _way(backend: Backend, dtype: Any, act: str, engines: Sequence[GroupEngine]) -> Way:
    name = portable_name(dtype, backend) or ""
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
