"""A step's gradients, exchanged over the workers while backward still makes others."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.backends.boundary import call
from unidev.contract.backend import Unsupported
from unidev.contract.dtypes import portable_name
from unidev.errors import CollectiveError, UnidevError
from unidev.parallel.devices.packing import (
    LARGE_BYTES,
    Bucket,
    Kind,
    buckets_of,
    kinds_of,
    nbytes_of,
    shares_of,
    unrecorded,
)
from unidev.parallel.exchange.agreeing import Proposal, code_of
from unidev.parallel.exchange.host_engine import HostEngine
from unidev.parallel.exchange.transport import arrived, departing, stages_of
from unidev.parallel.exchange.trees import described_kinds
from unidev.system.host.board import ALL_REDUCE

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.parallel.exchange.exchanging import Exchange
    from unidev.parallel.exchange.transport import Stage

    Tensor = Any

BUCKET_BYTES = 25 << 20
"""The most bytes in a bucket of several gradients."""
FIRST_BYTES = 1 << 20
"""The same for the first bucket, so that it begins early."""
HOOK_S = 2e-5
"""The cost of a hook; with fewer seconds of waiting for each gradient, hooks would cost more."""
_DOING = "reducing gradients over the workers"


class _Plan(NamedTuple):
    """How the gradients and the loss of one structure travel, the same on all workers."""

    code: int
    lines: list[str]
    kinds: list[Kind]
    """The kinds of the gradients, and of the loss, which is last."""
    device: Device
    stages: list[Stage]
    """In the order in which they begin."""
    stage_of: list[int]
    """The number of the stage for each position; -1 for tensors without elements."""
    memory: list[list[Tensor]]
    """That of each stage, from step to step: new pages take as long as the exchange."""
    waited: list[float]
    """Seconds for the whole exchange, once a step has begun it at the end of backward."""


class Overlap:
    """The exchanges of one ``DataParallel``'s steps, begun while backward runs where it shows them.

    In the first step of a structure, gradients are exchanged at the end, and worker 0 notes in
    which order they came. From then on they go in buckets in that order, which begin in the same
    order on every worker, whatever comes first there. So the bits do not depend on arrival.
    """

    def __init__(
        self, exchange: Exchange, backend: Backend, *, is_mean: bool, reduce_dtype: str | None
    ) -> None:
        self.reduce_dtype = reduce_dtype
        self.exchange = exchange
        self.backend = backend
        self.is_mean = is_mean
        self.plans: dict[Hashable, _Plan | None] = {}
        """None: exchanged at the end, as backward has collectives of its own."""
        self._last: _Plan | None = None
        self._dtypes: dict[Any, Any] = {}
        """The backend's own for each that parameters have: Keras's have names of dtypes."""

    def kinds_of(self, tensors: Sequence[Tensor]) -> list[Kind]:
        """The kind of each, the same for a parameter and its gradient."""
        found, known = kinds_of(tensors), self._dtypes
        for kind in found:
            if kind.dtype not in known:
                name = portable_name(kind.dtype, self.backend)
                known[kind.dtype] = self.backend.dtypes.get(name or "", kind.dtype)
        return [Kind(shape, known[dtype]) for shape, dtype in found]

    @cached_property
    def is_shown(self) -> bool:
        """Whether the framework shows gradients while backward runs."""
        return not isinstance(self.backend.autograd.gradients_as_made, Unsupported)

    @contextmanager
    def watching(self, rows: int) -> Iterator[Step]:
        """A block with a step of ``value_and_grad``."""
        step = Step(self, rows)
        try:
            yield step
        except Exception as error:  # another one is to end this worker
            if not isinstance(error, CollectiveError):
                with suppress(UnidevError):  # `error` came first
                    call(self.backend, step.abandon, doing=_DOING)
            raise
        step.backward_is_done()

    def plan(self, kinds: list[Kind], order: Sequence[int], device: Device) -> _Plan:
        """The plan for tensors of these kinds, of which the last is the loss, in this ``order``."""
        backend, in_order = self.backend, [kinds[position] for position in order]
        engines = (
            self.exchange.engines.for_kinds(backend, kinds, device)
            if self.reduce_dtype is None
            else self.exchange.engines.of(backend)
        )
        by_memory = isinstance(engines[0], HostEngine)
        # At the end of backward the gradients are ours: large ones need not be copied. So quick an
        # exchange as that by memory is better done at once.
        is_early = self.is_shown and not by_memory
        found = _buckets(backend, in_order) if is_early else buckets_of(backend, in_order)
        buckets = [each._replace(positions=[order[at] for at in each.positions]) for each in found]
        narrow = self.reduce_dtype
        stages = stages_of(backend, kinds, buckets, "sum", engines, reduce_dtype=narrow)
        stage_of = [-1] * len(kinds)
        for number, stage in enumerate(stages):
            for position in stage.bucket.positions:
                stage_of[position] = number
        words = described_kinds(kinds, self.backend)
        lines = [words[kinds[position]] for position in order]
        code = code_of(self._call, lines)
        return _Plan(code, lines, kinds, device, stages, stage_of, [[] for _ in stages], [])

    @property
    def _call(self) -> str:
        narrow = f" in {self.reduce_dtype}" if self.reduce_dtype else ""
        return f"all_reduce of {'mean' if self.is_mean else 'sum'} in a step{narrow}"

    def propose(self, plan: _Plan, weight: float) -> Proposal:
        """Show the other workers that this one's gradients are coming."""
        if self._last is not None and self._last is not plan:
            for memory in self._last.memory:
                memory.clear()  # a model that freezes other layers each time has many plans
        self._last = plan
        return self.exchange.part.propose(self._call, plan.code, weight, lambda: plan.lines)


