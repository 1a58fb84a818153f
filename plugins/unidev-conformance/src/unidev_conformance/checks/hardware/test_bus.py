"""Traces against the copies that the GPU's own profiler records. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import unidev
from unidev import nn
from unidev_conformance.judging.outcomes import NotApplicableError
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Work = Callable[[], object]


class _Counted(NamedTuple):
    """Transfers between the host and GPUs, in each direction."""

    to_gpu: int
    to_gpu_bytes: int
    to_host: int
    to_host_bytes: int


@check(required=True, needs=("tracer",))
def test_trace_is_what_the_profiler_records(bench: Workbench) -> None:
    """A trace has as many bytes in each direction as the profiler, and as many transfers.

    The tensors of a model are one transfer in a trace, and several for the profiler.
    """
    gpu = bench.real_gpus()[0]
    probe = bench.hardware_probe()
    if not probe.recorded(lambda: unidev.copy_to(unidev.zeros(1024), gpu)):
        raise NotApplicableError("the profiler records no copies here")
    for name, work in {**_work(gpu), **probe.readings(gpu)}.items():
        work()  # what the first time alone moves
        with unidev.trace_transfers() as trace:
            work()
        traced = _counted((x.source.kind, x.target.kind, x.nbytes) for x in trace.transfers)
        recorded = _counted(probe.recorded(work))
        is_right = traced == recorded
        if name == _PLACING:
            is_right = traced[1::2] == recorded[1::2]
        assert is_right, f"{name}: traced {traced}, recorded by the profiler {recorded}"
        bench.evidence.add("transfers", f"{name}: {recorded}")


def _counted(copies: Iterable[tuple[str, str, int]]) -> _Counted:
    sizes: dict[tuple[str, str], list[int]] = {("cpu", "gpu"): [], ("gpu", "cpu"): []}
    for source, target, nbytes in copies:
        if (source, target) in sizes:
            sizes[source, target].append(nbytes)
    to_gpu, to_host = sizes.values()
    return _Counted(len(to_gpu), sum(to_gpu), len(to_host), sum(to_host))


_PLACING = "place a layer there and back"


def _work(gpu: Device) -> dict[str, Work]:
    x, there = unidev.zeros(4096), unidev.zeros(3, device=gpu)
    batch = {"x": unidev.zeros(64), "more": [unidev.zeros((8, 8)), unidev.zeros(3)]}
    net = nn.dense(8, 8)
    return {
        "copy_to there and back": lambda: unidev.copy_to(unidev.copy_to(x, gpu), "cpu"),
        "as_in_device of a batch of three": lambda: unidev.as_in_device(batch, gpu),
        "to_numpy": lambda: unidev.to_numpy(there),
        _PLACING: lambda: (unidev.place(net, gpu), unidev.place(net, "cpu")),
    }
