"""What the operations of a group cost the worker that sends most, counted in real runs.

For the tables of ``docs/many-machines.md``, which tests compare.
"""

from __future__ import annotations

import math
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

import unidev
from unidev.backends.transfers import item_bytes
from unidev.contract.group_engine import GroupEngine
from unidev.parallel.devices.packing import LARGE_BYTES
from unidev.parallel.exchange import engines, membership
from unidev.parallel.exchange.group import group
from unidev.parallel.messages.channel import Channel
from unidev.system.host.board import Mark
from unidev.system.host.frames import pieces_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract.group_engine import Rendezvous
    from unidev.device import Device
    from unidev.system.host.frames import Frame

    Tensor = Any
    Work = Callable[[], Any]

SIZES = (2, 4, 8)
ENGINE, OWN = "by an engine", "by unidev"
"""Who carries the tensors."""
SMALL, LARGE = "small tensors", "a large tensor"
NEW = "`all_reduce` of small tensors in a new structure"
STEP, RESTORE = "a step of `DataParallel`", "`restore`"
_SMALL_TENSORS, _SHAPE = 100, (2, 3)
BYTES = {SMALL: _SMALL_TENSORS * math.prod(_SHAPE) * 4, LARGE: LARGE_BYTES, STEP: 9376}
"""Of the tensors of an operation: those with which its name ends, or the gradients of its step."""


class Cost(NamedTuple):
    """Of one operation, for one worker."""

    calls: int = 0
    """Of the engine."""
    given_bytes: int = 0
    """To the engine, by this worker; the engine decides how often they travel."""
    meetings: int = 0
    """In the memory that the workers of a host share."""
    messages: int = 0
    """To other workers, by the launcher's channel; one to all of them counts once."""
    sent_bytes: int = 0
    """In these messages."""


class Counter:
    """Counts what this worker does, while it is told to."""

    def __init__(self, channel: Channel) -> None:
        self.cost = Cost()
        send, memory = channel._send, channel.memory

        def sent(frame: Frame) -> None:
            nbytes = sum(piece.nbytes for piece in pieces_of(frame)[1:])  # after the header
            self.add(messages=1, sent_bytes=nbytes)
            send(frame)

        channel._send = sent  # type: ignore[method-assign]
        if memory is not None:
            meet = memory.meet

            def met() -> None:
                self.add(meetings=1)
                meet()

            memory.meet = met  # type: ignore[method-assign]

    def of(self, work: Work) -> Cost:
        """The cost of ``work()``."""
        self.cost = Cost()
        work()
        return self.cost

    def add(self, **more: int) -> None:
        """Count these, too."""
        own = self.cost._asdict()
        self.cost = Cost(**{**own, **{name: own[name] + count for name, count in more.items()}})


class CountedEngine(GroupEngine):
    """An engine whose calls are counted."""

    def __init__(self, engine: GroupEngine, counter: Counter) -> None:
        super().__init__(engine.backend)
        self._engine, self._counter = engine, counter
        self.carries, self.wider, self.gathered = engine.carries, engine.wider, engine.gathered
        self.on_host = engine.on_host

    def join(self, rank: int, rendezvous: Rendezvous, device: Device) -> None:
        """The engine has joined."""

    def gather_numbers(self, numbers: Sequence[int], device: Device) -> Sequence[Sequence[int]]:
        """As the engine does."""
        self._counter.add(calls=1, given_bytes=8 * len(numbers))
        return self._engine.gather_numbers(numbers, device)

    def all_reduce(self, flat: Tensor, op: str) -> Tensor:
        """As the engine does."""
        self._note(flat)
        return self._engine.all_reduce(flat, op)

    def broadcast(self, flat: Tensor, root: int) -> Tensor:
        """As the engine does."""
        self._note(flat)
        return self._engine.broadcast(flat, root)

    def all_gather(self, flat: Tensor) -> Sequence[Tensor]:
        """As the engine does."""
        self._note(flat)
        return self._engine.all_gather(flat)

    def leave(self) -> None:
        """As the engine does."""
        self._engine.leave()

    def _note(self, flat: Tensor) -> None:
        nbytes = math.prod(flat.shape) * (item_bytes(flat.dtype, self.backend) or 0)
        self._counter.add(calls=1, given_bytes=nbytes)


def costs(way: str, is_apart: bool, has_models: bool) -> dict[str, Cost]:
    """The cost of each operation for this worker; in a worker of ``run``.

    If it ``is_apart``, it takes itself for the only worker of its host.
    """
    own = membership.current
    assert own is not None
    assert isinstance(own.channel, Channel)
    if is_apart:
        own.mark, own.channel.memory = Mark.alone(), None
        engines.Engines._share_memory = lambda *_: None  # type: ignore[method-assign]
    counter = Counter(own.channel)
    if way == ENGINE:
        engines.QUICK_BYTES = 0
        group().join()
        made = group().exchange.engines._made
        made.update({name: [CountedEngine(found[0], counter)] for name, found in made.items()})
    return {name: counter.of(work) for name, work in _operations(has_models=has_models).items()}


def _operations(*, has_models: bool) -> dict[str, Work]:
    """What is counted, in this order: a structure is new once."""
    own = unidev.group()
    numbers = range(_SMALL_TENSORS)
    trees = {
        SMALL: {f"layer.{number}": unidev.ones(_SHAPE) for number in numbers},
        LARGE: unidev.zeros(LARGE_BYTES // 4),
    }
    found: dict[str, Work] = {"`barrier`": own.barrier, NEW: lambda: own.all_reduce(trees[SMALL])}
    own.all_reduce(trees[LARGE])
    for verb in ("all_reduce", "broadcast", "all_gather"):
        for what, tree in trees.items():
            use = getattr(own, verb)
            use({"other": tree})  # so that what is counted is not the first of its kind
            if (verb, what) != ("all_reduce", SMALL):
                use(tree)
            found[f"`{verb}` of {what}"] = lambda use=use, tree=tree: use(tree)  # type: ignore[misc]
    if has_models:
        found |= _of_a_model(own)
    return found


def _of_a_model(own: Any) -> dict[str, Work]:
    net = unidev.nn.sequential(unidev.nn.dense(64, 32), unidev.nn.relu(), unidev.nn.dense(32, 8))
    x, y = unidev.ones((4, 64)), unidev.zeros((4, 8))
    net(x)
    parallel = unidev.DataParallel(net)
    step = unidev.value_and_grad(
        lambda net, x, y: unidev.nn.functional.mean_squared_error(net(x), y)
    )
    for _ in range(2):
        step(parallel, x, y)
    own.checkpoint(net, 1)
    own.restore(net)
    return {STEP: lambda: step(parallel, x, y), RESTORE: lambda: own.restore(net)}


def most(backend: str, way: str, size: int, *, is_apart: bool) -> dict[str, Cost]:
    """The cost of each operation for the worker for which it is the most, field by field."""
    with tempfile.TemporaryDirectory() as folder:
        found = unidev.run(
            costs, way, is_apart, backend != "numpy",
            workers=size, backend=backend, gpus_per_worker=0, checkpoints=folder,
        )  # fmt: skip
    return {
        name: Cost(*(max(fields) for fields in zip(*(each[name] for each in found), strict=True)))
        for name in found[0]
    }
