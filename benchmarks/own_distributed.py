"""The measurements of each of two workers: unidev's exchanges against the framework's own.

Workers import this module. Both sides run the same number of times in the same order everywhere, so
the counts are fixed.
"""

from __future__ import annotations

import copy
import gc
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from measure import IS_TRIAL, rounds_or, sized

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Times = tuple[float, float, float]
    Made = tuple[Any, Any, tuple[Any, Any]]
    """Two equal models, and a batch."""
    Models = Iterator[tuple[str, int, Callable[[], Made]]]
    """Names, calls in a round, and what makes them."""

ROUNDS, ROUNDS_OF_LARGE = 7, 15
ROUNDS_OF_STEPS = 21
LARGE_BYTES = sized(64, 1) * 2**20
LONG_CALLS = 3
"""A step that is measured in so few calls is too long for a trial."""
TENSORS, SIZE = 400, 1_000


def compared(
    ours: Callable[[], object], theirs: Callable[[], object], calls: int = 1, rounds: int = ROUNDS
) -> Times:
    """Median seconds per call of each on this worker, and the median of the rounds' ratios."""
    group, times = unidev.group(), ([], [])
    for sides in (ours, theirs) * sized(
        3, 1
    ):  # the first steps learn in which order gradients come
        sides()
    calls = sized(calls, 1)
    for round_ in range(rounds_or(rounds)):
        gc.collect()
        for which in (0, 1) if round_ % 2 else (1, 0):
            measured = (ours, theirs)[which]
            group.barrier()
            start = time.perf_counter()
            for _ in range(calls):
                measured()
            unidev.synchronize()
            times[which].append((time.perf_counter() - start) / calls)
    ratios = [a / b for a, b in zip(*times, strict=True)]
    return statistics.median(times[0]), statistics.median(times[1]), statistics.median(ratios)


def returned() -> None:
    """The group is there, and that is all."""
    unidev.group().all_reduce(unidev.ones(1))


# -- all_reduce --------------------------------------------------------------------------------


def first_step() -> None:
    """One step of PyTorch's SGD on a small layer, and meet."""
    import torch

    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    returned()


def reductions() -> dict[str, Times]:
    """``all_reduce`` of one large tensor, and of many small ones."""
    group, backend = unidev.group(), unidev.active_backend().name
    group.join()
    own = OWN_CALLS[backend]()
    large = unidev.zeros(LARGE_BYTES // 4)
    in_place = backend != "tensorflow"
    small = [unidev.zeros(SIZE) for _ in range(TENSORS)]
    return {
        "large": compared(
            lambda: group.all_reduce(large, in_place=in_place),
            lambda: own(large, "large"),
            rounds=ROUNDS_OF_LARGE,  # the wire's own times differ by a tenth
        ),
        "small": compared(
            lambda: group.all_reduce(small), lambda: [own(x, "small") for x in small]
        ),
    }


def _own_torch() -> Callable[[Any, str], object]:
    import torch.distributed as dist

    return lambda x, _: dist.all_reduce(x)


def _own_paddle() -> Callable[[Any, str], object]:
    import paddle.distributed as dist

    return lambda x, _: dist.all_reduce(x)


def _own_tensorflow() -> Callable[[Any, str], object]:
    import tensorflow as tf

    keys = {"large": 100_001, "small": 100_002}

    def reduce(x: Any, key: str) -> Any:
        return tf.raw_ops.CollectiveReduceV2(
            input=x, group_size=2, group_key=1, instance_key=keys[key], ordering_token=[],
            merge_op="Add", final_op="Id",
        )  # fmt: skip

    return reduce


def _own_mxnet() -> Callable[[Any, str], object]:
    store = unidev.active_backend().group_engine._store
    known: set[str] = set()

    def reduce(x: Any, key: str) -> None:
        legacy = x.as_nd_ndarray()
        if key not in known:
            store.init(key, legacy)
            known.add(key)
        store.pushpull(key, legacy, out=legacy)
        legacy.wait_to_read()  # the next one has the same key

    return reduce


OWN_CALLS = {
    "torch": _own_torch,
    "tensorflow": _own_tensorflow,
    "paddle": _own_paddle,
    "mxnet": _own_mxnet,
}


# -- DataParallel ------------------------------------------------------------------------------


def steps(only: str = "") -> dict[str, Times]:
    """A step of ``DataParallel`` against the framework's own, by model."""
    backend = unidev.active_backend().name
    unidev.group().join()  # the framework's own step needs it
    found = {}
    for what, calls, make in STEPS[backend]():
        if what != only if only else IS_TRIAL and calls <= LONG_CALLS:
            continue
        net, other, batch = make()
        parallel = unidev.DataParallel(net)
        step = unidev.value_and_grad(LOSSES[backend])
        own = OWN_STEPS[backend](other)

        def ours(parallel: Any = parallel, step: Any = step, batch: Any = batch) -> None:
            _, gradients = step(parallel, *batch)
            unidev.sgd(parallel, gradients, lr=0.0)

        def theirs(own: Any = own, batch: Any = batch) -> None:
            own(*batch)

        found[what] = compared(ours, theirs, calls, ROUNDS_OF_STEPS)
    return found


def _torch_models() -> Models:
    import torch
    from torch import nn

    def chain(width: int, count: int) -> Any:
        return nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(count)))

    def lenet() -> Any:
        return nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1), nn.Sigmoid(), nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 3, padding=1), nn.Sigmoid(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(64, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid(),
            nn.Linear(84, 10),
        )  # fmt: skip

    def made(net: Any, *shape: int) -> Made:
        return net, copy.deepcopy(net), (torch.rand(shape), torch.arange(shape[0]) % 10)

    yield "the digits' LeNet", 40, lambda: made(lenet(), 64, 1, 8, 8)
    for what, calls, width, count, rows in (
        ("0.5 M parameters", 20, 512, 2, 64),
        ("200 tensors of 64 x 64", 8, 64, 200, 64),
        ("8 M parameters", 3, 2048, 2, 16),
        ("8 M parameters in 8 layers", 1, 1024, 8, 512),
        ("34 M parameters", 1, 4096, 2, 16),
    ):
        yield (
            what,
            calls,
            partial(lambda n, k, rows: made(chain(n, k), rows, n), width, count, rows),
        )


def _torch_step(net: Any) -> Callable[..., None]:
    import torch
    from torch.nn.parallel import DistributedDataParallel

    parallel = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.0)

    def step(images: Any, labels: Any) -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(parallel(images), labels).backward()
        optimizer.step()

    return step


