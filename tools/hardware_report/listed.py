"""Lists of steps that cannot run on a stand-in for a GPU, each with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardware_report.document import ReportError
from hardware_report.plan import STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def read_list(file: Path, planned: Sequence[str]) -> dict[str, str]:
    """The reasons by step; a line is ``STEP: REASON``, or a comment after ``#``.

    Steps that are not planned are left out.

    Raises:
        OSError: the file cannot be read.
        ReportError: a line has no reason, or names a step that does not exist.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, _, reason = (part.strip() for part in text.partition(":"))
        if not reason or name not in {each.name for each in STEPS}:
            raise ReportError(f"{file}, line {number}: not a step and a reason: {text!r}")
        found[name] = reason
    return {name: reason for name, reason in found.items() if name in planned}
