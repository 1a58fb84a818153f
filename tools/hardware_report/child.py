"""Runs one step in this process: ``python -m hardware_report.child STEP BACKEND FOLDER``.

What a backend does not support is the reason why a step did not run. Any other error ends this
process with a traceback, which the parent reports.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from hardware_report.outcome import NOT_RUN, NotRunError, Outcome
from hardware_report.plan import step_named
from hardware_report.setting import Setting
from unidev.errors import UnsupportedOperation
from unidev.support.atomic_file import write_whole

ANSWER = "outcome.json"


def main(name: str, backend: str, folder: Path, *, is_short: bool) -> None:
    """Run the step and write its outcome into ``folder``."""
    step = step_named(name)
    work = folder / "work"
    work.mkdir()
    try:
        outcome = step.function()(Setting(backend, is_short, work), **step.options)
    except (NotRunError, UnsupportedOperation) as error:
        outcome = Outcome(NOT_RUN, str(error))
    write_whole(folder / ANSWER, json.dumps(dataclasses.asdict(outcome)))


if __name__ == "__main__":
    step_name, backend_name, path, *more = sys.argv[1:]
    main(step_name, backend_name, Path(path), is_short="--short" in more)
