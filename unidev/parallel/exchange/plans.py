"""How the tensors of a tree travel: which together, by which engine, in which dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.contract.dtypes import portable_name
from unidev.errors import UnsupportedDtypeError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.group_engine import GroupEngine
    from unidev.parallel.devices.packing import Bucket, Kind


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
