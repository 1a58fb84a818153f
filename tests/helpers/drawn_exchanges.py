"""Exchanges that are drawn, and an exception in the middle of some, on a drawn worker."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import unidev
from unidev import nn
from unidev.parallel.exchange import engines, overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

ROUNDS = 12
_OWN = str(Path(unidev.__file__).parent) + os.sep
_LARGE = 300_000
"""Elements that need several messages, and more than is exchanged by one meeting."""
NUMBERED = ["step", "synchronized_step", "accuracy"]
"""Who catches an exception in these goes on with the next one, and does not try it again."""
GONE = "cannot exchange any more: it left"
SOUND = re.compile(
    r"right|TimeoutError: at a drawn|InvalidDataError: (worker|all_)|CollectiveError: worker \d "
    rf"({GONE} \w+( \w+)* number \d+ by TimeoutError at drawn_exchanges\.py:\d+$|raised an ex)"
)
"""What a worker may hear."""


class Draw(NamedTuple):
    """What all workers know of a run."""

    seed: int
    size: int
    by_messages: bool
    engine: bool
    """Whether the framework's engine exchanges also what is small."""


def drawn(seed: int) -> Draw:
    """The run with that number."""
    draw = random.Random(seed)
    return Draw(seed, draw.choice((2, 2, 3)), draw.random() < 0.4, draw.random() < 0.7)


# -- an exception at a drawn place -----------------------------------------------------------------


class Late(TimeoutError):
    """Not to be taken for an error of unidev's."""


Late.__name__ = "TimeoutError"


class Lines:
    """Counts lines of unidev that run, and raises at one, as a signal's handler does."""

    def __init__(self, last: int) -> None:
        self.count = 0
        self._last = last

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            name = frame.f_code.co_filename
            return self if _is_ours(name) else None
        if event == "line":
            self.count += 1
            if self.count == self._last:
                sys.settrace(None)
                raise Late("at a drawn line")
        return self


def _is_ours(file: str) -> bool:
    return file.startswith(_OWN) or f"{os.sep}src{os.sep}unidev_" in file


@contextmanager
def interrupted(lines: Lines | None, after_s: float | None) -> Iterator[None]:
    """A block with an exception at a line, or after some time."""

    def ring(_: int, frame: Any) -> None:
        if _is_ours(frame.f_code.co_filename):  # else it may have returned already
            raise Late("at a drawn time")

    signal.signal(signal.SIGALRM, ring)
    sys.settrace(lines)
    if after_s is not None:
        signal.setitimer(signal.ITIMER_REAL, after_s)
    try:
        yield
    finally:
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_REAL, 0)


# -- collectives, and what is right ----------------------------------------------------------------


def values(seed: int, rank: int) -> dict[str, Any]:
    """The tree of a worker: of drawn shapes and dtypes, which do not depend on the rank."""
    draw, made = random.Random(seed), np.random.default_rng([seed, rank])
    shapes = [draw.choice([(), (3,), (2, 0), (5, 7), (1000,)]) for _ in range(draw.randint(1, 4))]
    if draw.random() < 0.2:
        shapes.append((_LARGE,))
    dtypes = [draw.choice(["float32", "int64", "float64"]) for _ in shapes]
    found = [
        made.integers(-8, 9, shape).astype(dtype)
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    return {"first": found[0], "others": [found[1:], draw.choice([None, 1, "text"])]}


def arrays_of(tree: Any) -> list[Any]:
    """Its tensors, as arrays."""
    return [unidev.to_numpy(x) for x in (tree["first"], *tree["others"][0])]


def made(tree: dict[str, Any]) -> dict[str, Any]:
    """The same with tensors."""
    first, (others, what) = tree["first"], tree["others"]
    return {"first": unidev.array(first), "others": [[unidev.array(x) for x in others], what]}


def is_right(found: Any, expected: Any) -> bool:
    """Of as many arrays, each with the expected values."""
    return len(found) == len(expected) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-6)
        for a, b in zip(found, expected, strict=True)
    )


class Prepared(NamedTuple):
    """A collective whose arguments are made."""

    call: Callable[[], Any]
    is_right: Callable[[Any], bool]


