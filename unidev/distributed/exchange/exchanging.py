"""The collectives of a group: agreed with the other workers, packed, exchanged, unpacked."""

from __future__ import annotations

import pickle
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from unidev.contract.backend import Unsupported
from unidev.distributed.exchange.agreeing import (
    Agreement,
    Proposal,
    code_of,
    tree_lines,
    with_weights,
)
from unidev.distributed.exchange.host_engine import HostEngine, SingleWorkerEngine
from unidev.distributed.exchange.plans import Plan, Stage, check_narrow, stages_of, sums_of
from unidev.distributed.exchange.reducing import all_reduced, started
from unidev.distributed.exchange.transport import (
    arrived,
    outgoing,
    with_empty_ones,
    write_back,
)
from unidev.distributed.messages.board import JOINING, OPERATIONS
from unidev.distributed.messages.channel import Channel
from unidev.errors import (
    BackendMismatchError,
    CollectiveError,
    UnidevError,
    UnsupportedOperation,
)
from unidev.parallel.packing import unrecorded
from unidev.registry.loading import load_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device
    from unidev.contract.group_engine import GroupEngine
    from unidev.distributed.exchange.membership import Membership
    from unidev.distributed.exchange.trees import Tree
    from unidev.parallel.packing import Bucket, Kind

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
        self._open: Proposal | None = None
        """A collective that goes on while this worker computes."""
        self._broken = ""
        """Why this worker can take part in none any more."""
        self._agreement = Agreement(
            own, lambda: self._of(load_backend(own.backend))[0], device, self._run
        )

    @property
    def rank(self) -> int:
        """This worker's."""
        return self._own.rank

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

            def start(engine: GroupEngine, flat: Tensor) -> Callable[[], Tensor]:
                return self.started(tree.backend, engine, flat, combined)

            factor = self._factor(op, everybodys if own is not None else listed)
            values = all_reduced(tree, plan, factor, start, may_write=into != NEW_MEMORY)
            if into == IN_PLACE:
                write_back(tree, values)
                return tree.tree
            return tree.with_tensors(with_empty_ones(tree, values))

    def broadcast(self, tree: Tree, root: int) -> list[Tensor]:
        """The tensors of the worker ``root``, in new memory."""
        call = f"broadcast from worker {root}"
        with self._agreed("broadcast", call, tree, "broadcast") as (plan, _):
            is_root = self._own.rank == root

            def exchanged(stage: Stage, flat: Tensor) -> list[Tensor]:
                return [self._run(tree.backend, stage.way.engine.broadcast, flat, root)]

            return self._each(tree, plan, exchanged, keeps_input=is_root)[0]

    def all_gather(self, tree: Tree) -> list[list[Tensor]]:
        """The tensors of each worker, by rank, in new memory."""
        with self._agreed("all_gather", "all_gather", tree, "gather") as (plan, _):

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
        with self._agreed_without_tree(_NUMBERS[operation], call):
            return

    def by_the_first(self, operation: str, call: str, work: Callable[[], T]) -> T:
        """Return or raise on every worker as ``work()`` does at rank 0; ``call`` is compared."""
        own = self._own
        with self._agreed_without_tree(_NUMBERS[operation], call):
            if own.channel is None:
                return work()
            done = b"" if own.rank else pickle.dumps(_tried(work))
            result, error = pickle.loads(own.channel.shared(done))  # noqa: S301  our own worker's
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def join(self, backend: Backend) -> None:
        """Join the engine for the tensors of ``backend``; a collective."""
        with self._agreed_without_tree(JOINING, OPERATIONS[JOINING]):
            self._of(backend)

    def leave(self) -> None:
        """Close what was joined."""
        while self._joined:
            self._joined.pop().leave()

    # -- while this worker computes ------------------------------------------------------------

    @property
    def next_number(self) -> int:
        """Of the next collective."""
        return self._own.mark.next

    def stages(
        self,
        backend: Backend,
        kinds: Sequence[Kind],
        buckets: list[Bucket],
        reduce_dtype: str | None,
    ) -> list[Stage]:
        """Sums of these buckets, in their order."""
        return sums_of(backend, kinds, buckets, self._of(backend), reduce_dtype)

    def check_narrow(self, backend: Backend, reduce_dtype: str) -> None:
        """Raise UnsupportedOperation if sums in ``reduce_dtype`` are not to be had."""
        check_narrow(self._of(backend)[0], reduce_dtype)

    def propose(
        self, call: str, code: int, weight: float, lines: Callable[[], list[str]]
    ) -> Proposal:
        """Open a collective that lasts until ``end``; where memory is shared, waits for nobody."""
        self._check_free()
        self._open = Proposal(self.next_number, call, code, weight, lines)
        self._agreement.propose(self._open)
        return self._open

    def settle(self, proposal: Proposal) -> Sequence[float]:
        """The weights of all workers, once they agree on the open collective."""
        mark = self._own.mark
        mark.enter(_NUMBERS["all_reduce"])
        try:
            weights = self._agreement.settled(proposal)
        except UnidevError:
            self._open = None
            raise
        mark.go_back()  # to computing: whoever waits now is not this worker
        return weights

    def started(
        self, backend: Backend, engine: GroupEngine, flat: Tensor, op: str
    ) -> Callable[[], Tensor]:
        """As ``reducing.started``, with the errors of a collective."""
        finish = self._run(backend, started, engine, flat, op)
        return lambda: self._run(backend, finish)

    def await_rest(self) -> None:
        """Note that this worker waits for the open collective."""
        self._own.mark.enter(_NUMBERS["all_reduce"])

    def end(self, proposal: Proposal) -> None:
        """Close the open collective.

        Raises:
            CollectiveError: another worker has abandoned it.
        """
        self.leave_collective()
        self._agreement.check_abandoned(proposal.number)

    def leave_collective(self) -> None:
        """Close it, whatever others did."""
        self._open = None
        self._own.mark.leave()

    def is_open(self, proposal: Proposal) -> bool:
        """Whether the other workers count on this one."""
        return self._open is proposal

    def abandon(self, proposal: Proposal) -> None:
        """Note for the others that this worker gives nothing more to the open collective."""
        self._own.mark.enter(_NUMBERS["all_reduce"])
        self._agreement.abandon(proposal.number)

    def break_off(self, error: BaseException) -> None:
        """Leave the others in the open collective: this worker takes part in none any more."""
        self._open = None
        self._own.mark.doing(0)
        self._broken = f"{type(error).__name__} left a step in the middle of its exchange"

    def _check_free(self) -> None:
        if self._broken:
            raise CollectiveError(f"worker {self.rank} cannot exchange any more: {self._broken}.")
        if self._open is not None:
            raise UnsupportedOperation(
                "a collective in the middle of backward, where there was none in the first step",
                "gradients are being exchanged: call it in each step, or outside of value_and_grad",
            )

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
        self._check_free()
        mark = self._own.mark
        key = tree.key()
        plan = None if key is None else self._plans.get((call, key))
        code = code_of(call, tree_lines(tree)) if plan is None else plan.code
        compared = code if listed is None else with_weights(code, listed)
        proposal = Proposal(
            mark.enter(_NUMBERS[operation]), call, compared, weight,
            lambda: tree_lines(tree, listed),
        )  # fmt: skip
        at_once = plan is None or not plan.stages
        with (
            unrecorded(tree.backend),
            self._agreement.reached(proposal, at_once=at_once) as weights,
        ):
            if plan is None:
                engines = self._of(tree.backend)
                plan = Plan(code, stages_of(tree.backend, tree.kinds, act, engines))
                if key is not None:
                    self._plans[call, key] = plan
            yield plan, weights
        mark.leave()

    @contextmanager
    def _agreed_without_tree(self, operation: int, call: str) -> Iterator[None]:
        self._check_free()
        number = self._own.mark.enter(operation)
        proposal = Proposal(number, call, code_of(call, []), None, list)
        with self._agreement.reached(proposal, at_once=True):
            yield
        self._own.mark.leave()

    def _factor(self, op: str, weights: Sequence[float] | None) -> float | None:
        """What this worker's tensors are multiplied by before the sum; None: not at all."""
        if weights is None:
            return 1 / self._own.size if op == "mean" and self._own.size > 1 else None
        return weights[self._own.rank] / sum(weights)

    # -- engines -------------------------------------------------------------------------------

    def _of(self, backend: Backend) -> list[GroupEngine]:
        """The engines for the tensors of ``backend``, the preferred one first; joins it."""
        if backend.name not in self._engines:
            self._engines[backend.name] = self._made(backend)
        return self._engines[backend.name]

    def _made(self, backend: Backend) -> list[GroupEngine]:
        own = self._own
        is_ours = isinstance(own.channel, Channel)
        # Paddle's init_parallel_env does nothing for one, and has no group (3.3.1).
        if own.channel is None or (is_ours and own.size == 1):
            return [SingleWorkerEngine(backend)]
        if not is_ours:  # torchrun's and the like: nothing else is there
            return [backend.group_engine]
        assert self._agreement.relay is not None
        host = HostEngine(backend, self._agreement.relay, own.rank)
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
        return [engine, host] if engine.carries else [host]

    def _run(self, backend: Backend, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call an engine, whose errors are those of a collective."""
        try:
            return work(*arguments)
        except UnidevError:
            raise
        except backend.framework_errors as error:
            raise CollectiveError(
                f"{OPERATIONS[self._own.mark.operation]} of worker {self._own.rank} failed: "
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
                back = arrived(tree.backend, tree.device, stage, result)
                if any(back is x for x in tree.tensors):  # the root's own
                    back = tree.backend.copy_to(back, tree.device, False)
                stage.bucket.unpack(tree.backend, back, values)
        return [with_empty_ones(tree, values) for values in found]


def _tried(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return work(), None
    except (UnidevError, OSError) as error:
        return None, error
