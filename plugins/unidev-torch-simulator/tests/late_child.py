"""Runs the programs of ``late_races.py`` on late devices, perhaps with a fault; prints JSON."""

# ruff: noqa: E402  torch is imported with the devices

from __future__ import annotations

import ctypes
import inspect
import json
import os
import re
import sys
from typing import Any

import unidev

unidev.gpu(0)  # the devices are there
import torch
from late_races import NO_RACES, RACES, cuda

from unidev_torch_simulator import building, late

TIMES = 50 if os.environ["UNIDEV_SIMULATE_LATE"] == "1" else 1
_idle = cuda.Stream()
_record = cuda.Event.record
_library = ctypes.CDLL(str(building.built_library(as_cuda=cuda is torch.cuda)))


def _variable(name: str) -> Any:
    return ctypes.c_ubyte.in_dll(_library, name)


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "a wait that does not wait": (cuda.Stream, "wait_event", lambda *_: None),
    "an event recorded early": (cuda.Event, "record", lambda self, *_: _record(self, _idle)),
    "a query that is always true": (cuda.Event, "query", lambda _: True),
    "record_stream is ignored": (torch.Tensor, "record_stream", lambda *_: None),
    "the device is synchronized in place of the stream": (
        cuda.Stream, "synchronize", lambda self: cuda.synchronize(self.device),
    ),
    "overlap is by whole storages": (_variable("unidev_late_by_storage"), "value", 1),
    "poison is zero": (_variable("unidev_late_poison"), "value", 0),
}  # fmt: skip


def outcome(program: Any, *given: Any) -> dict[str, Any]:
    """How often it was right, its races, and their lines beside those that are marked."""
    before, right = {str(each) for each in late.races()}, 0
    for _ in range(TIMES):
        for index in range(cuda.device_count()):
            cuda.synchronize(index)
        got, want = program(*given)[:2]
        right += got == want
    new = [each for each in late.races() if str(each) not in before]
    source, start = inspect.getsourcelines(program)
    marked = [
        [start + i for i, line in enumerate(source) if line.endswith(f"# {name}\n")]
        for name in ("first", "second")
    ]
    lines = [[_line(each.first), _line(each.second)] for each in new]
    races = [str(each) for each in new]
    return {"right": right, "times": TIMES, "races": races, "lines": lines, "marked": marked}


def _line(text: str) -> int:
    found = re.search(r"\.py:(\d+)", text)
    return int(found[1]) if found else 0


if len(sys.argv) > 1:
    owner, name, value = FAULTS[sys.argv[1]]
    setattr(owner, name, value)
results: dict[str, Any] = {
    name: {"broken": outcome(program, False), "mended": outcome(program, True)}
    for name, program in RACES.items()
}
results.update({name: {"mended": outcome(program)} for name, program in NO_RACES.items()})
sys.stdout.write(json.dumps(results))
sys.stdout.flush()
os._exit(0)  # not the status of a program with races
