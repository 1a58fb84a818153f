"""``estimate_memory`` on fake tensors, beside what simulated GPUs count and have room for."""

from __future__ import annotations

import copy
import gc
import threading
from collections import UserDict
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from estimated_models import MODELS, OPTIMIZERS, given, peaks, settle, step
from torch import nn

import unidev

BIG = (
    "import unidev, torch\n"
    "unidev.set_backend('torch')\n"
    "with torch.device('meta'):\n"
    "    net = torch.nn.Sequential(*[torch.nn.Linear(1 << 14, 1 << 14) for _ in range(64)])\n"
    "    x = torch.empty(8, 1 << 14)\n"
    "optimizer = torch.optim.AdamW(net.parameters())\n"
    "def step(net, optimizer, x):\n"
    "    optimizer.zero_grad()\n"
    "    net(x).sum().backward()\n"
    "    optimizer.step()\n"
    "found = unidev.estimate_memory(step, net, optimizer, x, of='H100')\n"
    "kinds = found.by_kind\n"
    "print(found.device, kinds['parameters'] >> 30, kinds['optimizer state'] >> 30)\n"
    "print(str(found).splitlines()[-2])\n"
)
LIMITED = (
    "import sys, unidev\n"
    f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    "from estimated_models import fits, given, step\n"
    "limit = unidev.memory('gpu').total_bytes\n"
    "for name in NAMES:\n"
    "    arguments = given(name, 'Adam', unidev.gpu().native)\n"
    "    rows = unidev.estimate_memory(step, *arguments, of=limit).largest_batch\n"
    "    del arguments\n"
    "    print(name, fits(name, rows), fits(name, rows + 1))\n"
)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_an_estimate_is_what_a_simulated_gpu_counts(name: str, optimizer: str) -> None:
    estimate, counted = peaks(name, optimizer)
    assert estimate.peak_bytes == pytest.approx(counted, rel=0.05)


@pytest.mark.parametrize(
    ("names", "memory"),
    [(["ResNet-18"], "256MiB"), ([name for name in MODELS if name != "ResNet-18"], "16MiB")],
)
def test_the_largest_batch_fits_and_one_row_more_does_not(
    python, names: list[str], memory: str
) -> None:
    program = LIMITED.replace("NAMES", repr(names))
    done = python(program, UNIDEV_SIMULATE="1", UNIDEV_SIMULATE_MEMORY=memory)
    assert done.stdout.splitlines() == [f"{name} True False" for name in names], done.stderr


def test_what_attention_takes_for_its_softmax_is_counted() -> None:
    # One operation on fake tensors, of which torch composes several on a device.
    device = unidev.gpu(0)
    queries = torch.rand(2, 4, 256, 8, device=device.native)

    def attend(queries):
        with torch.no_grad():
            return nn.functional.scaled_dot_product_attention(queries, queries, queries)

    estimate = unidev.estimate_memory(attend, queries)
    with unidev.track_memory(device) as peak:
        attend(queries)
    assert estimate.peak_bytes == peak.added_bytes + queries.nbytes


@pytest.mark.parametrize(("simulated", "device"), [("0", "cpu:0"), ("1", "gpu:0")])
def test_a_model_that_is_larger_than_the_machine(python, simulated: str, device: str) -> None:
    done = python(BIG, UNIDEV_SIMULATE=simulated)
    assert done.stdout.splitlines() == [
        f"{device} 64 128", "not even a batch of 2 fits into 80 GiB"
    ], done.stderr  # fmt: skip


