"""Loops of workers in checks: shards, what they refuse, and evaluation over them."""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev import nn
from unidev.contract.backend import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, BATCH = 20, 6
"""The last batch has two rows, fewer than the suite's workers."""
_CLASSES = 3
_FORK_S = 20
_WIDE, _STEPS = 560, 5
"""A layer of so many numbers has 1.2 MiB of weights."""


def shards() -> dict[str, Any]:
    """This worker's rows of each batch, two epochs of them, and how many are repeated."""
    group = unidev.group()
    numbers = np.arange(ROWS)
    found: dict[str, Any] = {}
    sources: dict[str, Any] = {
        "an array": numbers,
        "tensors": {"x": unidev.array(numbers, device=group.device)},
        "a sequence": [(number, "text") for number in range(ROWS)],
    }
    sources |= {f"loader {name}": each for name, each in _loaders().items()}
    for name, data in sources.items():
        is_own = name.startswith("loader")
        if name.startswith("loader refused"):
            continue
        for shuffle in [name == "loader shuffled"] if is_own else [False, True]:
            how: dict[str, Any] = {} if is_own else {"batch_size": BATCH, "shuffle": shuffle}
            for last in ("pad", "drop"):
                shard = group.shard(data, seed=5, last=last, **how)
                epochs = [[_rows_in(batch, is_own) for batch in shard] for _ in range(2)]
                shard.epoch = 0
                again = [_rows_in(batch, is_own) for batch in shard]
                assert again == epochs[0], f"{name}: epoch 0 has other rows when it is read again"
                assert len(shard) == len(again), f"{name}: {len(shard)} batches, not {len(again)}"
                found[f"{name}, {shuffle=}, {last=}"] = epochs, shard.padding
    return found


def _loaders() -> dict[str, Any]:
    """The framework's, by which function batches are made: ``_rows_in`` needs their ``"x"``."""
    backend = unidev.active_backend()
    if isinstance(backend.loader, Unsupported) or isinstance(backend.probe.loaders, Unsupported):
        return {}
    return dict(backend.probe.loaders(np.arange(ROWS), BATCH))


def _rows_in(batch: Any, is_own: bool) -> list[int]:
    is_named = is_own or isinstance(batch, dict)
    x = batch["x"] if is_named else batch[0] if isinstance(batch, tuple) else batch
    numbers: list[int] = (x if isinstance(x, np.ndarray) else unidev.to_numpy(x)).tolist()
    return numbers


def refused_shards() -> list[str]:
    """The messages about each wrong call of ``shard``, and about calls that differ."""
    group = unidev.group()
    first = group.rank == 0
    data = np.arange(ROWS)
    calls: list[Callable[[], Any]] = [
        lambda: group.shard(iter(data), batch_size=BATCH),
        lambda: group.shard((number for number in data), batch_size=BATCH),
        lambda: group.shard([data, data], batch_size=BATCH),
        lambda: group.shard((data, data[:-1]), batch_size=BATCH),
        lambda: group.shard(data),
        lambda: group.shard(data, batch_size=0),
        lambda: group.shard(data, batch_size=group.size - 1),
        lambda: group.shard(data, batch_size=BATCH, seed=-1),
        lambda: group.shard(data, batch_size=BATCH, last="keep"),
        lambda: group.shard(data[:0], batch_size=BATCH),
        lambda: group.shard(data, batch_size=BATCH, shuffle=True, seed=int(first)),
        lambda: group.shard(data if first else data[1:], batch_size=BATCH),
        lambda: group.shard(data, batch_size=BATCH, last="pad" if first else "drop"),
        lambda: group.gather_rows(unidev.ones((2, 3), device=group.device), padded=3),
    ]
    refused = [each for name, each in _loaders().items() if name.startswith("refused")]
    calls += [partial(group.shard, each) for each in refused]
    heard = [heard_by(call) for call in calls]
    group.barrier()
    return heard


def heard_by(call: Callable[[], Any]) -> str:
    """The words of the error that ``call`` raises about its arguments."""
    try:
        call()
    except (unidev.InvalidDataError, unidev.UnsupportedOperation) as error:
        return str(error)
    return "no error"


