"""Finds the user's line: the innermost frame outside unidev and the frameworks.

IPython compiles a notebook's cell under the name of a file that does not exist.
"""

from __future__ import annotations

import contextlib
import itertools
import linecache
import os
import re
import sys
from functools import cache
from inspect import CO_COROUTINE, CO_GENERATOR
from typing import TYPE_CHECKING

from unidev.values import CELL, Line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from unidev.contract.backend import Backend

_IN_NAME = re.compile(r"<ipython-input-(\d+)-")
_SITE = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_STANDARD = os.path.dirname(os.__file__) + os.sep
_RESUMED = CO_GENERATOR | CO_COROUTINE
_numbers = itertools.count(1)


def _cell_number(file: str) -> int | None:
    """4 if ``file`` is IPython's name for the cell that it ran last as number 4; else None."""
    if found := _IN_NAME.match(file):
        return int(found[1])
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    compiler = getattr(shell, "compile", None)
    # The public `format_code_name` gives the same as text, and older versions lack it.
    number = getattr(compiler, "_filename_map", {}).get(file)
    return number if isinstance(number, int) else None


def running_cell() -> int | None:
    """The number of the cell that runs now: the outermost on the stack; None: there is none."""
    number, frame = None, sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        found = _cell_number(frame.f_code.co_filename)
        number = number if found is None else found
    return number


class _Call:
    """The number of a call, stored in ``f_trace`` of the called function's frame.

    Frames accept no other attribute. The number must live exactly as long as the call: later frames
    often reuse the address, and keeping a frame alive would keep its tensors alive.
    """

    def __init__(self) -> None:
        self.number = next(_numbers)

    def __call__(self, *_: object) -> None:
        """Called by a debugger that starts meanwhile; disables tracing in this frame."""


@cache
def _all_of(file: str) -> str:
    """The beginning of the names of all files of the package, or the module, in ``file``."""
    is_package = os.path.basename(file).startswith("__init__.")
    return os.path.dirname(file) + os.sep if is_package else file


_own_folders = [os.path.dirname(os.path.dirname(__file__)) + os.sep]


@contextlib.contextmanager
def passing_over(package: str) -> Iterator[None]:
    """Pass over the frames of an imported package, in all threads, as over unidev's own."""
    folder = os.path.dirname(str(sys.modules[package].__file__)) + os.sep
    _own_folders.append(folder)
    try:
        yield
    finally:
        _own_folders.remove(folder)


class CallSites:
    """Finds the line that a call comes from; caches files and lines to stay cheap."""

    def __init__(self) -> None:
        self._passed_over: list[str] = []
        self._packages = {"unidev"}
        self._is_users: dict[str, bool] = {}
        self._lines: dict[tuple[str, int, str], Line] = {}
        self.elsewhere: Line | None = None
        """The line of another thread that this one works for, where there is none in this one."""
        self.verb_call: int | None = None
        """The number of the verb that is at work, for what has no line in this thread."""

    def pass_over(self, backend: Backend) -> None:
        """Do not attribute transfers to lines in the framework of ``backend`` or in its plugin."""
        plugin = type(backend).__module__.partition(".")[0]
        for name in (backend.spec.framework, *backend.spec.namespaces, plugin):
            self._packages.add(name)
            file = getattr(sys.modules.get(name), "__file__", None)
            if file is not None:
                self._passed_over.append(_all_of(file))
        self._is_users.clear()

    def here(self) -> tuple[Line, int]:
        """The user's line that made the current call, and the number of that call."""
        start = frame = sys._getframe(1)
        called = None
        while not self.is_of_user(frame):
            if frame.f_back is None:  # no user frame: called by a framework's callback
                number = _Call().number if self.verb_call is None else self.verb_call
                return self.elsewhere or self.line_of(start), number
            called, frame = frame, frame.f_back
        return self.line_of(frame), _number_of(called)

    def begin_verb(self) -> None:
        """Number the transfers that have no line in this thread, until ``verb_call = None``."""
        self.verb_call = next(_numbers)

    def line_of(self, frame: FrameType) -> Line:
        """The line that ``frame`` runs."""
        code, number = frame.f_code, frame.f_lineno
        key = (code.co_filename, number, code.co_name)
        line = self._lines.get(key)
        if line is None:
            source = linecache.getline(code.co_filename, number, frame.f_globals).strip()
            cell = _cell_number(code.co_filename)
            file = code.co_filename if cell is None else f"{CELL}{cell}]"
            line = self._lines[key] = Line(file, number, code.co_name, source)
        return line

    def is_of_user(self, frame: FrameType) -> bool:
        """Whether ``frame`` belongs to the user's program, not to a framework."""
        file = frame.f_code.co_filename
        known = self._is_users.get(file)
        if known is None:
            known = self._is_users[file] = not (
                file.startswith(("<frozen ", "<__array_function__", *self._passed_over))
                or (file.startswith(_STANDARD) and not any(part in file for part in _SITE))
            )
        known = known and not file.startswith(tuple(_own_folders))
        if known and file.startswith("<"):  # <string>, for example: MXNet generates functions
            return str(frame.f_globals.get("__name__")).partition(".")[0] not in self._packages
        return known


def _number_of(called: FrameType | None) -> int:
    """The number of the call in frame ``called``; not stored in frames that are being debugged."""
    if called is not None and isinstance(called.f_trace, _Call):
        return called.f_trace.number
    call = _Call()
    if called is not None and called.f_trace is None and not called.f_code.co_flags & _RESUMED:
        called.f_trace = call
    return call.number
