"""Processes with a limit: whatever they start ends with them."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hardware_report.document import ROOT
from unidev.support.child_processes import ChildProcess, describe_exit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unidev.support.child_processes import Interruption

_MOST_LINES = 60


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it printed."""

    code: int | None
    """The exit code; None: it was ended at its limit, or after an interruption."""
    how: str
    """``exit code 1``, ``killed by SIGSEGV``, ``no result within 60 s``."""
    out: str
    err: str
    seconds: float

    @property
    def said(self) -> str:
        """The last lines of its errors, or else of its output, without paths of this machine."""
        lines = (self.err.strip() or self.out.strip()).splitlines()
        return without_paths("\n".join(lines[-_MOST_LINES:]))

    @property
    def briefly(self) -> str:
        """How it ended, with the last line that it printed."""
        lines = self.said.splitlines()
        return f"{self.how}: {lines[-1].strip()}" if lines else self.how


def without_paths(text: str) -> str:
    """``text`` without where this checkout, this Python and this user's files are."""
    for path, name in (
        (ROOT, "unidev"),
        (Path(sys.prefix), "python"),
        (Path(sys.base_prefix), "python"),
        (Path(tempfile.gettempdir()), "temporary"),
        (Path.home(), "home"),
    ):
        if len(path.parts) > 1:  # not the root folder
            text = text.replace(f"{path}{os.sep}", f"{name}{os.sep}")
    return text


def run(
    command: Sequence[str],
    limit_s: float,
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    stop: Interruption | None = None,
) -> Ended:
    """Run ``command`` in ``folder``, which also gets its output as ``out.txt`` and ``err.txt``."""
    with ChildProcess(command, folder, environment={**os.environ, **(environment or {})}) as child:
        has_ended = child.wait(limit_s, stop)
        if not has_ended and not stop:
            child.ask_for_traceback()
    how = describe_exit(child.exit_code)
    if not has_ended:
        how = "interrupted" if stop else f"no result within {limit_s:.0f} s"
    seconds = time.monotonic() - child.began
    return Ended(child.exit_code if has_ended else None, how, child.out, child.err, seconds)
