"""PyTorch's ``HardwareProbe`` for the checks of real GPUs, through torch's own calls."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from unidev.contract import HardwareProbe, RecordedCopy, Training
from unidev_torch.probe import native_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from unidev.contract import Device

_CLOSE = 1e-2
"""A GPU sums in another order, and may use TF32. Weights that differ by 1e-3 change these losses by
0.06 to 0.12 %, and an optimizer that starts anew by 12 % and more."""
_CLOSE_IN_BF16 = 0.05


class TorchHardwareProbe(HardwareProbe):
    """Probe of the torch backend for CUDA's devices."""

    def recorded(self, work: Callable[[], object]) -> Sequence[RecordedCopy]:
        """The memcpy records of torch's profiler, which has them from CUPTI."""
        from torch.profiler import ProfilerActivity, profile

        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
            work()
            torch.cuda.synchronize()
        with tempfile.TemporaryDirectory(prefix="unidev-profile-") as folder:
            file = Path(folder) / "profile.json"
            profiled.export_chrome_trace(str(file))
            return copies_in(json.loads(file.read_text(encoding="utf-8"))["traceEvents"])

    def readings(self, gpu: Device) -> Mapping[str, Callable[[], object]]:
        """Elements, lists, copies and results."""
        x = torch.zeros(3).to(native_of(gpu))
        return {
            "float() of each of three elements": lambda: [float(each) for each in x],
            "tolist, cpu, item": lambda: (x.tolist(), x.cpu(), x.sum().item()),
        }

    def fail_on(self, gpu: Device) -> torch.Tensor:
        """An index out of range, which a kernel asserts."""
        native = native_of(gpu)
        index = torch.tensor([10_000]).to(native)
        x = torch.arange(4, device=native)
        torch.accelerator.synchronize(native)
        return x[index]

    def trainings(self) -> Mapping[str, Callable[[bool], Training]]:
        """AdamW's kinds, and layers that hold their weights in ways of their own."""
        return {name: partial(_training, kind) for name, kind in KINDS.items()}


_WAYS = {"HtoD": ("cpu", "gpu"), "DtoH": ("gpu", "cpu"), "DtoD": ("gpu", "gpu")}


def copies_in(events: Iterable[Mapping[str, Any]]) -> list[RecordedCopy]:
    """The copies among the profiler's events: ``Memcpy HtoD (Pageable -> Device)``."""
    return [
        RecordedCopy(*ends, int(event["args"]["bytes"]))
        for event in events
        if event.get("cat") == "gpu_memcpy"
        for way, ends in _WAYS.items()
        if way in event["name"]
    ]


class Kind(NamedTuple):
    """A model, and the options of its AdamW."""

    make: Callable[[], torch.nn.Module]
    options: dict[str, Any] = {}  # noqa: RUF012  a NamedTuple's default is never changed
    dtype: torch.dtype = torch.float32


class _Lstm(torch.nn.Module):
    """cuDNN's weights lie in one block of memory."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(16, 24, num_layers=2, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        return self.lstm(x)[0]


class _Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)
        self.last.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> Any:
        return self.last(self.first(x).tanh())


def _dense() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(16, 64), torch.nn.LayerNorm(64), torch.nn.ReLU(), torch.nn.Linear(64, 4)
    )


KINDS = {
    "AdamW": Kind(_dense),
    "fused AdamW": Kind(_dense, {"fused": True}),
    "capturable AdamW": Kind(_dense, {"capturable": True}),
    "an LSTM": Kind(_Lstm),
    "tied weights": Kind(_Tied),
    "bfloat16": Kind(_dense, dtype=torch.bfloat16),
}


def _training(kind: Kind, is_twin: bool) -> Training:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model, data = kind.make().to(kind.dtype), torch.randn(32, 6, 16).to(kind.dtype)
    options = {} if is_twin else kind.options
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, **options)

    def step(data: torch.Tensor) -> float:
        optimizer.zero_grad()
        loss = model(data).float().square().mean()
        loss.backward()
        optimizer.step()
        return float(loss.detach().cpu())

    def state() -> list[torch.Tensor]:
        values = [value for each in optimizer.state.values() for value in each.values()]
        # Counts of steps may be on the CPU.
        return [x for x in values if isinstance(x, torch.Tensor) and x.dim()]

    return Training(
        model=model, optimizer=optimizer, data=data, step=step,
        parameters=lambda: list(model.parameters()), state=state,
        is_tied=lambda: not isinstance(model, _Tied) or model.first.weight is model.last.weight,
        closeness=_CLOSE_IN_BF16 if kind.dtype is torch.bfloat16 else _CLOSE,
        is_for_gpus_alone="capturable" in options,
    )  # fmt: skip
