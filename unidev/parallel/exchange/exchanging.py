"""The collectives of a group: agreed with the other workers, packed, exchanged, unpacked."""

from __future__ import annotations

import pickle
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from unidev.errors import BackendMismatchError, UnidevError, UnsupportedDtypeError
from unidev.parallel.devices.packing import buckets_of, shares_of, unrecorded, with_empty_ones
from unidev.parallel.exchange.agreeing import (
    Agreement,
    Participation,
    Proposal,
    code_of,
    tree_lines,
    with_weights,
)
from unidev.parallel.exchange.engines import Engines
from unidev.parallel.exchange.transport import Plan, Stage, arrived, outgoing, stages_of, write_back
from unidev.system.host.board import JOINING, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.parallel.exchange.membership import Membership
    from unidev.parallel.exchange.trees import Tree

    Tensor = Any
    T = TypeVar("T")

NEW_MEMORY, IN_PLACE, ANYWHERE = "new memory", "in place", "anywhere"
"""Where the results of ``all_reduce`` may be."""


class Exchange:
    """One worker's exchanges with the others; all call the same methods in the same order."""

    def __init__(self, own: Membership, device: Callable[[], Device]) -> None:
        self.rank = own.rank
        self._own = own
        self._plans: dict[Hashable, Plan] = {}
        self.engines = Engines(own, device)
        self._agreement = Agreement(own, self.engines, device)
        self.part = Participation(own, self.engines, self._agreement)

    def all_reduce(
        self, tree: Tree, op: str, weights: float | Sequence[float] | None, into: str
    ) -> Any:
        """``op`` (sum, mean, min, max) over all workers.

        ``weights`` of a mean are this worker's own one, or those of all. ``into`` is what may be
        written to: ``NEW_MEMORY`` alone; ``IN_PLACE``, the tree's tensors, which have the results;
        or ``ANYWHERE``, as the tree is not used any more.
        """
        listed = None if weights is None or isinstance(weights, float) else weights
        own = weights if isinstance(weights, float) else None
        combined = "sum" if op == "mean" else op
        call = f"all_reduce of {op}" + ("" if own is None else ", weighted")
        with self._agreed("all_reduce", call, tree, combined, weight=own, listed=listed) as (
            plan, everybodys,
        ):  # fmt: skip
            factor = self._factor(op, everybodys if own is not None else listed)
            values = self._combined(tree, plan, combined, factor, may_write=into != NEW_MEMORY)
            if into == IN_PLACE:
                write_back(tree, values)
                return tree.tree
            whole = with_empty_ones(tree.backend, tree.kinds, values, tree.device)
            return tree.with_tensors(whole)

    def broadcast(self, tree: Tree, root: int) -> list[Tensor]:
        """The tensors of the worker ``root``, in new memory."""
        call = f"broadcast from worker {root}"
        with self._agreed("broadcast", call, tree, "broadcast") as (plan, _):
            is_root = self._own.rank == root

            def exchanged(stage: Stage, flat: Tensor) -> list[Tensor]:
                return [self.engines.run(tree.backend, stage.way.engine.broadcast, flat, root)]

            return self._each(tree, plan, exchanged, keeps_input=is_root)[0]

    def all_gather(self, tree: Tree) -> list[list[Tensor]]:
        """The tensors of each worker, by rank, in new memory."""
        with self._agreed("all_gather", "all_gather", tree, "gather") as (plan, _):

            def exchanged(stage: Stage, flat: Tensor) -> list[Tensor]:
                return [*self.engines.run(tree.backend, stage.way.engine.all_gather, flat)]

            return self._each(tree, plan, exchanged, count=self._own.size, keeps_input=True)

    def agree(self, operation: str, call: str) -> None:
        """Return when all workers have called it; ``call``, the operation in words, is compared."""
        with self._agreed_without_tree(operation, call):
            return

    def by_the_first(self, operation: str, call: str, work: Callable[[], T]) -> T:
        """Return or raise on every worker as ``work()`` does at rank 0; ``call`` is compared."""
        own = self._own
        with self._agreed_without_tree(operation, call):
            if own.channel is None:
                return work()
            done = b"" if own.rank else pickle.dumps(_tried(work))
            result, error = pickle.loads(own.channel.shared(done))  # noqa: S301  our own worker's
        if error is not None:
            self._agreement.refuse()
            raise error
        return result  # type: ignore[no-any-return]

    def forget_plans(self) -> None:
        """Decide anew how the tensors of each structure travel; all workers call it."""
        self._plans.clear()

    def join(self, backend: Backend) -> None:
        """Join the engine for the tensors of ``backend``; a collective."""
        with self._agreed_without_tree(OPERATIONS[JOINING], OPERATIONS[JOINING]):
            self.engines.of(backend)

    # -- agreeing ------------------------------------------------------------------------------

    @contextmanager
    def _agreed(  # noqa: PLR0913  each is compared, or decides how tensors travel
        self,
        operation: str,
        call: str,
        tree: Tree,
        act: str,
        *,
        weight: float | None = None,
        listed: Sequence[float] | None = None,
    ) -> Iterator[tuple[Plan, Sequence[float]]]:
        """A collective, once all workers agree on it, with their weights; known plans are kept."""
        self.part.check()
        mark = self._own.mark
        key = tree.key()
        plan = None if key is None else self._plans.get((call, key))
        code = code_of(call, tree_lines(tree)) if plan is None else plan.code
        compared = code if listed is None else with_weights(code, listed)
        number = mark.enter(OPERATIONS.index(operation))
        proposal = Proposal(number, call, compared, weight, lambda: tree_lines(tree, listed))
        at_once = plan is None or not plan.stages
        with (
            unrecorded(tree.backend),
            self._agreement.reached(proposal, at_once=at_once) as weights,
        ):
            if plan is None:
                plan = Plan(code, self._stages(tree, act))
                if key is not None:
                    self._plans[call, key] = plan
            yield plan, weights
        mark.leave()

    def _stages(self, tree: Tree, act: str) -> list[Stage]:
        backend, kinds = tree.backend, tree.kinds
        try:
            engines = self.engines.for_kinds(backend, kinds, tree.device)
            return stages_of(backend, kinds, buckets_of(backend, kinds), act, engines)
        except (BackendMismatchError, UnsupportedDtypeError):  # of what all have agreed on
            self._agreement.refuse()
            raise

    @contextmanager
    def _agreed_without_tree(self, operation: str, call: str) -> Iterator[None]:
        self.part.check()
        number = self._own.mark.enter(OPERATIONS.index(operation))
        proposal = Proposal(number, call, code_of(call, []), None, list)
        with self._agreement.reached(proposal, at_once=True):
            yield
        self._own.mark.leave()

    def _factor(self, op: str, weights: Sequence[float] | None) -> float | None:
        """What this worker's tensors are multiplied by before the sum; None: not at all."""
        if weights is None:
            return 1 / self._own.size if op == "mean" and self._own.size > 1 else None
        return shares_of(weights)[self._own.rank]

    # -- packing -------------------------------------------------------------------------------

    def _combined(
        self, tree: Tree, plan: Plan, op: str, factor: float | None, *, may_write: bool
    ) -> list[Tensor]:
        """The tensors of ``tree`` times ``factor``, combined over all workers; None for empty ones.

        All stages begin before the first is waited for. Unless it ``may_write`` to them, the tree's
        own tensors stay as they are.
        """
        backend = tree.backend
        values: list[Tensor] = [None] * len(tree.tensors)
        finishing = []
        for stage in plan.stages:
            flat = outgoing(tree, stage, may_write=may_write, factor=factor)
            finishing.append(self.engines.start_all_reduce(backend, stage.way.engine, flat, op))
        for stage, finish in zip(plan.stages, finishing, strict=True):
            flat = arrived(backend, tree.device, stage, finish())
            stage.bucket.unpack(backend, flat, values)
        return values

    def _each(
        self,
        tree: Tree,
        plan: Plan,
        exchanged: Callable[[Stage, Tensor], list[Tensor]],
        *,
        count: int = 1,
        keeps_input: bool,
    ) -> list[list[Tensor]]:
        """For each of ``count`` results, the tensors that ``exchanged`` gives for all stages."""
        found: list[list[Tensor]] = [[None] * len(tree.tensors) for _ in range(count)]
        for stage in plan.stages:
            flat = outgoing(tree, stage, may_write=keeps_input)
            for values, result in zip(found, exchanged(stage, flat), strict=True):
                back = arrived(tree.backend, tree.device, stage, result)
                if any(back is x for x in tree.tensors):  # the root's own
                    back = tree.backend.copy_to(back, tree.device, False)
                stage.bucket.unpack(tree.backend, back, values)
        return [with_empty_ones(tree.backend, tree.kinds, values, tree.device) for values in found]


def _tried(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return work(), None
    except (UnidevError, OSError) as error:
        return None, error
