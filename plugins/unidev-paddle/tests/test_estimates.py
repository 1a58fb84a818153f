"""``estimate_memory`` of what Paddle's optimizers and schedulers bring, also in containers."""

from __future__ import annotations

import contextlib
import gc

import paddle
import pytest
from paddle.nn import functional

import unidev


def step(net, optimizer, x):
    loss = functional.relu(net(x)).sum()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()


def given():
    net = paddle.nn.Linear(64, 64)
    scheduler = paddle.optimizer.lr.StepDecay(0.1, step_size=1)
    optimizer = paddle.optimizer.Adam(scheduler, parameters=net.parameters())
    return net, optimizer, paddle.ones([256, 64])


@pytest.mark.parametrize("has_made_a_step", [False, True])
def test_an_optimizer_in_a_container_is_counted(has_made_a_step: bool) -> None:
    net, optimizer, x = given()
    if has_made_a_step:
        step(net, optimizer, x)
    alone = unidev.estimate_memory(step, net, optimizer, x)
    assert alone.by_kind["optimizer state"] >= 2 * alone.by_kind["parameters"] > 0

    def opened(held, batch):
        step(held["net"], *held["optimizers"], batch[0])

    held = {"net": net, "optimizers": [optimizer]}
    within = unidev.estimate_memory(opened, held, (x,), of=8 * alone.peak_bytes)
    assert within.batch == 256
    for kind in ("parameters", "optimizer state"):
        assert within.by_kind[kind] == alone.by_kind[kind]
    # The first step of a process keeps a few bytes more.
    assert within.peak_bytes == pytest.approx(alone.peak_bytes, abs=1024)
    assert within.largest_batch is not None
    assert within.largest_batch > 256


def test_garbage_that_is_collected_during_the_step_is_not_missing_from_its_peak(
    request: pytest.FixtureRequest,
) -> None:
    def collecting(net, optimizer, x):
        gc.collect()
        step(net, optimizer, x)

    gc.disable()
    request.addfinalizer(gc.enable)
    cycle = [paddle.ones([1024, 1024])]
    cycle.append(cycle)
    del cycle
    found = unidev.estimate_memory(collecting, *given())
    assert found.peak_bytes >= unidev.estimate_memory(collecting, *given()).peak_bytes > 0


def test_a_scheduler_of_the_optimizer_makes_no_step() -> None:
    net, optimizer, x = given()

    def scheduled(net, optimizer, x):
        step(net, optimizer, x)
        optimizer._learning_rate.step()

    unidev.estimate_memory(scheduled, net, optimizer, x)
    assert optimizer.get_lr() == 0.1


@pytest.mark.parametrize("fails", [False, True])
def test_an_open_tracker_keeps_the_peak_that_came_before(fails: bool) -> None:
    net, optimizer, x = given()

    def own(net, optimizer, x):
        step(net, optimizer, x)
        if fails:
            raise KeyError

    gc.collect()  # what other tests left would be missing from the difference once it is freed
    with unidev.track_memory(unidev.device_of(x)) as peak:
        unidev.zeros(1 << 20, device=unidev.device_of(x))
        with pytest.raises(KeyError) if fails else contextlib.nullcontext():
            unidev.estimate_memory(own, net, optimizer, x)
    assert peak.added_bytes >= 4 << 20


def test_what_cannot_be_estimated_is_named() -> None:
    with pytest.raises(unidev.InvalidDataError, match="neither a parameter nor a tensor"):
        unidev.estimate_memory(lambda net: None, paddle.nn.ReLU())
    net, _, x = given()
    other = paddle.nn.Linear(2, 2)
    other.to(unidev.gpu(1).native)
    with pytest.raises(unidev.UnsupportedOperation, match="it counts one device, and these are"):
        unidev.estimate_memory(lambda *_: None, net, other, x)
