"""``all_reduce``, stage by stage: by an engine, or of what it gathers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.contract.dtypes import portable_name
from unidev.distributed.exchange.transport import home, narrowed, outgoing
from unidev.errors import UnsupportedDtypeError, UnsupportedOperation
from unidev.parallel.reducing import refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract.group_engine import GroupEngine
    from unidev.distributed.exchange.plans import Plan
    from unidev.distributed.exchange.trees import Tree

    Tensor = Any
    Exchanged = Callable[[GroupEngine, Tensor], Tensor]


def all_reduced(
    tree: Tree, plan: Plan, factor: float | None, exchanged: Exchanged, *, may_write: bool
) -> list[Tensor]:
    """The tensors of ``tree`` times ``factor``, combined over all workers; None for empty ones.

    If the plan has a weight, ``factor`` is this worker's, and what is divided by is the sum of all
    workers': it travels with the first stage, so the others are multiplied once. Unless it
    ``may_write`` to them, the tree's own tensors stay as they are.
    """
    backend, tensors = tree.backend, [*tree.tensors, plan.weight]
    scale = backend.collectives.scale
    values: list[Tensor] = [None] * len(tensors)
    divisor = None
    for number, stage in enumerate(plan.stages):
        flat = outgoing(tree, stage, tensors, may_write=may_write)
        own = factor if factor is None or divisor is None else factor / divisor
        flat = flat if own is None else scale(flat, own)
        flat = home(tree, stage, exchanged(stage.way.engine, flat))
        if number == 0 and plan.weight is not None:
            divisor = backend.collectives.number(flat, int(flat.shape[0]) - 1)
            flat = scale(flat, 1.0 / divisor)
        stage.bucket.unpack(backend, narrowed(tree, stage, flat), values)
    return values[:-1]


def reduced(engine: GroupEngine, flat: Tensor, op: str) -> Tensor:
    """The sum, minimum or maximum of all workers' ``flat``; may write to it and return it.

    What the engine lists in ``gathered`` is combined here, in the order of ranks.
    """
    backend = engine.backend
    if portable_name(flat.dtype, backend) not in engine.gathered.get(op, ()):
        return engine.all_reduce(flat, op)
    total, *others = engine.all_gather(flat)
    for other in others:
        total = backend.collectives.combine(total, other, op)
    return total


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
