"""Devices that lose every race: what ``cpp/late.h`` has found, as text, as JSON and as an error.

With ``UNIDEV_SIMULATE_LATE=1`` values are late, and a race is wrong every time. With ``report``, or
a file that ends in ``.jsonl``, values stay right, and each race is reported once, with its lines.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import linecache
import os
import sys
import weakref
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from functools import wraps
from typing import TYPE_CHECKING, Any

from unidev.contract import Race
from unidev.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STATUS = 66
"""The exit status of a program with races that would end with 0, as ThreadSanitizer's."""
ACCEPTED = "# unidev: race accepted"
"""A comment on one of a race's two lines, after which it is not reported."""

_COLLECTIVES = 129
"""``kCollectives`` of ``cpp/late.h``: torch's streams have lower numbers."""

_mode: str | None = None
_lines: list[str] = [""]
_numbers: dict[tuple[str, int], int] = {}
_is_skipped: dict[str, bool] = {}
_folders: tuple[str, ...] = ()
_STANDARD = os.path.dirname(os.__file__) + os.sep
_told: dict[tuple[str, str, str], int] = {}
"""By race: how often it had happened when somebody was told."""
_kept: list[Any] = []
"""What C calls, which must live as long as the process."""


def start(library: ctypes.CDLL, mode: str | None) -> None:
    """Make the devices late, if ``mode`` is not None (``SimulatedGpus.late``), before first use."""
    global _mode, _folders  # noqa: PLW0603  a process has one
    if mode is None:
        return
    import torch

    import unidev

    if mode not in ("1", "report"):
        try:
            _write(mode, [])
        except OSError as error:
            raise SimulationError(
                f"UNIDEV_SIMULATE_LATE: {mode} cannot be written to: {error.strerror}."
            ) from error
        except (LookupError, TypeError, ValueError) as error:
            raise SimulationError(
                f"UNIDEV_SIMULATE_LATE: {mode} is there and no report of races: name another file."
            ) from error
    _mode = mode
    found = (os.path.abspath(__file__), torch.__file__, unidev.__file__)
    _folders = ("<frozen ", *(os.path.dirname(file) + os.sep for file in found))
    if mode != "1":
        line = ctypes.CFUNCTYPE(ctypes.c_int64)(_line)
        _kept.append(line)
        library.unidev_set_late_line(line)
    library.unidev_set_late(1 if mode == "1" else 2)
    process = os.getpid()
    atexit.register(lambda: _at_exit(library) if os.getpid() == process else None)


def is_on() -> bool:
    """Whether this process's devices are late."""
    return _mode is not None


def watch(torch: Any) -> None:
    """See what reads the host's memory without an operator, once torch is complete."""
    if _mode in (None, "1"):
        return
    for name in ("numpy", "tolist", "__array__"):
        setattr(torch.Tensor, name, _reading(getattr(torch.Tensor, name), torch.ops.unidev_sim))


def _reading(method: Any, ops: Any) -> Any:
    @wraps(method)
    def read(self: Any, *given: Any, **named: Any) -> Any:
        if self.device.type == "cpu":
            ops.late_host_reads(self.detach())
        return method(self, *given, **named)

    return read


def untracked() -> AbstractContextManager[None]:
    """A block in which this thread's work on late devices is not looked at."""
    return _untracked() if is_on() else nullcontext()


@contextmanager
def _untracked() -> Iterator[None]:
    import torch

    torch.ops.unidev_sim.late_quiet(1)
    try:
        yield
    finally:
        torch.ops.unidev_sim.late_quiet(-1)


