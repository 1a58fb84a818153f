"""``all_reduce`` and ``DataParallel`` on simulated devices: their cost, as ratios.

``all_reduce`` stands against a loop of native calls, a step of ``DataParallel`` on one device
against the plain step, and the exchange of one of its parts against 5 microseconds.
A simulated transfer is a copy in host
memory, without the latency of a bus that packing saves on real devices.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from measure import Row, compare, sized
from own_calls import OWN_CALLS
from program import main

import unidev
from unidev import nn
from unidev.system.wording import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator

TENSORS, SIZE = sized(400, 40), 1_000
DEVICES = sized((1, 2, 4, 8), (1, 2))
SWAP_S = 5e-6
AT_MOST = {"tensorflow": 1 / 2.5, "mxnet": 1 / 1.3, "paddle": 1 / 1.3, "torch": 1.6, "numpy": 1}
"""On two devices, as ratios to the loop. PyTorch's takes 3 µs for a copy between simulated GPUs, in
the cache: packing, through memory, saves nothing here."""
OWN_LOOP = """
{setup}

def sent(x, y):
    "A copy of x beside y."
    {sent}

def own_all_reduce():
    made = []
    for x, *ys in zip(*trees):
        total = x if ys else sent(x, x)
        for y in ys:
            total = {added}
        made.append([total, *(sent(total, y) for y in ys)])
    return made
"""
"""What a user would write instead: each tensor there, added, and back."""


def rows_of(backend: str, _: str) -> Iterator[Row]:
    """The rows of one backend."""
    yield from _reducing_rows(backend)
    if backend != "numpy":  # it has no gradients
        yield from _data_parallel_rows(backend)


def _reducing_rows(backend: str) -> Iterator[Row]:
    for count in DEVICES:
        devices = count_text(count, "device")
        trees = [
            [unidev.ones(SIZE, device=device) for _ in range(TENSORS)]
            for device in unidev.try_all_gpus()[:count]
        ]
        names: dict[str, Any] = {"unidev": unidev, "trees": trees}
        exec(OWN_LOOP.format(**OWN_CALLS[backend]._asdict()), names)
        ours = "unidev.all_reduce(trees); unidev.synchronize()"
        times = compare(ours, "own_all_reduce(); unidev.synchronize()", names, 15)
        limit = AT_MOST.get(backend) if count == 2 else None
        what = f"all_reduce, {TENSORS} x {SIZE:,} floats, {devices}"
        yield Row(backend, what, "a loop", *times, limit)
        with unidev.trace_transfers() as trace:
            unidev.all_reduce(trees)
        made, by_hand = len(trace.transfers), 2 * (count - 1) * TENSORS
        ratio = made / by_hand if by_hand else 1.0
        yield Row(backend, f"copies, {devices}", "a loop", made, by_hand, ratio, None, "")


def _data_parallel_rows(backend: str) -> Iterator[Row]:
    first, second = unidev.try_all_gpus()[:2]
    with first:
        net = nn.sequential(
            nn.conv2d(1, 16, 3, padding=1), nn.relu(), nn.avg_pool2d(2), nn.flatten(),
            nn.dense(256, 10),
        )  # fmt: skip
        images = unidev.rand((64, 1, 8, 8))
        labels = unidev.array([n % 10 for n in range(64)])

    def loss_of(net: Any, images: Any, labels: Any) -> Any:
        return nn.functional.softmax_cross_entropy(net(images), labels)

    unidev.place(net, first)
    names: dict[str, Any] = {
        "net": net, "parallel": unidev.DataParallel(net, [first]), "X": images, "y": labels,
        "step": unidev.value_and_grad(loss_of), "unidev": unidev,
    }  # fmt: skip
    ours, theirs = (
        f"loss, gradients = step({each}, X, y); unidev.sgd({each}, gradients, lr=0.0)"
        for each in ("parallel", "net")
    )
    times = compare(ours, theirs, names)
    yield Row(backend, "a step, DataParallel on 1 device", "the plain step", *times, 1.05)

    models = unidev.active_backend().models
    parts = models.parts(net, None)
    names = {"pairs": [(part, models.twin(part, second)) for part in parts], "swap": models.swap}
    swapping, _, _ = compare("for pair in pairs: swap(*pair)", "pass", names)
    each = swapping / len(models.parameters(net))  # a part may hold several
    yield Row(backend, "exchanging a parameter", "5 µs", each, SWAP_S, each / SWAP_S, 1)


if __name__ == "__main__":
    os.environ.setdefault("UNIDEV_SIMULATE", str(max(DEVICES)))
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # else its threads wait for each other
    main(__doc__ or "", rows_of)
