"""What a trace records, against the copies that the GPU's own profiler records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import unidev
from hardware_report.outcome import Findings, NotRunError, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from hardware_report.setting import Setting
    from unidev.contract.device import Device

    Work = Callable[[], object]


class Counted(NamedTuple):
    """Transfers between the host and GPUs, in each direction."""

    to_gpu: int
    to_gpu_bytes: int
    to_host: int
    to_host_bytes: int


def against_profiler(setting: Setting) -> Outcome:
    """As many bytes in the trace as in the profiler's memcpy records, and as many transfers."""
    setting.only("torch")
    gpu, found, rows = setting.real_gpus()[0], Findings(), []
    file = setting.folder / "profile.json"
    if not records(lambda: unidev.copy_to(unidev.zeros(1024), gpu), file):
        raise NotRunError("the profiler records no copies here (CUPTI does not answer)")
    for what, (prepare, is_one_by_one) in _WORK.items():
        work = prepare(gpu)
        work()
        with unidev.trace_transfers() as trace:
            work()
        traced = of_trace(trace)
        profiled = of_records(records(work, file))
        found.expect(
            traced[1::2] == profiled[1::2] and (not is_one_by_one or traced == profiled),
            f"{what}: traced {traced}, profiled {profiled}",
        )
        rows.append((what, *traced, *profiled))
    found.table(
        "Transfers: traced, then profiled",
        ("work", *(f"{name}, {who}" for who in ("traced", "profiled") for name in Counted._fields)),
        rows,
    )
    return found.outcome()


def records(work: Work, file: Path) -> list[dict[str, Any]]:
    """The memcpy records of ``work``, as PyTorch's profiler writes them."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        work()
        torch.cuda.synchronize()
    profiled.export_chrome_trace(str(file))
    events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    return [event for event in events if event.get("cat") == "gpu_memcpy"]


def of_records(events: Iterable[dict[str, Any]]) -> Counted:
    """The records that cross the bus: ``Memcpy HtoD (Pageable -> Device)`` and ``DtoH``."""
    sizes: dict[str, list[int]] = {"HtoD": [], "DtoH": []}
    for event in events:
        for way, found in sizes.items():
            if way in event["name"]:
                found.append(int(event["args"]["bytes"]))
    return _counted(sizes["HtoD"], sizes["DtoH"])


def of_trace(trace: Any) -> Counted:
    """The trace's transfers between the host and a GPU."""
    sizes: dict[tuple[str, str], list[int]] = {("cpu", "gpu"): [], ("gpu", "cpu"): []}
    for each in trace.transfers:
        way = each.source.kind, each.target.kind
        if way in sizes:
            sizes[way].append(each.nbytes)
    return _counted(sizes["cpu", "gpu"], sizes["gpu", "cpu"])


def _counted(to_gpu: list[int], to_host: list[int]) -> Counted:
    return Counted(len(to_gpu), sum(to_gpu), len(to_host), sum(to_host))


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


_WORK: dict[str, tuple[Callable[[Device], Work], bool]] = {
    "copy_to there and back": (_copies, True),
    "as_in_device of a batch of three": (_nested, True),
    "float() of each of three elements": (_items, True),
    "to_numpy, tolist, cpu, item": (_read, True),
    "place a layer there and back": (_placed, False),
}
"""Work to record, and whether each tensor is a transfer of its own in a trace: not for a model."""
