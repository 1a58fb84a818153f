"""``trace_transfers`` records what crosses the bus: as often, and as many bytes, as CUDA copies."""

from __future__ import annotations

import copy
import io
from typing import TYPE_CHECKING, Any

from on_stand_in import torch

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime import Counts, Runtime

WAYS = ("host to device", "device to host", "between devices")


def host() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3)


def differing(cuda: Runtime, operations: dict[str, Callable[[], object]]) -> dict[str, Any]:
    """The operations of which a trace and the stand-in count different transfers."""
    found: dict[str, Any] = {}
    for name, operation in operations.items():
        with cuda.counting() as cost, unidev.trace_transfers() as trace:
            operation()
        seen = len(trace.transfers), sum(each.nbytes for each in trace.transfers)
        if seen != crossed(cost):
            found[name] = {"trace": str(trace), "seen": seen, "crossed": crossed(cost)}
    return found


def crossed(cost: Counts) -> tuple[int, int]:
    return sum(cost[way] for way in WAYS), sum(cost[f"{way} bytes"] for way in WAYS)


def test_torchs_own_copies_are_recorded(cuda: Runtime):
    x, y = host().to("cuda:0"), host().to("cuda:1")
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    torch.ones(1).pin_memory()
    assert differing(cuda, {
        "to": lambda: host().to("cuda"),
        "to, of another dtype": lambda: host().to("cuda", torch.float64),
        "to, pinned": lambda: host().pin_memory().to("cuda", non_blocking=True),
        "cuda": lambda: host().cuda(1),
        "cpu": x.cpu,
        "to the host, later": lambda: x.to("cpu", non_blocking=True),
        "to the other": lambda: x.to("cuda:1"),
        "here": lambda: x.to("cuda:0", copy=True),
        "copy_": lambda: x.copy_(host()),
        "copy_ to the host": lambda: host().copy_(x),
        "copy_ of the other": lambda: y.copy_(x),
        "tensor": lambda: torch.tensor([1.0, 2.0], device="cuda"),
        "as_tensor": lambda: torch.as_tensor([1.0, 2.0], device="cuda:1"),
        "full": lambda: torch.full((3,), 2.0, device="cuda"),
        "Module.to": lambda: net.to("cuda"),
        "Module.cpu": net.cpu,
        "deepcopy": lambda: copy.deepcopy(x),
        "save": lambda: torch.save(x, io.BytesIO()),
    }) == {}  # fmt: skip


def test_values_that_the_host_reads_are_recorded(cuda: Runtime):
    x = host().to("cuda")
    assert differing(cuda, {
        "item": x[0, 0].item,
        "tolist": x.tolist,
        "numpy": lambda: x.numpy(force=True),
        "float": lambda: float(x[0, 0]),
        "int": lambda: int(x[0, 0]),
        "bool": lambda: bool(x[0, 0] > 0),
        "an index of the host's": lambda: x[torch.tensor([0, 1])],
        "a list": lambda: x[[0, 1]],
        "a mask of the host's": lambda: x[torch.tensor([True, False])],
        "a number stored": lambda: x.__setitem__((0, 0), 3.0),
        "a tensor stored": lambda: x.__setitem__(0, torch.ones(3)),
        "a number added": lambda: x + 1,
        "a tensor of one number added": lambda: x + torch.tensor(2.0),
        "where": lambda: torch.where(x > 0, x, torch.tensor(0.0)),
        "where, of two numbers": lambda: torch.where(x > 0, torch.tensor(1), torch.tensor(0.0)),
        "where, of Python's": lambda: torch.where(x > 0, x, 0.0),
    }) == {}  # fmt: skip


def test_unidevs_own_are_recorded(cuda: Runtime):
    x, values = host().to("cuda"), host().numpy()
    gpus = [unidev.gpu(0), unidev.gpu(1)]
    assert differing(cuda, {
        "copy_to": lambda: unidev.copy_to(host(), "gpu"),
        "copy_to, here": lambda: unidev.copy_to(x, "gpu"),
        "as_in_device": lambda: unidev.as_in_device({"x": x, "y": [host()]}, "gpu:1"),
        "as_in_device, there": lambda: unidev.as_in_device([x], "gpu"),
        "device_put": lambda: unidev.device_put({"a": values, "b": x}, "gpu:1"),
        "device_get": lambda: unidev.device_get([x, host()]),
        "to_numpy": lambda: unidev.to_numpy(x),
        "array": lambda: unidev.array([1.0, 2.0], device="gpu"),
        "zeros": lambda: unidev.zeros((2, 3), device="gpu"),
        "full": lambda: unidev.full((2, 3), 2.0, device="gpu:1"),
        "rand": lambda: unidev.rand((2, 3), device="gpu"),
        "split_batch": lambda: unidev.split_batch(host(), gpus),
        "pin": lambda: unidev.pin(host()),
    }) == {}  # fmt: skip


def test_a_model_is_one_transfer_of_all_its_bytes(cuda: Runtime):
    model = torch.nn.Linear(3, 4)
    with cuda.counting() as cost, unidev.trace_transfers() as trace:
        unidev.place(model, "gpu:1")
    assert [each.nbytes for each in trace.transfers] == [(12 + 4) * 4]
    assert crossed(cost) == (2, (12 + 4) * 4)