class Program:
    """The collectives of one worker; all draw the same ones."""

    def __init__(self, seed: int) -> None:
        self.group = unidev.group()
        self.draw = random.Random(seed)
        self.training = Training(self.group) if unidev.active_backend().name != "numpy" else None

    def collective(self) -> tuple[str, Callable[[], Prepared]]:
        """The next one: its name, and a function that prepares it."""
        kinds = ["all_reduce", "broadcast", "all_gather", "barrier", "gather_rows", "shard"]
        trains = [] if self.training is None else ["checkpoint", "restore", *NUMBERED, "step"]
        name = self.draw.choice([*kinds, *trains])
        seed = self.draw.randrange(1 << 30)
        work = getattr(self.training if name in trains else self, name)
        return name, lambda: work(seed)

    def all_reduce(self, seed: int) -> Prepared:
        """With weights of each kind, in place or not."""
        draw, size = random.Random(seed), self.group.size
        op = draw.choice(["sum", "mean", "min", "max"])
        everybody = [arrays_of(values(seed, rank)) for rank in range(size)]
        tree = values(seed, self.group.rank)
        if op == "mean":
            everybody = [[x.astype("float64") for x in own] for own in everybody]
            tree["first"] = tree["first"].astype("float64")
            tree["others"][0] = [x.astype("float64") for x in tree["others"][0]]
        weights = [float(draw.randint(1, 4)) for _ in range(size)]
        given: Any = draw.choice([None, weights, weights[self.group.rank]])
        given = given if op == "mean" else None
        is_in_place = draw.random() < 0.3 and unidev.active_backend().name == "numpy"
        together = [np.stack(each) for each in zip(*everybody, strict=True)]
        if op == "mean":
            shares = np.full(size, 1 / size) if given is None else np.divide(weights, sum(weights))
            expected = [np.tensordot(shares, x, 1) for x in together]
        else:
            expected = [getattr(np, op)(x, 0) for x in together]
        own = made(tree)
        return Prepared(
            lambda: self.group.all_reduce(own, op, weights=given, in_place=is_in_place),
            lambda found: is_right(arrays_of(found), expected),
        )

    def broadcast(self, seed: int) -> Prepared:
        """From a drawn worker."""
        root = random.Random(seed).randrange(self.group.size)
        own = made(values(seed, self.group.rank))
        return Prepared(
            lambda: self.group.broadcast(own, root),
            lambda found: is_right(arrays_of(found), arrays_of(values(seed, root))),
        )

    def all_gather(self, seed: int) -> Prepared:
        """From all."""
        own = made(values(seed, self.group.rank))
        everybody = [arrays_of(values(seed, rank)) for rank in range(self.group.size)]
        return Prepared(
            lambda: self.group.all_gather(own),
            lambda found: all(map(is_right, map(arrays_of, found), everybody)),
        )

    def barrier(self, _: int) -> Prepared:
        """There is nothing to get wrong."""
        return Prepared(self.group.barrier, lambda _: True)

    def gather_rows(self, seed: int) -> Prepared:
        """Of as many numbers as are sent ahead, so that one is easily taken for the other."""
        rows = [np.array([[seed % 97, rank], [seed % 89, 7]]) for rank in range(self.group.size)]
        rows = [each[0] for each in rows] if seed % 2 else rows
        own = unidev.array(rows[self.group.rank])
        return Prepared(
            lambda: self.group.gather_rows(own),
            lambda found: is_right([unidev.to_numpy(found)], [np.concatenate(rows)]),
        )

    def shard(self, seed: int) -> Prepared:
        """This worker's rows."""
        size = self.group.size
        expected = [[number * size + self.group.rank] for number in range(4)]
        return Prepared(
            lambda: self.group.shard(list(range(4 * size)), batch_size=size),
            lambda found: [batch.tolist() for batch in found] == expected,
        )


