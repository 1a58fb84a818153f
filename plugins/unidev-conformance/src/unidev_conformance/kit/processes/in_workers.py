"""Functions of workers in checks, which import them; they use unidev as a user does."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save_file

import unidev
from unidev import nn
from unidev.models.checkpoints import verbs
from unidev.parallel.exchange import checkpoints as writing
from unidev.parallel.exchange import engines
from unidev_conformance.kit.processes import loops
from unidev_conformance.kit.processes.loops import heard_by, numbers_of, squared_error

if TYPE_CHECKING:
    from collections.abc import Callable

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)
SHAPES = ((2, 3), (), (0, 4), (5,), (300,))
OPERATIONS = ("sum", "min", "max", "mean")
DTYPES = ("int8", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64")
WEIGHT_SCALES = (1, 4e307, 5e-324)
"""The same mean; the sum of weights is infinite, or they have no inverse."""
_MOVED = (*DTYPES, "bool", "int16")
_EDGES = (300, 43_690, 65_536, 1 << 20, 4 << 20, 9 << 20)
"""Bytes at which exchanges are made in another way; the last of them are several pieces."""
BY_MEMORY = " by memory"
"""Ends the name of a function whose tensors travel as they do for users: few bytes on the CPU do so
in memory that the workers share."""
_QUICK_BYTES = engines.QUICK_BYTES
_EXIT = 7
_ROWS = 7
"""Rows of the whole batch: not a multiple of the number of workers."""


def several(*names: str) -> dict[str, tuple[bool, Any]]:
    """For each of these functions whether it raised, and its result or its traceback.

    In one run: starting processes takes longer than what they do. All tensors travel by the
    framework's engine, however few their bytes are, unless the name ends with ``BY_MEMORY``.
    """
    found = {}
    for name in names:
        function = name.removesuffix(BY_MEMORY)
        engines.QUICK_BYTES = _QUICK_BYTES if name.endswith(BY_MEMORY) else 0
        unidev.group().exchange.forget_plans()
        found[name] = _tried(getattr(loops, function, None) or globals()[function])
    engines.QUICK_BYTES = _QUICK_BYTES
    return found


def _tried(function: Callable[[], Any]) -> tuple[bool, Any]:
    try:
        return False, function()
    except (unidev.UnidevError, AssertionError):
        return True, traceback.format_exc()


def own_gpus() -> dict[str, Any]:
    """The devices that this worker sees, and what it hears of another's."""
    group = unidev.group()
    beyond = len(unidev.try_all_gpus()) if group.device.kind == "gpu" else 0
    try:
        unidev.gpu(beyond)
    except unidev.DeviceNotFoundError as error:
        heard = str(error)
    else:
        heard = f"gpu:{beyond} is there"
    return {
        "own": [str(each) for each in group.devices],
        "seen": [str(each) for each in unidev.try_all_gpus()],
        "first": str(unidev.try_gpu()),
        "beyond": heard,
    }


def _own(dtype: str) -> list[Any]:
    group = unidev.group()
    prime = PRIMES[group.rank]
    if dtype == "bool":
        return [unidev.array(np.full(5, group.rank == 0), device=group.device)]
    return [
        unidev.full(shape, prime + at, dtype=dtype, device=group.device)
        for at, shape in enumerate(SHAPES)
    ]


def _bytes(x: Any) -> bytes:
    if "bfloat16" in str(x.dtype):
        x = unidev.array(x, dtype="float32")
    return unidev.to_numpy(x).tobytes()


def reductions() -> dict[str, Any]:
    """For each dtype and operation, the results as float64, and as bytes with their devices."""
    group = unidev.group()
    there = unidev.active_backend().dtypes
    found: dict[str, Any] = {"device": str(group.device)}
    for dtype in [name for name in DTYPES if name in there]:
        for op in OPERATIONS:
            if op == "mean" and "int" in dtype:
                continue
            own = _own(dtype)
            before = [_bytes(x) for x in own]
            result = group.all_reduce(own, op)
            assert [_bytes(x) for x in own] == before, f"{op} of {dtype} changed its input"
            assert [x.dtype for x in result] == [x.dtype for x in own], f"{op} of {dtype}: dtype"
            devices = {str(unidev.device_of(x)) for x in result}
            wide = [unidev.array(x, dtype="float32") if "16" in dtype else x for x in result]
            values = [unidev.to_numpy(x).astype("float64") for x in wide]
            found[f"{op} of {dtype}"] = values, [_bytes(x) for x in result], devices
    return found


