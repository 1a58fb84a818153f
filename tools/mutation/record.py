"""Verdicts in a file, a line each as it comes, so that a run that was stopped goes on."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING

from mutation.judging import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from mutation.faults import Fault


class Record:
    """The verdicts of one sample: read from ``path``, where new ones are appended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._verdicts: dict[str, Verdict] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                self._verdicts[entry["key"]] = Verdict(**entry["verdict"])

    def __getitem__(self, fault: Fault) -> Verdict:
        return self._verdicts[fault.key]

    def __contains__(self, fault: Fault) -> bool:
        return fault.key in self._verdicts

    def add(self, fault: Fault, verdict: Verdict) -> None:
        """Keep a verdict, in the file first."""
        entry = {"key": fault.key, "line": fault.line, "verdict": asdict(verdict)}
        with self._lock:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
            self._verdicts[fault.key] = verdict
