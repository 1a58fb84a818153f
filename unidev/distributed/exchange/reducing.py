"""``all_reduce``, stage by stage: by an engine, or of what it gathers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.contract.dtypes import portable_name
from unidev.distributed.exchange.transport import arrived, outgoing
from unidev.errors import UnsupportedDtypeError, UnsupportedOperation
from unidev.parallel.reducing import refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract.group_engine import GroupEngine
    from unidev.distributed.exchange.plans import Plan
    from unidev.distributed.exchange.trees import Tree

    Tensor = Any
    Start = Callable[[GroupEngine, Tensor], Callable[[], Tensor]]


def all_reduced(
    tree: Tree, plan: Plan, factor: float | None, start: Start, *, may_write: bool
) -> list[Tensor]:
    """The tensors of ``tree`` times ``factor``, combined over all workers; None for empty ones.

    All stages begin before the first is waited for. Unless it ``may_write`` to them, the tree's own
    tensors stay as they are.
    """
    backend = tree.backend
    values: list[Tensor] = [None] * len(tree.tensors)
    finishing = []
    for stage in plan.stages:
        flat = outgoing(tree, stage, tree.tensors, may_write=may_write, factor=factor)
        finishing.append(start(stage.way.engine, flat))
    for stage, finish in zip(plan.stages, finishing, strict=True):
        flat = arrived(backend, tree.device, stage, finish())
        stage.bucket.unpack(backend, flat, values)
    return values


def started(engine: GroupEngine, flat: Tensor, op: str) -> Callable[[], Tensor]:
    """Begin the sum, minimum or maximum of all workers' ``flat``, which may be written to.

    What the engine lists in ``gathered`` is combined here, in the order of ranks, and is done.
    """
    backend = engine.backend
    if portable_name(flat.dtype, backend) not in engine.gathered.get(op, ()):
        return engine.start_all_reduce(flat, op)
    total, *others = engine.all_gather(flat)
    for other in others:
        total = backend.collectives.combine(total, other, op)
    return lambda: total


def check_dtypes(tree: Tree, op: str) -> None:
    """Raise UnsupportedDtypeError if ``all_reduce`` has no ``op`` of a tensor's dtype."""
    for dtype in dict.fromkeys([dtype for _, dtype in tree.kinds]):
        reason = refusal(portable_name(dtype, tree.backend), op)
        if reason is not None:
            position = next(at for at, kind in enumerate(tree.kinds) if kind.dtype == dtype)
            raise UnsupportedDtypeError(
                f"all_reduce has no {op} of tree{tree.path(position)}, a {dtype} tensor: {reason}."
            )


def check_writable(tree: Tree) -> None:
    """Raise UnsupportedOperation if a tensor cannot have the result in place."""
    for position, x in enumerate(tree.tensors):
        if not tree.backend.collectives.is_writable(x):
            raise UnsupportedOperation(
                "all_reduce(in_place=True)",
                f"tree{tree.path(position)} cannot be written to; nothing has been changed: use "
                "the result instead",
            )