def extremes() -> dict[str, tuple[Any, Any]]:
    """For each dtype, minima and maxima of its limits, of NaN and of infinity: own, and of all."""
    group = unidev.group()
    there = unidev.active_backend().dtypes
    found = {}
    for dtype in [name for name in there if "int" in name or name in ("float32", "float64")]:
        values: list[float] = [np.nan, np.inf, -np.inf, 1, -0.5]
        if "int" in dtype:
            limits = np.iinfo(dtype)
            values = [limits.max, limits.min, limits.max // 2 + 1, 1, 2]
        own = np.roll(np.array(values, dtype), group.rank)
        x = unidev.array(own, device=group.device)
        for op in ("min", "max"):
            try:
                result = group.all_reduce(x, op)
            except unidev.UnsupportedDtypeError:
                continue  # which those that every backend reduces are not: see `reductions`
            found[f"{op} of {dtype}"] = own, unidev.to_numpy(result)
    return found


def sums_by_bits() -> list[bytes]:
    """Sums of numbers of very different size, whose last bits show the order of adding."""
    group = unidev.group()
    rng = np.random.default_rng(group.rank)
    scale = np.float32(1e4**group.rank)
    found = []
    for _ in range(10):
        x = unidev.array(rng.standard_normal(500).astype("float32") * scale, device=group.device)
        found.append(_bytes(group.all_reduce({"x": x}, "mean")["x"]))
    return found


def weighted() -> list[float]:
    """Means by this worker's weight, and by a list of all."""
    group = unidev.group()
    x = unidev.full(3, float(PRIMES[group.rank]), device=group.device)
    listed = [4.0] * (group.size - 1) + [1.0]
    return [
        unidev.to_numpy(group.all_reduce(x, "mean", weights=weights))[1].item()
        for scaled in ([each * scale for each in listed] for scale in WEIGHT_SCALES)
        for weights in (scaled[group.rank], scaled)
    ]


def pieces() -> list[str]:
    """The wrong results of exchanges of each dtype, and of sizes at which another way is taken."""
    group, wrong = unidev.group(), []
    rng = np.random.default_rng(9)  # the same on all

    def compare(call: str, y: Any, expected: Any) -> None:
        found = unidev.to_numpy(unidev.array(y, dtype=str(expected.dtype)))
        if not np.array_equal(found, expected):
            at = int(np.argmax(found != expected)) if found.shape == expected.shape else -1
            wrong.append(f"{call}, {found.shape}, from {at} on: {found[at]}, not {expected[at]}")

    there = [name for name in _MOVED if name in unidev.active_backend().dtypes]
    cases = [(str(rng.choice(("int8", "float32"))), nbytes) for nbytes in _EDGES]
    for number, (dtype, nbytes) in enumerate([*cases, *((name, 301) for name in there)]):
        kept = "float32" if dtype == "bfloat16" else dtype
        size = nbytes // np.dtype(kept).itemsize + int(rng.integers(-1, 2))
        own = [(np.arange(size) * (n + 3) % 37).astype(kept) for n in range(group.size)]
        x = unidev.array(own[group.rank], dtype=dtype, device=group.device)
        op, root = ("sum", "max")[number % 2], number % group.size
        if number < len(cases):
            compare(op, group.all_reduce(x, op), getattr(np, op)(own, 0).astype(dtype))
        compare(
            f"broadcast of {dtype} from {root}", group.broadcast({"x": x}, root)["x"], own[root]
        )
        for rank, y in enumerate(group.all_gather(x)):
            compare(f"all_gather of {dtype}, worker {rank}", y, own[rank])
            assert y.dtype == x.dtype, f"all_gather of {dtype}: {y.dtype}"
    return wrong


def in_place() -> tuple[bool, float]:
    """Whether the tensor stayed the same object, and its value."""
    group = unidev.group()
    tree = {"x": unidev.full(3, float(PRIMES[group.rank]), device=group.device)}
    x = tree["x"]
    try:
        group.all_reduce(tree, in_place=True)
    except unidev.UnsupportedOperation:
        return True, float(sum(PRIMES[: group.size]))  # immutable, and unchanged
    return tree["x"] is x, unidev.to_numpy(x)[0].item()


def structures_that_differ() -> list[str]:
    """The messages that each worker gets if its tree, or its call, differs from the others'."""
    group = unidev.group()
    first = group.rank == 0

    def ones(count: int = 31) -> Any:  # structures that nothing has exchanged before
        return unidev.ones(count, device=group.device)

    heard = [
        heard_by(lambda: group.all_reduce(ones(31 if first else 30))),
        heard_by(lambda: group.all_reduce({str(first): ones()})),
        heard_by(lambda: group.all_reduce(ones(), "sum" if first else "max")),
        heard_by(lambda: (group.all_reduce if first else group.all_gather)(ones())),
    ]
    known = ones(32)  # from here on, structures that all have exchanged before
    group.all_reduce([known, ones()])
    group.all_reduce([ones(), known])
    group.all_reduce(known, "mean", weights=[1.0] * group.size)
    weights = [4.0 if first else 1.0] * group.size
    heard += [
        heard_by(lambda: group.all_reduce([known, ones()] if first else [ones(), known])),
        heard_by(lambda: group.all_reduce(known, "mean", weights=weights)),
        heard_by(lambda: group.all_reduce(known, "sum" if first else "mean")),
    ]
    group.barrier()
    return heard


def leaving() -> list[str]:
    """What each hears once the last has left a sum early, by a signal, and gone on."""
    group = unidev.group()
    x = unidev.ones(10, device=group.device)
    group.all_reduce(x)
    drawn = unidev.array([secrets.randbelow(1 << 31)], dtype="int32", device=group.device)
    (number,) = unidev.to_numpy(group.broadcast(drawn))  # a process number comes back
    has_left = Path(tempfile.gettempdir()) / f"unidev-left-{number}"

    def heard() -> str:
        try:
            return f"the sum {unidev.to_numpy(group.all_reduce(x))[0].item()}"
        except (ArithmeticError, unidev.UnidevError) as error:
            return f"{type(error).__name__}: {error}"

    if group.rank < group.size - 1:
        while not has_left.exists():
            time.sleep(0.01)
        found = [heard(), heard()]
        (has_left / str(group.rank)).touch()
        return found
    signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, 0.1)  # the others do not come before that
    found = [heard()]
    has_left.mkdir()
    try:
        found.append(heard())
        while len([*has_left.iterdir()]) < group.size - 1:
            time.sleep(0.01)
    finally:
        shutil.rmtree(has_left)
    return found


