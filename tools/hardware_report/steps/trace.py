"""What a trace records, against the copies that the GPU's own profiler records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import unidev
from hardware_report.outcome import Findings, NotRunError, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from hardware_report.setting import Setting
    from unidev.contract.device import Device

    Work = Callable[[], object]


class Counted(NamedTuple):
    """Transfers between the host and GPUs, in each direction."""

    to_gpu: int
    to_host: int


def against_profiler(setting: Setting) -> Outcome:
    """As many transfers in the trace as memcpy records of the profiler."""
    setting.only("torch")
    from torch.autograd import DeviceType

    gpu, found, rows = setting.real_gpus()[0], Findings(), []
    if not _records(lambda: unidev.copy_to(unidev.zeros(1024), gpu), DeviceType.CUDA):
        raise NotRunError("the profiler records no copies here (CUPTI does not answer)")
    for what, prepare in _WORK.items():
        work = prepare(gpu)
        work()
        with unidev.trace_transfers() as trace:
            work()
        traced = _of_trace(trace)
        profiled = _of_profiler(_records(work, DeviceType.CUDA))
        found.expect(traced == profiled, f"{what}: traced {traced}, profiled {profiled}")
        rows.append((what, *traced, *profiled))
    found.table(
        "Transfers",
        ("work", "to the GPU, traced", "to the host, traced", "profiled", "profiled"),
        rows,
    )
    return found.outcome()


def _records(work: Work, cuda: Any) -> list[str]:
    """The names of the memcpy records of ``work``."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        work()
        torch.cuda.synchronize()
    return [
        event.name for event in profiled.events()
        if event.device_type == cuda and event.name.startswith("Memcpy")
    ]  # fmt: skip


def _of_profiler(names: list[str]) -> Counted:
    return Counted(sum("HtoD" in name for name in names), sum("DtoH" in name for name in names))


def _of_trace(trace: Any) -> Counted:
    pairs = [(each.source, each.target) for each in trace.transfers]
    return Counted(
        sum(_kind(a) == "cpu" and _kind(b) == "gpu" for a, b in pairs),
        sum(_kind(a) == "gpu" and _kind(b) == "cpu" for a, b in pairs),
    )


def _kind(device: object) -> str:
    return str(device).partition(":")[0]


def _copies(gpu: Device) -> Work:
    x = unidev.zeros(4096)
    return lambda: unidev.copy_to(unidev.copy_to(x, gpu), "cpu")


def _nested(gpu: Device) -> Work:
    batch = {"x": unidev.zeros(64), "more": [unidev.zeros((8, 8)), unidev.zeros(3)]}
    return lambda: unidev.as_in_device(batch, gpu)


def _items(gpu: Device) -> Work:
    x = unidev.zeros(3, device=gpu)
    return lambda: [float(each) for each in x]


def _read(gpu: Device) -> Work:
    x = unidev.zeros(3, device=gpu)
    return lambda: (unidev.to_numpy(x), x.tolist(), x.cpu(), x.sum().item())


def _placed(gpu: Device) -> Work:
    import torch

    net = torch.nn.Linear(8, 8)
    return lambda: (unidev.place(net, gpu), unidev.place(net, "cpu"))


_WORK: dict[str, Callable[[Device], Work]] = {
    "copy_to there and back": _copies,
    "as_in_device of a batch of three": _nested,
    "float() of each of three elements": _items,
    "to_numpy, tolist, cpu, item": _read,
    "place a layer there and back": _placed,
}
