"""Programs on several frameworks in one process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warm_programs import EXAMPLES, run_fresh, run_program

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]


def run(
    words: Sequence[object],
    *,
    simulate: str = "2",
    backend: str = "",
    is_fresh: bool = False,
    folder: Path = ROOT,
) -> subprocess.CompletedProcess[str]:
    """Run a program that succeeds, in a copy of a process that has imported the frameworks.

    Args:
        words: as for ``run_program``.
        simulate: how many simulated GPUs there are.
        backend: the name that ``UNIDEV_BACKEND`` has.
        is_fresh: nothing is imported yet, where the order of imports matters.
        folder: where it runs; what writes files gets one of its own.
    """
    program = [str(word) for word in words]
    own = {**os.environ, "UNIDEV_SIMULATE": simulate, "UNIDEV_BACKEND": backend}
    if is_fresh:
        done = run_fresh(program, environment=own, folder=folder)
    else:
        also = ("frameworks_warm", *EXAMPLES)
        done = run_program(program, backend="tensorflow", also=also, environment=own, folder=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def results(code: str, **options: Any) -> Any:
    """What the program prints last, as JSON."""
    done = run(["-c", "import json, unidev\n" + code], **options)
    return json.loads(done.stdout.splitlines()[-1])