def failing(how: str, rank: int) -> None:
    """Some exchanges; then one worker fails, while the other waits for it."""
    group = unidev.group()
    x = unidev.ones(10, device=group.device)
    for _ in range(2):
        group.all_reduce(x)
    if group.rank == rank:
        if how == "leaves a sum early":
            signal.signal(signal.SIGALRM, _ring)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            try:
                group.all_reduce(x)
            finally:
                time.sleep(0.5)  # meanwhile the other hears of it, and ends first
        if how == "raises":
            raise ArithmeticError("this worker is the one that failed")
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        if how == "exits":
            os._exit(_EXIT)
        return
    time.sleep(0.2 * how.startswith("leaves"))
    for _ in range(3):
        group.all_reduce(x)


def _ring(*_: Any) -> None:
    raise ArithmeticError("it took too long")


def gradients() -> dict[str, Any]:
    """A step of gradient descent over all workers: found, as of the whole batch, and afterwards."""
    group = unidev.group()
    unidev.seed(1 + group.rank)  # other weights on each: those of worker 0 count
    net = nn.sequential(nn.dense(4, 8), nn.tanh(), nn.dense(8, 3))
    unidev.place(net, group.device)
    rng = np.random.default_rng(7)
    batch = [
        unidev.array(rng.standard_normal((_ROWS, size)).astype("float32"), device=group.device)
        for size in (4, 3)
    ]
    net(batch[0])
    parallel = unidev.DataParallel(net)
    of = unidev.value_and_grad(squared_error)
    whole = numbers_of(*of(net, *batch))
    loss, found = of(parallel, *group.split_batch(batch))
    unidev.sgd(parallel, found, lr=0.1)
    after = {name: unidev.to_numpy(x).tobytes() for name, x in unidev.parameters(net).items()}
    return {"found": numbers_of(loss, found), "whole": whole, "after": after}


def checkpoints(folder: str) -> tuple[int, float]:
    """A model with a checkpoint for each step; worker 0 is killed while it writes the third."""
    group = unidev.group()
    net = nn.sequential(nn.dense(2, 2))
    unidev.place(net, group.device)
    killed = Path(folder) / "killed"
    begun = group.restore(net)
    for step in range(begun + 1, 5):
        _fill(net, float(step))
        if step == 3 and group.rank == 0 and not killed.exists():
            killed.touch()
            _kill_while_writing()
        group.checkpoint(net, step)
    (first, *_) = unidev.parameters(net).values()
    return begun, unidev.to_numpy(first).reshape(-1)[0].item()


def _fill(net: Any, value: float) -> None:
    """Give all parameters this value, by a file."""
    with tempfile.TemporaryDirectory() as folder:
        values = {
            name: np.full(tuple(x.shape), value, "float32")
            for name, x in unidev.parameters(net).items()
        }
        save_file(values, f"{folder}/values.safetensors")
        unidev.load_parameters(net, f"{folder}/values.safetensors")


def _kill_while_writing() -> None:
    """Have this worker killed when half of a model is on the disk."""
    write = verbs.save_parameters

    def half(model: Any, path: Any) -> None:
        write(model, path)
        content = Path(path).read_bytes()
        Path(path).write_bytes(content[: len(content) // 2])
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(writing, "save_parameters", half)  # noqa: B010  what a type checker must not see
