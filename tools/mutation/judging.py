"""The judge of a fault: ``unidev conform --fail-fast`` on a copy of the checkout that has it."""

from __future__ import annotations

import compileall
import contextlib
import json
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from mutation.modules import source_folder
from mutation.reach import Reach

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from mutation.faults import Fault

ADDRESS_SPACE_BYTES = 24 * 2**30
"""A fault may ask for any amount of memory; TensorFlow reserves several GiB in any process."""
_LEAST_LIMIT_S = 60.0
_GRACE_S = 20.0
_MARK = "UNIDEV_MUTATION_JUDGE"


@dataclass(frozen=True)
class Verdict:
    """How the suite judged one fault."""

    how: str
    """``survived``, ``fail`` (by a check), ``crash``, ``hang``, or ``refused``: no verdict at all,
    as when the backend does not load."""
    by: str
    """The check and configuration that caught it, or why no check can."""
    seconds: float

    @property
    def is_caught(self) -> bool:
        """Whether the suite noticed anything."""
        return self.how != "survived"


@dataclass(frozen=True)
class Calibration:
    """Measurements of the suite without a fault: its seconds, and its reach."""

    seconds: float
    reach: Reach

    @property
    def limit_s(self) -> float:
        """How long a run with a fault may take."""
        return max(3 * self.seconds, _LEAST_LIMIT_S)


class Judge:
    """Judges one fault after another on a copy of its own."""

    def __init__(self, root: Path, copy: Path, backend: str, profile: str) -> None:
        self._copy, self._backend, self._profile = copy, backend, profile
        self._report = copy / "report.json"
        for folder in ("unidev", "unidev_pytest", f"plugins/unidev-{backend}/src"):
            if (root / folder).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(root / folder, copy / folder, ignore=ignored)
        # By their content: a module changes more often in a second than a date shows.
        mode = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(copy, quiet=2, invalidation_mode=mode)

    def calibrate(self, faults: Sequence[Fault]) -> Calibration:
        """Judge the sound backend, and see which checks enter the functions of ``faults``.

        Raises:
            RuntimeError: it does not conform: every fault would seem to be caught.
        """
        sources = {name: self._read(name) for name in {fault.module for fault in faults}}
        reach = Reach(self._copy, faults)
        try:
            sound = self._run(None, None)
        finally:
            for name, source in sources.items():
                (self._copy / name).write_text(source, encoding="utf-8")
        if sound.is_caught:
            raise RuntimeError(
                f"without any fault, {self._backend} does not conform to {self._profile}: "
                f"{sound.how} {sound.by}"
            )
        document = json.loads(self._report.read_text(encoding="utf-8"))
        reach.read({result["check"] for result in document["results"]})
        return Calibration(sound.seconds, reach)

    def judge(self, fault: Fault, calibration: Calibration) -> Verdict:
        """The verdict on one fault; the copy is as before afterwards."""
        checks = calibration.reach.checks(self._copy, fault)
        if checks is not None and not checks:
            return Verdict("survived", "no check enters the function", 0.0)
        sound = self._read(fault.module)
        try:
            (self._copy / fault.module).write_text(fault.code, encoding="utf-8")
            return self._run(calibration.limit_s, checks)
        finally:
            (self._copy / fault.module).write_text(sound, encoding="utf-8")

    def _read(self, module: str) -> str:
        return (self._copy / module).read_text(encoding="utf-8")

    def _run(self, limit_s: float | None, checks: Collection[str] | None) -> Verdict:
        self._report.unlink(missing_ok=True)
        began = time.monotonic()
        process = subprocess.Popen(
            self._command(limit_s, checks), env=self._environment(), cwd=self._copy.parent,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
            process.send_signal(signal.SIGTERM)  # which writes a report, and ends its children
        finally:
            self._end(process)
        seconds = round(time.monotonic() - began, 1)
        if code == 0:
            return Verdict("survived", "", seconds)
        how, by = self._caught_by()
        return Verdict("hang" if code is None else how, by, seconds)

    def _command(self, limit_s: float | None, checks: Collection[str] | None) -> list[str]:
        words = ["-m", "unidev", "conform", self._backend, "--profile", self._profile]
        words += ["--fail-fast", "--report", str(self._report)]
        if limit_s is not None:  # no single check may take longer than a whole run
            words += ["--timeout", str(int(limit_s / 3) + 1)]
        if checks is not None:
            words += ["--only", ",".join(sorted(checks))]
        limit = f"--as={ADDRESS_SPACE_BYTES}"
        return ["prlimit", limit, sys.executable, *words]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_")}
        plugin = (self._copy / source_folder(self._backend)).parent
        path = os.pathsep.join(dict.fromkeys(map(str, (self._copy, plugin))))
        return {
            **kept, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", _MARK: str(self._copy)
        }  # fmt: skip

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(_GRACE_S if process.poll() is None else None)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # Its children lead groups of their own, and a fault may keep them from being ended.
        for each in psutil.process_iter():
            with contextlib.suppress(psutil.Error):  # it has ended, or is not ours to look at
                if each.environ().get(_MARK) == str(self._copy):
                    each.kill()

    def _caught_by(self) -> tuple[str, str]:
        try:
            document = json.loads(self._report.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return "refused", "no report was written"
        for result in document["results"]:
            if result["result"] in ("fail", "error", "crash", "timeout", "xpass"):
                how = {"crash": "crash", "timeout": "hang"}.get(result["result"], "fail")
                return how, f"{result['check']} on {result['configuration']}"
        return "refused", "no check has a result"
