"""The collectives of a group: agreed with the other workers, packed, exchanged, unpacked."""

from __future__ import annotations

import pickle
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from unidev.contract.backend import Unsupported
from unidev.distributed.exchange.host_engine import HostEngine, SingleWorkerEngine
from unidev.distributed.exchange.plans import Plan, Stage, stages_of, weight_like
from unidev.distributed.exchange.reducing import all_reduced, reduced
from unidev.distributed.exchange.transport import (
    home,
    narrowed,
    outgoing,
    with_empty_ones,
    write_back,
)
from unidev.distributed.exchange.trees import Tree, signature
from unidev.distributed.messages.board import JOINING, OPERATIONS
from unidev.distributed.messages.channel import Channel
from unidev.errors import BackendMismatchError, CollectiveError, InvalidDataError, UnidevError
from unidev.parallel.packing import kinds_of, unrecorded

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device
    from unidev.contract.group_engine import GroupEngine
    from unidev.distributed.exchange.membership import Membership

    Tensor = Any
    T = TypeVar("T")

NEW_MEMORY, IN_PLACE, ANYWHERE = "new memory", "in place", "anywhere"
"""Where the results of ``all_reduce`` may be."""
_NUMBERS = {name: number for number, name in enumerate(OPERATIONS)}


class Exchange:
    """One worker's exchanges with the others; all call the same methods in the same order."""

    def __init__(self, own: Membership, device: Callable[[], Device]) -> None:
        self._own = own
        self._device = device
        self._plans: dict[Hashable, Plan] = {}
        self._engines: dict[str, list[GroupEngine]] = {}
        self._joined: list[GroupEngine] = []

    def all_reduce(
        self, tree: Tree, op: str, factor: float | None, is_own_weight: bool, into: str
    ) -> Any:
        """``op`` (sum, min, max) over all workers, of tensors times ``factor``.

        With ``is_own_weight``, divided by the sum of all workers' factors. ``into`` is what may be
        written to: ``NEW_MEMORY`` alone; ``IN_PLACE``, the tree's tensors, which have the results;
        or ``ANYWHERE``, as the tree is not used any more.
        """
        call = f"all_reduce of {op}" + (", weighted" if is_own_weight else "")
        with self._agreed("all_reduce", call, tree, op, has_weight=is_own_weight) as plan:

            def exchanged(engine: GroupEngine, flat: Tensor) -> Tensor:
                return self._run(tree.backend, reduced, engine, flat, op)

            values = all_reduced(tree, plan, factor, exchanged, may_write=into != NEW_MEMORY)
            if into == IN_PLACE:
                write_back(tree, values)
                return tree.tree
            return tree.with_tensors(with_empty_ones(tree, values))

    def broadcast(self, tree: Tree, root: int) -> list[Tensor]:
        """The tensors of the worker ``root``, in new memory."""
        call = f"broadcast from worker {root}"
        with self._agreed("broadcast", call, tree, "broadcast") as plan:
            is_root = self._own.rank == root

            def exchanged(stage: Stage, flat: Tensor) -> list[Tensor]:
                return [self._run(tree.backend, stage.way.engine.broadcast, flat, root)]

            return self._each(tree, plan, exchanged, keeps_input=is_root)[0]

    def all_gather(self, tree: Tree) -> list[list[Tensor]]:
        """The tensors of each worker, by rank, in new memory."""
        with self._agreed("all_gather", "all_gather", tree, "gather") as plan:

            def exchanged(stage: Stage, flat: Tensor) -> Sequence[Tensor]:
                gathered: Sequence[Tensor] = self._run(
                    tree.backend, stage.way.engine.all_gather, flat
                )
                return gathered

            return self._each(tree, plan, exchanged, count=self._own.size, keeps_input=True)

    def barrier(self) -> None:
        """Return when all workers have called it."""
        self.agree("barrier", "barrier")

    def agree(self, operation: str, call: str) -> None:
        """Return when all workers have called it; ``call``, the operation in words, is compared."""
        mark = self._own.mark
        number = mark.enter(_NUMBERS[operation], 0, is_exchanging=False)
        self._compare(number, call, [])
        mark.leave()

    def by_the_first(self, operation: str, call: str, work: Callable[[], T]) -> T:
        """Return or raise on every worker as ``work()`` does at rank 0; ``call`` is compared."""
        own = self._own
        number = own.mark.enter(_NUMBERS[operation], 0, is_exchanging=False)
        self._compare(number, call, [])
        if own.channel is None:
            return work()
        done = b"" if own.rank else pickle.dumps(_tried(work))
        result, error = pickle.loads(own.channel.shared(done))  # noqa: S301  our own worker's
        own.mark.leave()
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def join(self, backend: Backend) -> None:
        """Join the engine for the tensors of ``backend``; a collective."""
        number = self._own.mark.enter(JOINING, 0, is_exchanging=False)
        self._compare(number, OPERATIONS[JOINING], [])
        self._of(backend)
        self._own.mark.leave()

    def leave(self) -> None:
        """Close what was joined."""
        while self._joined:
            self._joined.pop().leave()

    # -- agreeing ------------------------------------------------------------------------------

    @contextmanager
    def _agreed(
        self, operation: str, call: str, tree: Tree, act: str, *, has_weight: bool = False
    ) -> Iterator[Plan]:
        """A collective; structures that are new are compared with those of the other workers."""
        mark, number = self._own.mark, _NUMBERS[operation]
        key = tree.key()
        plan = None if key is None else self._plans.get((call, key))
        if plan is None:
            plan = self._compared(number, call, tree, act, has_weight=has_weight)
            if key is not None:
                self._plans[call, key] = plan
        else:
            mark.enter(number, plan.signature, is_exchanging=True)
            for other in mark.differing():
                raise InvalidDataError(
                    f"this worker calls {call}, while another calls {OPERATIONS[other.operation]} "
                    "of another structure: all must call the same ones, in the same order."
                )
        with unrecorded(tree.backend):
            yield plan
        mark.leave()

    def _compared(self, number: int, call: str, tree: Tree, act: str, *, has_weight: bool) -> Plan:
        own, lines = self._own, tree.lines()
        agreed = signature(call, lines)
        collective = own.mark.enter(number, agreed, is_exchanging=False)
        self._compare(collective, call, lines)
        own.mark.exchange()
        kinds, weight = list(tree.kinds), None
        if has_weight:
            weight = weight_like(tree)
            kinds += kinds_of([weight])
        stages = stages_of(tree.backend, kinds, act, self._of(tree.backend))
        if has_weight:  # first, so that its sum is known to the other stages
            stages.sort(key=lambda stage: len(tree.kinds) not in stage.bucket.positions)
        return Plan(agreed, stages, weight)

    def _compare(self, number: int, call: str, lines: list[str]) -> None:
        own = self._own
        if own.channel is None:
            return
        problem = own.channel.compare(number, (call, lines))
        if problem is not None:
            own.mark.leave()
            raise InvalidDataError(problem)

    # -- engines -------------------------------------------------------------------------------

    def _of(self, backend: Backend) -> list[GroupEngine]:
        """The engines for the tensors of ``backend``, the preferred one first; joins it."""
        if backend.name not in self._engines:
            self._engines[backend.name] = self._made(backend)
        return self._engines[backend.name]

    def _made(self, backend: Backend) -> list[GroupEngine]:
        own = self._own
        if own.channel is None:
            return [SingleWorkerEngine(backend)]
        if not isinstance(own.channel, Channel):  # not a run of ours: nothing else is there
            return [backend.group_engine]
        host = HostEngine(backend, own.channel, own.rank, own.size)
        if isinstance(backend.group_engine, Unsupported):
            return [host]
        if backend.name != own.backend:
            raise BackendMismatchError(
                f"this run exchanges tensors of {own.backend}, not of {backend.name}: "
                f"unidev.run(…, backend={backend.name!r}).",
                backend=backend.name,
            )
        engine = backend.group_engine
        collective = own.mark.operation
        own.mark.doing(JOINING)
        self._run(backend, engine.join, own.rank, own.rendezvous, self._device())
        own.mark.doing(collective)
        self._joined.append(engine)
        return [engine, host]

    def _run(self, backend: Backend, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call an engine, whose errors are those of a collective."""
        try:
            return work(*arguments)
        except UnidevError:
            raise
        except backend.framework_errors as error:
            raise CollectiveError(
                f"{OPERATIONS[self._own.mark.operation]} of worker {self._own.rank} broke off: "
                f"{type(error).__name__}: {error}"
            ) from error

    # -- packing -------------------------------------------------------------------------------

    def _each(
        self,
        tree: Tree,
        plan: Plan,
        exchanged: Callable[[Stage, Tensor], Sequence[Tensor]],
        *,
        count: int = 1,
        keeps_input: bool,
    ) -> list[list[Tensor]]:
        """For each of ``count`` results, the tensors that ``exchanged`` gives for all stages."""
        found: list[list[Tensor]] = [[None] * len(tree.tensors) for _ in range(count)]
        for stage in plan.stages:
            flat = outgoing(tree, stage, tree.tensors, may_write=keeps_input)
            for values, result in zip(found, exchanged(stage, flat), strict=True):
                back = narrowed(tree, stage, home(tree, stage, result))
                if any(back is x for x in tree.tensors):  # the root's own
                    back = tree.backend.copy_to(back, tree.device, False)
                stage.bucket.unpack(tree.backend, back, values)
        return [with_empty_ones(tree, values) for values in found]


def _tried(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return work(), None
    except (UnidevError, OSError) as error:
        return None, error