def evaluation() -> dict[str, tuple[Any, Any]]:
    """The accuracy, and the outputs of all rows in order: over a shard, and of the whole."""
    group = unidev.group()
    unidev.seed(3)
    net = nn.sequential(nn.dense(4, 8), nn.relu(), nn.dense(8, _CLASSES))
    unidev.place(net, group.device)
    rng = np.random.default_rng(11)
    inputs = rng.standard_normal((ROWS, 4)).astype("float32")
    labels = rng.integers(_CLASSES, size=ROWS)
    labels[-2:] = unidev.to_numpy(_outputs(net, inputs)).argmax(1)[-2:]  # right, and repeated
    shard = group.shard((inputs, labels), batch_size=BATCH)
    gathered = [
        unidev.to_numpy(group.gather_rows({"y": _outputs(net, x)}, padded=padded)["y"])
        for (x, _), padded in zip(shard, shard.padding, strict=True)
    ]
    whole = unidev.evaluate_accuracy(net, [(_placed(inputs), labels)])
    return {
        "accuracy": (unidev.evaluate_accuracy(net, unidev.prefetch(shard, group.device)), whole),
        "outputs": (np.concatenate(gathered), unidev.to_numpy(_outputs(net, inputs))),
    }


def accumulation() -> dict[str, dict[str, Any]]:
    """Gradients of steps without exchange and one with it, whose numbers differ by worker.

    Found; of the whole batch; and found in the next step, which must not know of those before.
    """
    group = unidev.group()
    unidev.seed(2)
    net = nn.sequential(nn.dense(4, 8), nn.tanh(), nn.dense(8, _CLASSES))
    unidev.place(net, group.device)
    rng = np.random.default_rng(5)
    batch = [_placed(rng.standard_normal((ROWS, size)).astype("float32")) for size in (4, _CLASSES)]
    of = unidev.value_and_grad(squared_error)
    whole = numbers_of(*of(net, *batch))
    parallel = unidev.DataParallel(net)
    own = group.split_batch(batch)
    *pieces, last = unidev.split_batch(own, [group.device] * (group.rank + 1), weights=_weights())
    for piece in pieces:
        with parallel.accumulate():
            of(parallel, *piece)
    found = numbers_of(*of(parallel, *last))
    return {"found": found, "whole": whole, "again": numbers_of(*of(parallel, *own))}


def skipped() -> tuple[str, dict[str, Any]]:
    """What each hears when the first goes on after its forward has raised; and the step after."""
    group = unidev.group()
    net = unidev.place(nn.sequential(nn.dense(4, _CLASSES)), group.device)
    own = [_placed(np.ones((2, size), "float32")) for size in (4, _CLASSES)]
    net(own[0])
    parallel, of = unidev.DataParallel(net), unidev.value_and_grad(squared_error)
    of(parallel, *own)
    if group.rank == 0:
        with suppress(ArithmeticError):
            unidev.value_and_grad(_raises)(parallel, *own)
    heard = heard_by(lambda: of(parallel, *own))
    return heard, numbers_of(*of(parallel, *own))


def _raises(*_: Any) -> None:
    raise ArithmeticError


def overlapped() -> list[dict[str, Any]]:
    """For each step of a net in several buckets: found, this worker's own, and its rows.

    In every other step the first worker's loss leaves out half of the net.
    """
    group = unidev.group()
    unidev.seed(6)
    first, second = (
        nn.sequential(nn.dense(_WIDE if n else 4, _WIDE), nn.tanh(), nn.dense(_WIDE, _WIDE))
        for n in range(2)
    )
    net = nn.sequential(first, second)
    rng = np.random.default_rng(8)
    inputs, targets = (rng.standard_normal((ROWS, n)).astype("float32") for n in (4, _WIDE))
    rows, first_row = group.rank + 2, group.rank * 5
    own = [_placed(x[first_row : first_row + rows]) for x in (inputs, targets)]
    unidev.place(net, group.device)
    net(own[0])
    parallel = unidev.DataParallel(net)
    results: list[Any] = []
    found: list[dict[str, Any]] = []
    for number in range(_STEPS):
        is_half = number % 2 == 1 and group.rank == 0

        def loss_of(net: Any, x: Any, y: Any, is_half: bool = is_half) -> Any:
            # Of the net that the loss is given, which a functional framework differentiates.
            parts = net.layers if hasattr(net, "layers") else net
            return nn.functional.mean_squared_error((parts[0] if is_half else net)(x), y)

        of = unidev.value_and_grad(loss_of)
        step: dict[str, Any] = {"own": numbers_of(*of(net, *own)), "rows": rows}
        results.append(of(parallel, *own))
        found.append({**step, "found": numbers_of(*results[-1])})
    for number, (result, step) in enumerate(zip(results, found, strict=True)):
        for name, x in numbers_of(*result).items():
            same = x.tobytes() == step["found"][name].tobytes()
            assert same, f"step {number}, {name}: written to by a later step"
    return found


