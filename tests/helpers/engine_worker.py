"""One worker of an engine's test: joins, does one task, prints what came of it, and leaves.

Run as a program, with an order in JSON. The values of each rank follow from its number, so that
every worker knows what must come out.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import psutil

import unidev
from unidev.backends.loading import load_backend
from unidev.parallel.exchange.engines import start_all_reduce

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract import Backend, Device, GroupEngine

    Array = np.ndarray[Any, Any]

SHAPES = ((7,), (1,), (3, 5), (1000,))
_COMBINED = {"sum": np.add, "min": np.minimum, "max": np.maximum}


class Worker(NamedTuple):
    """What a task works with."""

    backend: Backend
    engine: GroupEngine
    device: Device
    rank: int
    size: int
    answer: Callable[[Any], None]
    """Reports to the test; it may be called before the task ends."""
    go: Path
    """Made by the test once rank 0 has ended."""


def main() -> None:
    order = json.loads(sys.argv[1])
    answers = Path(order["answer"])

    def answer(found: Any) -> None:
        answers.with_suffix(".new").write_text(json.dumps(found))
        answers.with_suffix(".new").replace(answers)

    rendezvous = unidev.contract.Rendezvous(
        hosts=tuple(order["hosts"]),
        ports=tuple(order["ports"]),
        helper_ports=tuple(order["helper_ports"]),
        folder=None if order["folder"] is None else Path(order["folder"]),
        timeout_s=order["timeout_s"],
    )
    backend = load_backend(order["backend"])
    device = unidev.as_device(order["device"])
    engine = backend.group_engine
    engine.join(order["rank"], rendezvous, device)
    go = answers.with_name("go")
    worker = Worker(backend, engine, device, order["rank"], rendezvous.size, answer, go)
    found = TASKS[order["task"]](worker)
    if found is not None:
        answer(found)
    engine.leave()


# -- what is exchanged -----------------------------------------------------------------------------


def values(rank: int, name: str, shape: tuple[int, ...]) -> Array:
    """The values of one worker: the whole range of integers; signed zeros, NaN and infinities."""
    random = np.random.default_rng([rank, len(name), *shape])
    dtype = np.dtype("float32" if name == "bfloat16" else name)
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    drawn = random.standard_normal(shape) * 10.0 ** random.integers(-3, 3, shape)
    if dtype.kind == "c":
        return (drawn + 1j * random.standard_normal(shape)).astype(dtype)
    drawn = drawn.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)  # bfloat16 has these
    found = drawn.view(np.float32).astype(dtype)
    special = np.array([-0.0, np.inf, np.nan, 0.0], dtype)
    found.reshape(-1)[rank : rank + 2] = special[[rank % 4, (rank + 1) % 4]][: found.size - rank]
    return found


def with_tiny(parts: list[Array]) -> list[Array]:
    """With a subnormal number, which an engine may not flush unless it computes."""
    tiny = np.uint32(0x00010000).view(np.float32)
    return [np.where(part == part[0], tiny, part).astype(part.dtype) for part in parts]


def tensor(worker: Worker, array: Array, name: str) -> Any:
    """On the device where the engine wants it."""
    place = worker.backend.cpu if worker.engine.on_host else worker.device
    made = worker.backend.from_numpy(array, worker.backend.dtypes[str(array.dtype)], place)
    return (
        made
        if name != "bfloat16"
        else worker.backend.cast(made, worker.backend.dtypes[name], place)
    )


def array(worker: Worker, x: Any, name: str) -> Array:
    if name == "bfloat16":
        x = worker.backend.cast(x, worker.backend.dtypes["float32"], worker.backend.cpu)
    return worker.backend.to_numpy(x)


def orders_of_sum(parts: Sequence[Array]) -> list[Array]:
    """What the sum may be, by the order of its addends."""
    found = []
    for order in itertools.permutations(range(len(parts))):
        total = parts[order[0]].copy()
        for part in order[1:]:
            total = total + parts[part]
        found.append(total)
    return found


def same(a: Array, b: Array) -> Array:
    """Where two arrays have equal bits; one NaN is as good as another."""
    kind = f"V{a.dtype.itemsize}"
    bits = np.ascontiguousarray(a).view(kind) == np.ascontiguousarray(b).view(kind)
    nan = np.zeros(a.shape, bool) if a.dtype.kind in "biu" else np.isnan(a) & np.isnan(b)
    return bits.reshape(a.shape) | nan


# -- tasks -----------------------------------------------------------------------------------------


def everything(worker: Worker) -> None:
    """All that works; rank 0 then leaves and ends at once, the others when the test says so."""
    found = exchanged(worker)
    worker.answer({**found, "mixed": repeated(worker), "listens": listening(worker)})
    while worker.rank and not worker.go.exists():
        time.sleep(0.02)


def exchanged(worker: Worker) -> dict[str, Any]:
    """Every dtype that the engine carries, by each operation: what is wrong, and a digest."""
    wrong: list[str] = []
    digests: dict[str, str] = {}
    with np.errstate(all="ignore"):
        for op, shape in itertools.product(worker.engine.carries, SHAPES):
            for name in sorted(worker.engine.carries[op] & set(worker.backend.dtypes)):
                what = f"{op} of {name} {shape}"
                parts = [values(rank, name, shape) for rank in range(worker.size)]
                found, expected = _EXCHANGES[op](worker, op, parts, name)
                fits = np.any([same(found, each) for each in expected], axis=0)
                if found.dtype != parts[0].dtype or found.shape != expected[0].shape:
                    wrong.append(f"{what}: {found.dtype} {found.shape}")
                elif not fits.all():
                    wrong.append(f"{what}: {found[~fits][:3]}, not {expected[0][~fits][:3]}")
                digests[what] = hashlib.sha256(found.tobytes()).hexdigest()
    return {"wrong": wrong, "digests": digests}


def _reduced(worker: Worker, op: str, parts: list[Array], name: str) -> tuple[Array, list[Array]]:
    flat = tensor(worker, parts[worker.rank], name)
    found = array(worker, start_all_reduce(worker.engine, flat, op)(), name)
    if op == "sum":
        return found, orders_of_sum(parts)
    total = parts[0]
    for part in parts[1:]:
        total = _COMBINED[op](total, part)
    signed = _COMBINED[op](parts[0] + 0, total)  # +0 and -0 are equal
    return found, [total, np.where(total == 0, -signed, signed)]


def _broadcast(worker: Worker, op: str, parts: list[Array], name: str) -> tuple[Array, list[Array]]:
    parts = with_tiny(parts) if name.startswith(("float", "bfloat")) else parts
    found = []
    for root in range(worker.size):
        flat = tensor(worker, parts[worker.rank], name)
        given = array(worker, flat, name)
        found.append(array(worker, worker.engine.broadcast(flat, root), name))
        if root == worker.rank and not same(given, array(worker, flat, name)).all():
            found[-1] = found[-1][:0]  # it wrote to the root's own
    return np.stack(found), [np.stack(parts)]


def _gathered(worker: Worker, op: str, parts: list[Array], name: str) -> tuple[Array, list[Array]]:
    parts = with_tiny(parts) if name.startswith(("float", "bfloat")) else parts
    flat = tensor(worker, parts[worker.rank], name)
    found = worker.engine.all_gather(flat)
    shared = worker.backend.extents is not None and any(
        unidev.shares_memory(flat, x) for x in found
    )
    arrays = [array(worker, x, name) for x in found]
    return np.stack(arrays)[: 0 if shared else None], [np.stack(parts)]


_EXCHANGES = {
    "sum": _reduced, "min": _reduced, "max": _reduced, "broadcast": _broadcast, "gather": _gathered,
}  # fmt: skip


def repeated(worker: Worker) -> list[str]:
    """Many sums of few sizes, some of them large, without a barrier between: those that differ."""
    wrong = []
    for turn, size in itertools.product(range(40), (1, 3, 100_000, 2)):
        flat = tensor(worker, np.full(size, 10.0 * worker.rank + turn, np.float32), "float32")
        total = array(worker, worker.engine.all_reduce(flat, "sum"), "float32")
        expected = sum(10.0 * rank + turn for rank in range(worker.size))
        if not (total == expected).all():
            wrong.append(f"turn {turn} of {size}: {total[:3]}, not {expected}")
    return wrong


def wait_for_all(worker: Worker) -> None:
    """Return when all workers have called it."""
    device = worker.backend.cpu if worker.engine.on_host else worker.device
    assert len(worker.engine.gather_numbers([worker.rank], device)) == worker.size


def listening(worker: Worker) -> list[str]:
    """The addresses that this process listens on while all are there."""
    wait_for_all(worker)
    found = psutil.Process().net_connections("tcp")
    wait_for_all(worker)
    return sorted({each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN})


def be_killed(worker: Worker) -> str | None:
    """The last rank is killed; the others have an error, or wait until they are killed as well."""
    try:
        # The last rank may be through the barrier, and dead, while another is still in it.
        wait_for_all(worker)
        worker.answer("joined")
        if worker.rank == worker.size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        for _ in range(3):
            worker.engine.all_reduce(tensor(worker, np.ones(3, np.float32), "float32"), "sum")
    except worker.backend.framework_errors as error:
        return f"{type(error).__name__}: {error}"
    return "went on"


TASKS: dict[str, Callable[[Worker], Any]] = {"everything": everything, "be_killed": be_killed}


if __name__ == "__main__":
    main()