def _torch_loss(net: Any, images: Any, labels: Any) -> Any:
    import torch

    return torch.nn.functional.cross_entropy(net(images), labels)


def _paddle_models() -> Models:
    import paddle
    from paddle import nn

    def lenet() -> Any:
        return nn.Sequential(
            nn.Conv2D(1, 6, 3, padding=1), nn.Sigmoid(), nn.AvgPool2D(2),
            nn.Conv2D(6, 16, 3, padding=1), nn.Sigmoid(), nn.AvgPool2D(2),
            nn.Flatten(), nn.Linear(64, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid(),
            nn.Linear(84, 10),
        )  # fmt: skip

    batch = paddle.rand([64, 1, 8, 8]), paddle.arange(64) % 10
    yield "the digits' LeNet", 40, lambda: (lenet(), lenet(), batch)


def _paddle_step(net: Any) -> Callable[..., None]:
    import paddle

    parallel = paddle.DataParallel(net)
    optimizer = paddle.optimizer.SGD(0.0, parameters=parallel.parameters())

    def step(images: Any, labels: Any) -> None:
        paddle.nn.functional.cross_entropy(parallel(images), labels).backward()
        optimizer.step()
        optimizer.clear_grad()

    return step


def _paddle_loss(net: Any, images: Any, labels: Any) -> Any:
    import paddle

    return paddle.nn.functional.cross_entropy(net(images), labels)


def _portable_models() -> Models:
    from unidev import nn

    def lenet() -> Any:
        return nn.sequential(
            nn.conv2d(1, 6, 3, padding=1), nn.tanh(), nn.avg_pool2d(2),
            nn.conv2d(6, 16, 3, padding=1), nn.tanh(), nn.avg_pool2d(2),
            nn.flatten(), nn.dense(64, 120), nn.tanh(), nn.dense(120, 84), nn.tanh(),
            nn.dense(84, 10),
        )  # fmt: skip

    batch = unidev.rand((64, 1, 8, 8)), unidev.array([n % 10 for n in range(64)])
    yield "the digits' LeNet", 10, lambda: (lenet(), lenet(), batch)


def _step_by_engine(net: Any) -> Callable[..., None]:
    """The framework has no such wrapper: ``DataParallel``, whose gradients its engine carries."""
    from unidev.parallel.exchange import engines

    parallel, step = unidev.DataParallel(net), unidev.value_and_grad(_portable_loss)
    quick_bytes = engines.QUICK_BYTES

    def by_engine(images: Any, labels: Any) -> None:
        engines.QUICK_BYTES = 0  # the first step decides for all
        _, gradients = step(parallel, images, labels)
        engines.QUICK_BYTES = quick_bytes
        unidev.sgd(parallel, gradients, lr=0.0)

    return by_engine


def _portable_loss(net: Any, images: Any, labels: Any) -> Any:
    from unidev import nn

    return nn.functional.softmax_cross_entropy(net(images), labels)


STEPS = {
    "torch": _torch_models, "paddle": _paddle_models,
    "tensorflow": _portable_models, "mxnet": _portable_models,
}  # fmt: skip
OWN_STEPS = {
    "torch": _torch_step, "paddle": _paddle_step,
    "tensorflow": _step_by_engine, "mxnet": _step_by_engine,
}  # fmt: skip
LOSSES = {
    "torch": _torch_loss, "paddle": _paddle_loss,
    "tensorflow": _portable_loss, "mxnet": _portable_loss,
}  # fmt: skip
