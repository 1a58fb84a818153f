"""How the tensors of a tree travel: which together, by which engine, in which dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.contract.dtypes import portable_name
from unidev.errors import UnsupportedDtypeError
from unidev.parallel.packing import Bucket, Kind, buckets_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    """Of the call and the structure, the same on all workers."""
    stages: list[Stage]


def stages_of(
    backend: Backend,
    kinds: Sequence[Kind],
    act: str,
    engines: Sequence[GroupEngine],
    buckets: Iterable[Bucket] | None = None,
) -> list[Stage]:
    """The exchanges for tensors of these kinds; the first of ``engines`` that can takes each.

    ``act`` is one of the keys of ``GroupEngine.carries``; ``buckets`` are by default those of
    ``buckets_of``.

    Raises:
        UnsupportedDtypeError: none can.
    """
    ways = {
        dtype: _way(backend, dtype, act, engines)
        for dtype in dict.fromkeys(kind.dtype for kind in kinds)
    }
    found = []
    for bucket in buckets_of(backend, kinds) if buckets is None else buckets:
        dtype = kinds[bucket.positions[0]].dtype
        found.append(Stage(bucket, ways[dtype], dtype))
    return found


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