class Training:
    """Models that stay as they are, and what is exchanged in training them."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.parallel, self.plain = self._net(), self._net()
        self.synced, self.plain_synced = self._net(nn.batch_norm(8)), self._net(nn.batch_norm(8))
        self.nets = {
            "": unidev.DataParallel(self.parallel),
            "synced": unidev.DataParallel(self.synced, batch_norm="synchronized"),
        }
        rng = np.random.default_rng(0)
        self.rows = rng.standard_normal((9, 4)).astype("float32"), rng.integers(3, size=9)
        self.shard = group.shard(self.rows, batch_size=4)

    def _net(self, *more: Any) -> Any:
        unidev.seed(1)
        net = nn.sequential(nn.dense(4, 8), *more, nn.tanh(), nn.dense(8, 3))
        unidev.place(net, self.group.device)
        net(self._batch(0)[0])
        return net

    def _batch(self, seed: int) -> list[Any]:
        rng, size = np.random.default_rng(seed), 2 * self.group.size
        drawn = [rng.standard_normal((size, width)).astype("float32") for width in (4, 3)]
        return [unidev.array(each, device=self.group.device) for each in drawn]

    def step(self, seed: int, kind: str = "") -> Prepared:
        """One whose gradients are those of the whole batch."""
        of, batch = unidev.value_and_grad(_squared_error), self._batch(seed)
        plain = self.plain_synced if kind else self.plain
        _, expected = of(plain, *batch)
        own = self.group.split_batch(batch)
        return Prepared(
            lambda: of(self.nets[kind], *own)[1],
            lambda found: all(
                np.allclose(a, b, rtol=1e-3, atol=1e-5)
                for a, b in zip(
                    *(map(unidev.to_numpy, x.values()) for x in (found, expected)), strict=True
                )
            ),
        )

    def synchronized_step(self, seed: int) -> Prepared:
        """With batch norms of all workers."""
        return self.step(seed, "synced")

    def accuracy(self, _: int) -> Prepared:
        """Over a shard."""
        batch = unidev.array(self.rows[0], device=self.group.device), self.rows[1]
        expected = unidev.evaluate_accuracy(self.plain, [batch])
        return Prepared(
            lambda: unidev.evaluate_accuracy(self.parallel, self.shard),
            lambda found: bool(np.isclose(found, expected)),
        )

    def checkpoint(self, seed: int) -> Prepared:
        """Of a drawn step."""
        return Prepared(lambda: self.group.checkpoint(self.parallel, 1 + seed), lambda _: True)

    def restore(self, _: int) -> Prepared:
        """Of the last one, of which nobody has heard whose call has raised."""
        return Prepared(lambda: self.group.restore(self.parallel), lambda found: found >= 0)


def _squared_error(net: Any, x: Any, y: Any) -> Any:
    return nn.functional.mean_squared_error(net(x), y)


# -- a worker --------------------------------------------------------------------------------------


def work(draw: Draw) -> list[tuple[str, str]]:
    """What a worker hears from each of its calls, by their names."""
    if draw.engine:
        engines.QUICK_BYTES = 0
        overlap.FIRST_BYTES = overlap.BUCKET_BYTES = 100
        overlap.HOOK_S = 0.0
    rank, heard = unidev.group().rank, list[tuple[str, str]]()
    program, places = Program(draw.seed), random.Random(draw.seed)
    for _ in range(ROUNDS):
        name, prepared = program.collective()
        victim, share = places.randrange(draw.size), places.random()
        is_timed, is_late = places.random() < 0.3, places.random() < 0.5
        counting = Lines(0)
        sound = _heard(prepared(), counting if rank == victim else None, None)
        heard.append((name, sound))
        if sound != "right":
            return heard
        if rank == victim:
            lines = None if is_timed else Lines(1 + int(share * counting.count))
            said = _heard(prepared(), lines, share * 0.02 + 1e-4 if is_timed else None)
        else:
            time.sleep(0.005 if is_late else 0.0)  # late on purpose: the victim waits
            said = _heard(prepared(), None, None)
        heard.append((name, said))
        if said.startswith("TimeoutError") and name not in NUMBERED:
            heard.append((name, said := _heard(prepared(), None, None)))
        if "InvalidDataError" in said:
            return heard
    return heard


def _heard(prepared: Prepared, lines: Lines | None, after_s: float | None) -> str:
    try:
        with interrupted(lines, after_s):
            found = prepared.call()
        return "right" if prepared.is_right(found) else "wrong"
    except (unidev.UnidevError, Late) as error:
        late: BaseException | None = error
        while late is not None and not isinstance(late, Late):
            late = late.__cause__ or late.__context__
        said = error if late is None or GONE in str(error) else late
        if isinstance(said, unidev.InvalidDataError) and "worker" not in str(said):
            said = Late(f"at a drawn place, and was taken for one of an argument: {said}")
        words = re.search("\x1b\\[1m(.*)\x1b\\[0m", str(said))  # Keras adds what a layer was given
        return f"{type(said).__name__}: {said if words is None else words[1]}"


# -- who judges ------------------------------------------------------------------------------------


def problem(everybody: list[list[tuple[str, str]]]) -> str | None:
    """What is wrong with what the workers heard, or None."""
    strange = [said for own in everybody for _, said in own if not SOUND.match(said)]
    gone = {said for own in everybody for _, said in own if GONE in said}
    if strange or len(gone) > 1:
        return f"this was heard: {strange}; and as gone are named: {gone}"
    for said in gone:
        victims = [rank for rank, own in enumerate(everybody) if "at a drawn" in str(own)]
        if not any(f"worker {rank} {GONE}" in said for rank in victims):
            return f"workers {victims} raised, and this is said: {said}"
        for rank, own in enumerate(everybody):
            heard = [each == said for _, each in own]
            if True not in heard or False in heard[heard.index(True) :]:
                return f"worker {rank} has not heard of it, or has exchanged after it"
    return None


def heard(seed: int, backend: str, *, lets_go: bool) -> str:
    """Run the run with that number: a word on how it went, or what is wrong.

    If the engine ``lets_go`` of workers that wait in it, the run does not end by one that is gone.
    """
    draw = drawn(seed)
    with _memory_taken_away(draw.by_messages), tempfile.TemporaryDirectory() as folder:
        try:
            found = unidev.run(
                work, draw, workers=draw.size, backend=backend, timeout=60, gpus_per_worker=0,
                checkpoints=folder,
            )  # fmt: skip
        except unidev.WorkerFailedError as error:
            return f"run {seed}: {error}" if lets_go or GONE not in str(error) else "ended"
    wrong, told = problem(found), "\n".join(map(str, found))
    if wrong is not None:
        return f"run {seed}, {draw}: {wrong}\n{told}"
    return "left" if GONE in told else "refused" if "InvalidData" in told else "went on"


@contextmanager
def _memory_taken_away(is_taken: bool) -> Iterator[None]:
    sound = os.memfd_create
    if is_taken:
        del os.memfd_create
    try:
        yield
    finally:
        os.memfd_create = sound