def untracking(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, whose work is not looked at where devices are late."""
    if not is_on():
        return function

    @wraps(function)
    def run(*given: Any, **named: Any) -> Any:
        with _untracked():
            return function(*given, **named)

    return run


def _line() -> int:
    """The number of the program's own line that runs now; 0 if there is none."""
    frame: Any = sys._getframe(1) if sys._getframe().f_back is not None else None
    while frame is not None:
        name = frame.f_code.co_filename
        skipped = _is_skipped.get(name)
        if skipped is None:
            skipped = _is_skipped[name] = _is_of_a_library(name)
        if not skipped:
            key = (name, frame.f_lineno)
            number = _numbers.get(key)
            if number is None:
                number = _numbers[key] = len(_lines)
                _lines.append(f"{name}:{frame.f_lineno}")
            return number
        frame = frame.f_back
    return 0


def _is_of_a_library(name: str) -> bool:
    is_standard = name.startswith(_STANDARD) and "site-packages" not in name
    is_ours = name.startswith(_folders) or f"{os.sep}unidev_torch{os.sep}" in name
    return is_standard or is_ours or name.endswith("typing_extensions.py")


# -- collectives ----------------------------------------------------------------------------------


class Collective:
    """One collective of late devices: its data is exchanged at once, and ordered by ``wait``."""

    def __init__(self, name: str, read: Any, written: Any, *, is_async: bool) -> None:
        import torch

        self._ops = torch.ops.unidev_sim
        used = [each.detach() for each in (*read, *written) if _has_memory(each)]
        self._index = used[0].device.index if used else self._ops.current_device()
        self._number: int = self._ops.late_begin(
            [each.detach() for each in read if _has_memory(each)],
            [each.detach() for each in written if _has_memory(each)],
            self._index, is_async, name.lower(),
        )  # fmt: skip
        forget = weakref.finalize(self, self._ops.late_forget, self._number)  # its clock
        forget.atexit = False

    def end(self) -> None:
        """Its results are written."""
        self._ops.late_end(self._number)

    def wait(self) -> None:
        """The current stream waits for it, as by ``Work.wait`` of NCCL; the host does not."""
        self._ops.late_wait(self._number, self._index)


def _has_memory(tensor: Any) -> bool:
    return bool(tensor.device.type != "cpu" and tensor.numel())


# -- races ----------------------------------------------------------------------------------------

_ORDER = "{second}.wait_stream({first}) before the second"
_WAIT = "wait() of what the collective returned, before the second"
_HOST = "{first}.synchronize(), or that of an event recorded after the first, before the second"
_KINDS = (
    ("it is read before the other stream has written it", _ORDER),
    ("it is overwritten while the other stream still reads it", _ORDER),
    ("two streams write it, in no order", _ORDER),
    ("its memory is handed out again while the other stream still uses it",
     "tensor.record_stream({first}) before it is dropped"),
    ("the host overwrites pinned memory that a copy still reads", _HOST),
    ("the host reads pinned memory before a copy has written it", _HOST),
)  # fmt: skip


def races() -> list[Race]:
    """All races of this process so far, but for those whose lines bear the comment ``ACCEPTED``."""
    if not is_on():
        return []
    import torch

    numbers, names = torch.ops.unidev_sim.late_races()
    found = []
    for i in range(len(names) // 2):
        kind, line, device, stream, line2, device2, stream2, allocated, count = numbers[
            9 * i : 9 * i + 9
        ]
        if _is_accepted(line) or _is_accepted(line2):
            continue
        what, remedy = _KINDS[kind]
        if stream == _COLLECTIVES and remedy is _ORDER:
            remedy = _WAIT
        first, second = _stream(device, stream), _stream(device2, stream2)
        found.append(
            Race(
                what, _side(line, names[2 * i]), first, _side(line2, names[2 * i + 1]), second,
                _lines[allocated], remedy.format(first=first, second=second), count,
            )
        )  # fmt: skip
    return found


def new_races() -> list[str]:
    """Those that have happened since the last call, which the process's end does not repeat."""
    found = [each for each in races() if each.count > _told.get(each.lines, 0)]
    _told.update((each.lines, each.count) for each in found)
    return [str(each) for each in found]


def _side(line: int, name: str) -> str:
    place = _lines[line]
    return f"{place} ({name.removeprefix('aten::')})" if place else name.removeprefix("aten::")


def _stream(device: int, stream: int) -> str:
    if device < 0:
        return "the host"
    import torch

    name = f"{torch._C._get_accelerator().type}:{device}"
    if stream == _COLLECTIVES:
        return f"the collectives of {name}"
    return f"{name}.stream{stream}" if stream else f"{name}.default_stream"


def _is_accepted(number: int) -> bool:
    name, _, line = _lines[number].rpartition(":")
    return bool(name) and ACCEPTED in linecache.getline(name, int(line))


def _at_exit(library: ctypes.CDLL) -> None:
    """Report, also after an error; and end with a status of its own if there was none."""
    found = [each for each in races() if each.count > _told.get(each.lines, 0)]
    library.unidev_set_late_line(None)
    if not found:
        return
    if _mode not in ("1", "report"):
        _write(str(_mode), found)
    text = "\n".join(map(str, found))
    if _mode == "1":
        text += "\n  --late=report (UNIDEV_SIMULATE_LATE=report) gives the lines"
    try:
        sys.stderr.write(f"unidev: {len(found)} race(s) in process {os.getpid()}\n{text}\n")
        sys.stderr.flush()
    except OSError:  # nobody reads it any more: the status says it, too, unless Python tries again
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if _mode != "1" and getattr(sys, "last_value", None) is None:
        library.unidev_end_with(STATUS)


def _write(file: str, found: list[Race]) -> None:
    """Add races to a report; one that is there, as another rank's, gets a count and a process."""
    import fcntl  # not on Windows

    with open(file, "a+", encoding="utf-8") as report:
        fcntl.flock(report, fcntl.LOCK_EX)  # until it is closed
        report.seek(0)
        known = [json.loads(line) for line in report]
        by_lines = {(each["what"], each["first"], each["second"]): each for each in known}
        if not found:
            return
        for each in found:
            new = {**asdict(each), "count": 0, "processes": [], "ranks": []}
            one = by_lines.setdefault(each.lines, new)
            one["count"] += each.count
            one["processes"].append(os.getpid())
            if (rank := os.environ.get("RANK")) is not None:
                one["ranks"].append(rank)
        report.truncate(0)
        report.writelines(json.dumps(each) + "\n" for each in by_lines.values())
