"""Whose line is it? The innermost frame that is neither unidev's nor a framework's."""

from __future__ import annotations

import linecache
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import FrameType

    from unidev.contract.backend import Backend

_SITE = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_STANDARD = os.path.dirname(os.__file__) + os.sep


class Line(NamedTuple):
    """A line of a user's program."""

    file: str
    number: int
    function: str
    source: str
    """Its text; empty where the file cannot be read."""

    def __str__(self) -> str:
        name = os.path.relpath(self.file) if self._is_near else self.file
        where = "" if self.function == "<module>" else f" in {self.function}"
        return f"{name}:{self.number}{where}"

    @property
    def _is_near(self) -> bool:
        try:
            return self.file.startswith(os.getcwd() + os.sep)
        except FileNotFoundError:  # the folder is gone, as a temporary one may be
            return False


class CallSites:
    """Finds the line that a call comes from, cheaply: files and lines are looked at once."""

    def __init__(self) -> None:
        self._passed_over = [os.path.dirname(os.path.dirname(__file__)) + os.sep]
        self._packages = {"unidev"}
        self._is_users: dict[str, bool] = {}
        self._lines: dict[tuple[str, int, str], Line] = {}

    def pass_over(self, backend: Backend) -> None:
        """Take what is in the framework of ``backend``, and in its plugin, for nobody's line."""
        plugin = type(backend).__module__.partition(".")[0]
        for name in (backend.spec.framework, *backend.spec.namespaces, plugin):
            self._packages.add(name)
            file = getattr(sys.modules.get(name), "__file__", None)
            if file is not None:
                is_package = os.path.basename(file).startswith("__init__.")
                self._passed_over.append(os.path.dirname(file) + os.sep if is_package else file)
        self._is_users.clear()

    def here(self) -> Line:
        """The line that the running call comes from."""
        start = frame = sys._getframe(1)
        while not self._is_of_user(frame):
            if frame.f_back is None:  # called by no line of a user's: by a callback of a framework
                frame = start
                break
            frame = frame.f_back
        return self._line_of(frame)

    def _line_of(self, frame: FrameType) -> Line:
        code, number = frame.f_code, frame.f_lineno
        key = (code.co_filename, number, code.co_name)
        line = self._lines.get(key)
        if line is None:
            source = linecache.getline(code.co_filename, number, frame.f_globals).strip()
            line = Line(code.co_filename, number, code.co_name, source)
            self._lines[key] = line
        return line

    def _is_of_user(self, frame: FrameType) -> bool:
        file = frame.f_code.co_filename
        known = self._is_users.get(file)
        if known is None:
            known = self._is_users[file] = not (
                file.startswith(("<frozen ", "<__array_function__", *self._passed_over))
                or (file.startswith(_STANDARD) and not any(part in file for part in _SITE))
            )
        if known and file.startswith("<"):  # <string>: of anybody; MXNet makes its calls so
            return str(frame.f_globals.get("__name__")).partition(".")[0] not in self._packages
        return known
