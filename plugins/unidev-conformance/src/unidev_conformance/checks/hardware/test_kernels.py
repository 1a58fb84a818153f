"""Work that fails on the GPU itself. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev_conformance.kit.processes.fresh import run_fresh
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev_conformance.kit.workbench import Workbench

_WAITING = (
    "unidev.synchronize(gpu)",
    "unidev.synchronize()",
    "unidev.to_numpy(y)",
    "unidev.copy_to(other, 'cpu')",
)
"""Calls that wait for the GPU, and so cannot miss the failure."""
_OTHERS = (
    "unidev.copy_to(other, gpu)",
    "unidev.as_in_device(other, 'cpu')",
    "unidev.memory(gpu)",
    "unidev.empty(4, device=gpu)",
    "unidev.zeros(4, device=gpu)",
)


@check(required=True)
def test_failure_is_reported(bench: Workbench) -> None:
    """The first call that waits for a GPU reports work that failed there, as unidev's error."""
    gpu = str(bench.real_gpus()[0])
    bench.hardware_probe()
    for call in (*_WAITING, *_OTHERS):  # in a process each: afterwards the GPU is lost to it
        found = run_fresh(_FAIL, backend=bench.backend.name, arguments=(gpu, call))
        bench.evidence.add("reported", f"{call}: {found}")
        if found is None:
            assert call not in _WAITING, f"`{call}` does not report work that failed on {gpu}"
            continue
        is_ours, said = found
        assert is_ours, f"`{call}` raises the framework's own error after a failure: {said}"


_FAIL = """
import os, time
import unidev

gpu = unidev.as_device(sys.argv[1])
other = unidev.zeros(4, device=gpu)
unidev.synchronize(gpu)
y = unidev.active_backend().probe.hardware.fail_on(gpu)
time.sleep(0.5)  # it has failed by now, and no call has looked
try:
    eval(sys.argv[2])
    found = None
except Exception as error:
    found = [isinstance(error, unidev.UnidevError), f"{type(error).__name__}: {error}"]
answer(found)
os._exit(0)  # a framework may end badly after that
"""