def test_mixed_precision_with_a_scaler_makes_its_step() -> None:
    model, optimizer, x, y = given("perceptron", "Adam", unidev.gpu(0).native)
    scaler = torch.amp.GradScaler("sim")

    def scaled(model, optimizer, scaler, x, y):
        optimizer.zero_grad()
        with torch.autocast("sim", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    estimate = unidev.estimate_memory(scaled, model, optimizer, scaler, x, y)
    assert estimate.by_kind["optimizer state"] == 2 * estimate.by_kind["parameters"]


@dataclass
class Training:
    model: nn.Module
    optimizer: torch.optim.Optimizer

    def __iter__(self):
        return iter((self.model, self.optimizer))


@pytest.mark.parametrize(
    "hold", [lambda *both: [*both], lambda *both: ({"these": both},), Training]
)
def test_models_and_optimizers_in_a_container_are_counted(hold) -> None:
    model, optimizer, x, y = given("perceptron", "Adam", unidev.gpu(0).native)
    alone = unidev.estimate_memory(step, model, optimizer, x, y)

    def opened(held, batch):
        both = held[0]["these"] if isinstance(held, tuple) else held
        return step(*both, batch["x"], batch["y"])

    held = hold(model, optimizer)
    assert unidev.estimate_memory(opened, held, UserDict(x=x, y=y)).by_kind == alone.by_kind


def test_what_an_estimate_cannot_run_is_named() -> None:
    model, optimizer, x, y = given("perceptron", "SGD", unidev.gpu(0).native)
    with pytest.raises(unidev.InvalidDataError, match="not among its arguments"):
        unidev.estimate_memory(lambda net, opt: step(net, opt, x, y), model, optimizer)
    with pytest.raises(unidev.UnsupportedOperation, match=r"aten\.nonzero\.default needs them"):
        unidev.estimate_memory(lambda net, x: net(x[x[:, 0] > 0]), model, x)
    other = nn.Linear(4, 4)
    with pytest.raises(unidev.UnsupportedOperation, match="these are gpu:0, cpu:0"):
        unidev.estimate_memory(lambda *_: None, model, other)
    with pytest.raises(unidev.InvalidDataError, match="found no model and no tensor"):
        unidev.estimate_memory(print, 3)
    with pytest.raises(unidev.InvalidDataError, match="there is no batch"):
        unidev.estimate_memory(lambda net: net, model, of="L4")


def stops_at_nan(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    if torch.isnan(loss) or loss.isinf().any() or not torch.isfinite(loss):
        raise FloatingPointError(loss.item())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    assert int(torch.isnan(loss).sum()) == 0
    optimizer.step()


def test_a_step_that_asks_for_infinite_values_finds_none() -> None:
    arguments = given("perceptron", "Adam", unidev.gpu(0).native)
    estimate = unidev.estimate_memory(stops_at_nan, *arguments)
    assert estimate.by_kind["optimizer state"] == 2 * estimate.by_kind["parameters"]


def test_a_scheduler_and_an_optimizer_with_more_than_its_state_are_copied() -> None:
    model, optimizer, x, y = given("perceptron", "SGD", unidev.gpu(0).native)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def scheduled(model, optimizer, scheduler, x, y):
        step(model, optimizer, x, y)
        scheduler.step()

    unidev.estimate_memory(scheduled, model, optimizer, scheduler, x, y)  # warnings are errors
    assert (scheduler.last_epoch, optimizer.param_groups[0]["lr"]) == (0, 0.01)

    def closed(model, optimizer, x, y):
        def closure():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)

    lbfgs = torch.optim.LBFGS(model.parameters())
    found = unidev.estimate_memory(closed, model, lbfgs, x, y).by_kind
    assert found["gradients"] == found["parameters"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda net, x: net(x).detach().cpu().numpy(), r"read numbers with \.item"),
        (lambda net, x: f"{net(x).mean():.3f}", r"read numbers with \.item"),
        (lambda net, x: net.half()(x.half()), "do that before, and pass the model"),
    ],
)
def test_a_step_that_fake_tensors_cannot_make_is_named(call, said: str) -> None:
    model, _, x, _ = given("perceptron", "SGD", unidev.gpu(0).native)
    with pytest.raises(unidev.UnsupportedOperation, match=said):
        unidev.estimate_memory(call, model, x)


def test_arguments_that_cannot_be_are_refused_before_the_step_runs() -> None:
    model, _, x, _ = given("perceptron", "SGD", unidev.gpu(0).native)
    calls: list[object] = []
    model.lock = threading.Lock()
    with pytest.raises(unidev.UnsupportedOperation, match="cannot copy one of them"):
        unidev.estimate_memory(calls.append, model)
    for options in ({"batch_axis": 5}, {"batch_axis": -1}, {"of": "8,5GiB"}, {"of": "A10"}):
        with pytest.raises(unidev.InvalidDataError):
            unidev.estimate_memory(calls.append, x, **{"of": "1GiB", **options})
    with pytest.raises(unidev.InvalidDataError, match="not None: the step itself"):
        unidev.estimate_memory(None, x)
    assert calls == []


def test_an_error_of_the_step_is_its_own_and_leaves_everything_as_it_was() -> None:
    model, optimizer, x, y = given("perceptron", "Adam", unidev.gpu(0).native)
    step(model, optimizer, x, y)
    settle(x.device)
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    gradients = [p.grad.clone() for p in model.parameters()]
    counted = torch.ops.unidev_sim.memory_stats(0)

    def fails(model, optimizer, x, y):
        step(model, optimizer, x, y)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unidev.estimate_memory(fails, model, optimizer, x, y, of="1GiB")
    gc.collect()
    assert torch.ops.unidev_sim.memory_stats(0) == counted
    torch.testing.assert_close((model.state_dict(), optimizer.state_dict()), before, rtol=0, atol=0)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert torch.equal(parameter.grad, gradient)
        assert not parameter._post_accumulate_grad_hooks


def test_an_estimate_is_a_table() -> None:
    arguments = given("perceptron", "Adam", unidev.gpu(0).native)
    estimate = unidev.estimate_memory(step, *arguments, of="T4")
    lines = str(estimate).splitlines()
    assert lines[0].startswith("peak memory of a step on gpu:0, for a batch of 128: ")
    assert [line.split("  ")[1] for line in lines[1:6]] == [*estimate.by_kind]
    assert lines[6] == f"largest batch within 16 GiB: {estimate.largest_batch:,}"
    assert "<table" in estimate._repr_html_()
