"""Variables such as ``CUDA_VISIBLE_DEVICES`` that are changed after the driver has read them.

The drivers read them once, when a process initialises them. That is known on Linux, by the device
files that the process then has open; elsewhere nothing is found.
"""

from __future__ import annotations

import os

from unidev.system.facts import Change
from unidev.system.processes import environment_at_start, open_gpu_files
from unidev.system.visible import VARIABLES

_FILES = {
    "cuda": ("/dev/nvidia-uvm", "/dev/dxg"),
    "rocm": ("/dev/kfd", "/dev/dxg"),
    "xpu": ("/dev/dri/renderD",),
}
"""How the names of the files begin that a process opens when it initialises the driver."""


_seen: dict[str, Change] = {}
"""What traces have seen; of this process as a whole, as the environment is."""


def opened_file(variable: str) -> str | None:
    """The file that shows that a driver which reads ``variable`` is initialised here, or None."""
    wanted = tuple(
        start
        for accelerator, names in VARIABLES.items()
        if variable in names
        for start in _FILES[accelerator]
    )
    return next((each for each in open_gpu_files(os.getpid()) if each.startswith(wanted)), None)


def note(variable: str, before: str | None, now: str | None, line: str) -> Change | None:
    """Note that ``line`` changes a variable; the change, if it comes too late."""
    file = opened_file(variable)
    if file is None:
        return None
    earlier = _seen.pop(variable, None)  # the driver has read the first value
    change = Change(variable, before if earlier is None else earlier.before, now, file, line)
    if change.before == now:
        return None
    _seen[variable] = change
    return change


def changes() -> tuple[Change, ...]:
    """All in this process: those that a trace has seen, and what differs from its beginning."""
    found = dict(_seen)
    at_start = environment_at_start()
    for variable in dict.fromkeys(name for names in VARIABLES.values() for name in names):
        before, now = at_start.get(variable), os.environ.get(variable)
        if variable in found or before == now:
            continue
        file = opened_file(variable)
        if file is not None:
            found[variable] = Change(variable, before, now, file)
    return tuple(found.values())
