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
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from unidev.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STATUS = 66
"""The exit status of a program with races that ends without another error, as ThreadSanitizer's."""
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


@dataclass(frozen=True)
class Race:
    """Two uses of the same memory that nothing orders."""

    what: str
    """What goes wrong."""
    first: str
    """The file and line that queued the first, empty if it is not known, and its operator."""
    first_stream: str
    second: str
    """The same of the second."""
    second_stream: str
    allocated: str
    """Where the memory was allocated."""
    remedy: str
    """The call that would order them."""
    count: int
    """How often it happened."""

    def __str__(self) -> str:
        """Several lines."""
        times = f" ({self.count} times)" if self.count > 1 else ""
        found = [
            f"race: {self.what}{times}",
            f"  first      {self.first}, {self.first_stream}",
            f"  then       {self.second}, {self.second_stream}",
        ]
        if self.allocated:
            found.append(f"  allocated  {self.allocated}")
        return "\n".join([*found, f"  to order them: {self.remedy}"])


def start(library: ctypes.CDLL, mode: str | None) -> None:
    """Make the devices late, if ``mode`` is not None (``SimulatedGpus.late``), before first use."""
    global _mode, _folders  # noqa: PLW0603  a process has one
    if mode is None:
        return
    import torch

    if mode not in ("1", "report"):
        try:
            with open(mode, "a", encoding="utf-8"):
                pass
        except OSError as error:
            raise SimulationError(
                f"UNIDEV_SIMULATE_LATE: {mode} cannot be written to: {error.strerror}."
            ) from error
    _mode = mode
    ours, torchs = os.path.dirname(os.path.abspath(__file__)), os.path.dirname(torch.__file__)
    _folders = (torchs + os.sep, ours + os.sep, "<frozen ")
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
    return is_standard or name.startswith(_folders) or name.endswith("typing_extensions.py")


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
        raise RuntimeError("the simulated GPUs are not late: set UNIDEV_SIMULATE_LATE=report")
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
    found = [each for each in races() if each.count > _told.get(_key(each), 0)] if is_on() else []
    _told.update((_key(each), each.count) for each in found)
    return [str(each) for each in found]


def _key(race: Race) -> tuple[str, str, str]:
    return race.what, race.first, race.second


def assert_no_races() -> None:
    """Raise AssertionError with all races of this process so far, if there are any."""
    if found := races():
        raise AssertionError("\n".join(map(str, found)))


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
    found = [each for each in races() if each.count > _told.get(_key(each), 0)]
    library.unidev_set_late_line(None)
    if not found:
        return
    if _mode not in ("1", "report"):
        rank = os.environ.get("RANK")
        with open(str(_mode), "a", encoding="utf-8") as file:  # one write for each: ranks share it
            for each in found:
                file.write(
                    json.dumps({**asdict(each), "rank": rank, "process": os.getpid()}) + "\n"
                )
                file.flush()
    text = "\n".join(map(str, found))
    if _mode == "1":
        text += "\n  --late=report (UNIDEV_SIMULATE_LATE=report) gives the lines"
    with suppress(OSError):  # nobody reads it any more: the status says it, too
        sys.stderr.write(f"unidev: {len(found)} race(s) in process {os.getpid()}\n{text}\n")
        sys.stderr.flush()
    if _mode != "1" and getattr(sys, "last_value", None) is None:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(STATUS)