def synchronized_norms() -> dict[str, Any]:
    """Gradients, loss and statistics of a step over the workers, and of one of the whole batch.

    Or the reason why the backend has no such norms.
    """
    group = unidev.group()
    rng = np.random.default_rng(7)
    shifted = rng.standard_normal((ROWS, 4)) + 3 + np.arange(ROWS)[:, None]  # unlike in each share
    batch = [_placed(x.astype("float32")) for x in (shifted, rng.standard_normal((ROWS, _CLASSES)))]
    of = unidev.value_and_grad(squared_error)
    alone, net = _normed(), _normed()
    try:
        parallel = unidev.DataParallel(net, batch_norm="synchronized")
    except unidev.UnsupportedOperation as refusal:
        return {"reason": refusal.reason}
    return {
        "found": numbers_of(*of(parallel, *group.split_batch(batch))) | _statistics(net),
        "whole": numbers_of(*of(alone, *batch)) | _statistics(alone),
    }


def _normed() -> Any:
    """A net with a norm at its input, which has no gradient, one beside another, and one behind."""
    unidev.seed(4)
    beside = nn.sequential(nn.dense(4, 4), nn.batch_norm(4))
    return unidev.place(
        nn.sequential(
            nn.batch_norm(4, momentum=0.5), nn.dense(4, 4), nn.batch_norm(4), beside, nn.tanh(),
            nn.dense(4, _CLASSES), nn.batch_norm(_CLASSES),
        ),
        unidev.group().device,
    )  # fmt: skip


def _statistics(net: Any) -> dict[str, Any]:
    found = unidev.active_backend().models.statistics(net)
    return {name: unidev.to_numpy(x) for name, x in found.items()}


def _weights() -> list[float]:
    """Pieces of a worker's rows differ: a mean that does not weigh them by rows shows."""
    return [1.0 + 2 * number for number in range(unidev.group().rank + 1)]


def steps_elsewhere() -> dict[str, str]:
    """As ``calls_elsewhere``, of steps whose exchange is planned, is not yet, or comes later."""
    batch = [_placed(np.ones((2, size), "float32")) for size in (4, _CLASSES)]
    of = unidev.value_and_grad(squared_error)
    planned, other, held = (unidev.DataParallel(_normed()) for _ in range(3))
    before = [numbers_of(*of(planned, *batch)) for _ in range(3)][-1]

    def accumulate() -> None:
        with held.accumulate():
            of(held, *batch)

    said = elsewhere(
        planned=lambda: of(planned, *batch), first=lambda: of(other, *batch), accumulated=accumulate
    )
    for name, x in numbers_of(*of(planned, *batch)).items():
        assert np.allclose(x, before[name], rtol=1e-5), f"{name}: {x}, and before {before[name]}"
    return said


def calls_elsewhere() -> dict[str, str]:
    """For each way into an exchange the error in another thread, and in a forked child."""
    group = unidev.group()
    x = unidev.ones(2, device=group.device)
    return elsewhere(
        group=unidev.group,
        all_reduce=lambda: group.all_reduce(x),
        broadcast=lambda: group.broadcast(x),
        all_gather=lambda: group.all_gather(x),
        gather_rows=lambda: group.gather_rows(x),
        barrier=group.barrier,
        shard=lambda: group.shard([1, 2, 3], batch_size=3),
    )


def elsewhere(**calls: Callable[[], Any]) -> dict[str, str]:
    """What each of these calls raises in another thread, and in a forked child."""
    found: dict[str, str] = {}

    def say(where: str) -> dict[str, str]:
        return {f"{name} in {where}": _raised(call) for name, call in calls.items()}

    thread = threading.Thread(target=lambda: found.update(say("a thread")))
    thread.start()
    thread.join()
    there, here = os.pipe()
    child = os.fork()  # the framework may not work in it, and need not
    if not child:
        try:
            signal.alarm(_FORK_S)
            os.write(here, json.dumps(say("a fork")).encode())
        finally:
            os._exit(0)
    os.close(here)
    with open(there, "rb") as answer:
        found |= json.loads(answer.read() or b'{"a fork": "hangs, or breaks"}')
    os.waitpid(child, 0)
    return found


def _raised(call: Callable[[], Any]) -> str:
    try:
        call()
    except unidev.UnidevError as error:
        return type(error).__name__
    return "no error"


def squared_error(net: Any, x: Any, y: Any) -> Any:
    """The mean squared error of the net's outputs."""
    return nn.functional.mean_squared_error(net(x), y)


def numbers_of(loss: Any, found: dict[str, Any]) -> dict[str, Any]:
    """The loss and the gradients, as arrays by name."""
    return {name: unidev.to_numpy(x) for name, x in {"loss": loss, **found}.items()}


def _outputs(net: Any, inputs: Any) -> Any:
    with unidev.group().device:
        return net(_placed(inputs))


def _placed(values: Any) -> Any:
    return unidev.array(values, device=unidev.group().device)
