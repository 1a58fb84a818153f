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
from unidev.support import child_processes

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from unidev.support.child_processes import Interruption

_LOOK_S = 0.05
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
    folder.mkdir(parents=True, exist_ok=True)
    out, err = folder / "out.txt", folder / "err.txt"
    for file in (out, err):
        file.unlink(missing_ok=True)
    began = time.monotonic()
    process = child_processes.start(
        command,
        environment={**os.environ, **(environment or {})},
        folder=folder,
        out=out,
        err=err,
    )
    how = _wait(process, began + limit_s, limit_s, stop)
    child_processes.end_group(process)
    code = None if how else process.returncode
    return Ended(
        code,
        how or child_processes.describe_exit(process.returncode),
        _text(out),
        _text(err),
        time.monotonic() - began,
    )


def _wait(
    process: subprocess.Popen[bytes], end: float, limit_s: float, stop: Interruption | None
) -> str | None:
    """None once it has ended by itself; otherwise why it is not waited for any longer."""
    try:
        while process.poll() is None:
            if stop:
                return "interrupted"
            if time.monotonic() > end:
                child_processes.ask_for_traceback(process)
                return f"no result within {limit_s:.0f} s"
            time.sleep(_LOOK_S)
    except BaseException:
        child_processes.end_group(process)
        raise
    return None


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")