class _Running(NamedTuple):
    """An exchange on which the other workers count."""

    plan: _Plan
    proposal: Proposal
    given: list[Tensor]
    """The loss and the gradients that came, by position."""
    missing: list[int]
    """How many tensors each stage waits for."""
    finishing: list[Callable[[], Tensor]]
    """The ends of the stages that have begun."""


class Step:
    """One step of one worker; a watcher of its ``value_and_grad``."""

    def __init__(self, overlap: Overlap, rows: int) -> None:
        self._overlap = overlap
        self._backend = overlap.backend
        self._weight = float(rows)
        self._key: Hashable = None
        self._kinds: list[Kind] = []
        self._plan: _Plan | None = None
        self._is_new = False
        self._order: list[int] = []
        self._collectives = 0
        """The number of the last collective, before backward."""
        self._is_interrupted = False
        """Whether backward had collectives of its own: which comes first is then the model's."""
        self._running: _Running | None = None
        self._factor: float | None = None
        self._is_done = False
        """Whether backward is."""
        self.begun = math.inf
        """When the first bucket was sent, by ``time.perf_counter``."""

    def wants(self, parameters: Mapping[str, Tensor]) -> bool:
        """Whether to call ``evaluated``; before forward, with the parameters by name."""
        leaves = list(parameters.values())
        self._kinds = self._overlap.kinds_of(leaves)
        device = self._backend.device_of(leaves[0])
        self._key = tuple(parameters), tuple(self._kinds), device
        plans = self._overlap.plans
        self._is_new = self._key not in plans
        self._plan = plans.get(self._key)
        return self._is_new or self._plan is not None

    @property
    def wants_gradients(self) -> bool:
        """Whether to call ``made``: there is an order to note, or time to save.

        Each worker may decide for itself, as buckets begin in the same order in any case.
        """
        plan = self._plan
        if plan is None:
            return self._overlap.is_shown
        if len(plan.stages) == 1 or not plan.waited:
            return False
        return self._overlap.is_shown and plan.waited[0] > HOOK_S * len(plan.kinds)

    def evaluated(self, loss: Tensor) -> None:
        """Forward is done, and backward follows."""
        overlap, plan = self._overlap, self._plan
        self._collectives = overlap.exchange.part.mark.entered
        if plan is None:
            return
        is_known = overlap.kinds_of([loss]) == plan.kinds[-1:]
        if not is_known or self._backend.device_of(loss) is not plan.device:
            return  # exchanged at the end
        proposal = overlap.propose(plan, self._weight)
        given = [None] * len(plan.kinds)
        missing = [len(stage.bucket.positions) for stage in plan.stages]
        self._running = _Running(plan, proposal, given, missing, [])
        self.made(len(given) - 1, loss)

    def made(self, position: int, gradient: Tensor) -> None:
        """Backward has made this gradient; begins the buckets that are whole."""
        assert not self._is_done, "a hook of a gradient was left after its step"
        running = self._running
        if running is None:
            self._order.append(position)
            return
        stage = running.plan.stage_of[position]
        if stage < 0:
            return
        running.given[position] = gradient
        running.missing[stage] -= 1
        if not running.missing[stage]:
            self._start_whole(running)

    def _start_whole(self, running: _Running) -> None:
        missing, finishing, part = running.missing, running.finishing, self._overlap.exchange.part
        while len(finishing) < len(missing) and not missing[len(finishing)]:
            part.mark.enter(ALL_REDUCE)
            call(self._backend, self._start, running, doing=_DOING, operation="all_reduce")
            part.mark.go_back()

    def _start(self, running: _Running) -> None:
        """Begin the next bucket, whose tensors are given."""
        exchange, backend, use = self._overlap.exchange, self._backend, self._backend.collectives
        if not running.finishing:
            with exchange.part.agreement.reached(running.proposal, at_once=True) as weights:
                pass
            self.begun = time.perf_counter()
            if self._overlap.is_mean:
                self._factor = shares_of(weights)[exchange.rank]
        with unrecorded(backend):
            plan, number = running.plan, len(running.finishing)
            stage = plan.stages[number]
            given = [running.given[position] for position in stage.bucket.positions]
            for position in stage.bucket.positions:
                running.given[position] = None
            if not stage.bucket.is_packed:
                self._send(running, stage, given[0], self._factor)
            elif stage.way.wide is None or self._overlap.reduce_dtype is not None:
                flat = use.pack_scaled(given, self._factor, plan.memory[number])
                self._send(running, stage, flat)
            else:  # a factor comes after a wider dtype, and before a narrower one: it costs digits
                self._send(running, stage, use.pack(given), self._factor)

    def _send(
        self, running: _Running, stage: Stage, flat: Tensor, factor: float | None = None
    ) -> None:
        flat = departing(self._backend, running.plan.device, stage.way, flat, factor)
        start = self._overlap.exchange.engines.start_all_reduce
        running.finishing.append(start(self._backend, stage.way.engine, flat, "sum"))

    def backward_is_done(self) -> None:
        """Note what happened meanwhile."""
        self._is_done = True
        self._is_interrupted = self._overlap.exchange.part.mark.entered != self._collectives

    def is_planned(self, loss: Tensor, gradients: Mapping[str, Tensor]) -> bool:
        """Whether ``finish`` exchanges these; the other workers then count on it."""
        if self._key is None:  # not watched, such as the sums of several steps
            self.wants(gradients)
            self.evaluated(loss)
            self.backward_is_done()
        return self._running is not None

    def finish(self, loss: Tensor, own: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss and the gradients of all workers, in new memory."""
        running = self._running
        assert running is not None
        found = [*own.values(), loss]
        begun = time.perf_counter()
        self._finish_all(running, found)
        if not running.plan.waited:
            running.plan.waited.append(time.perf_counter() - begun)
        part = self._overlap.exchange.part
        part.close()
        part.agreement.check_abandoned(running.proposal.number)
        *gradients, loss = found
        return loss, dict(zip(own, gradients, strict=True))

    def _finish_all(self, running: _Running, found: list[Tensor]) -> None:
        """Begin the buckets that are left, and put what all have made into ``found``."""
        for number in range(len(running.finishing), len(running.missing)):
            for position in running.plan.stages[number].bucket.positions:
                running.given[position] = found[position]  # zeros where none has been made
            running.missing[number] = 0
        self._start_whole(running)
        self._overlap.exchange.part.mark.enter(ALL_REDUCE)
        call(self._backend, self._finish, running, found, doing=_DOING, operation="all_reduce")

    def _finish(self, running: _Running, found: list[Tensor]) -> None:
        plan = running.plan
        with unrecorded(self._backend):
            for stage, finish in zip(plan.stages, running.finishing, strict=True):
                flat = arrived(self._backend, plan.device, stage, finish())
                stage.bucket.unpack(self._backend, flat, found)

    def abandon(self) -> None:
        """Backward has raised: give the other workers NaN for what they wait for.

        So all workers have made the same exchanges, and may go on.
        """
        running, part = self._running, self._overlap.exchange.part
        if running is None or not part.can_abandon(running.proposal):
            return
        part.mark.enter(ALL_REDUCE)
        if not running.finishing:
            with part.agreement.reached(running.proposal, at_once=True):
                pass
        part.agreement.abandon(running.proposal.number)
        with unrecorded(self._backend):
            for stage in running.plan.stages[len(running.finishing) :]:
                _, shapes, is_packed = stage.bucket
                shape = (sum(map(math.prod, shapes)),) if is_packed else shapes[0]
                device = running.plan.device
                nothing = self._backend.full(shape, math.nan, stage.dtype, device)
                self._send(running, stage, nothing)
        for finish in running.finishing:
            finish()
        part.close()

    def learn(self, loss: Tensor) -> None:
        """After the first step of a structure: take its order from worker 0; a collective."""
        if not self._is_new:
            return
        overlap, size = self._overlap, len(self._kinds)
        late = [position for position in reversed(range(size)) if position not in self._order]
        own = None if self._is_interrupted else [size, *self._order, *late]
        order = overlap.exchange.by_the_first("all_reduce", "order of gradients", lambda: own)
        plan = None
        if order is not None:
            kinds = [*self._kinds, *overlap.kinds_of([loss])]
            plan = overlap.plan(kinds, order, self._backend.device_of(loss))
        overlap.plans[self._key] = plan


def _buckets(backend: Backend, kinds: Sequence[Kind]) -> list[Bucket]:
    """Tensors of one dtype each, in the order of the last of each; empty ones are left out."""
    open_ones: dict[Any, Bucket] = {}
    sizes: dict[Any, int] = {}
    closed: list[Bucket] = []
    for position, (shape, dtype) in enumerate(kinds):
        nbytes = nbytes_of(backend, [kinds[position]])
        if not nbytes:
            continue
        bucket = open_ones.setdefault(dtype, Bucket([], []))
        bucket.positions.append(position)
        bucket.shapes.append(shape)
        sizes[dtype] = sizes.get(dtype, 0) + nbytes
        is_full = nbytes >= LARGE_BYTES or sizes[dtype] >= BUCKET_BYTES
        if is_full or (not closed and sizes[dtype] >= FIRST_BYTES):
            closed.append(open_ones.pop(dtype))
            del sizes[dtype]
    return sorted([*closed, *open_ones.values()], key=lambda bucket: bucket.positions[-1])
