"""How a program on three workers ends when one of them fails, for each launcher, in one table.

Use: ``python tools/failure_table.py --markdown FILE``, with PyTorch, its plugin, unidev-ray and
Open MPI installed; ``--launchers processes,torchrun`` for some, ``--draw 3`` for so many kinds of
failure.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from measured_table import MeasuredTable

HELPERS = Path(__file__).parents[1] / "tests" / "helpers"
sys.path.insert(0, str(HELPERS))

# Of the tests, as the programs' functions are.
from marked_processes import end_marked, marked  # type: ignore[import-not-found]  # noqa: E402

LIMIT_S = 5
"""What the user allows: the ``timeout`` of ``run``, ``UNIDEV_TORCHRUN_TIMEOUT``."""
_PATIENCE_S = 180.0
_WORKERS = 3
_FAILED = 1
"""The worker that fails."""
KINDS = {
    "raises": "raises an error",
    "unprintable": "raises one whose str() raises",
    "thread": "raises while a thread of its own does not end",
    "no stdout": "raises without a stdout",
    "stdout closed": "raises with a closed stdout",
    "sys.exit": "calls sys.exit('enough')",
    "exits": "calls os._exit(7)",
    "early": "returns while the others wait",
    "crashes": "crashes (SIGSEGV)",
    "killed": "is killed (SIGKILL)",
    "stopped": "is stopped (SIGSTOP)",
    "late": "does not come",
    "shape": "has another shape",
    "order": "has another order of known tensors",
    "one is new": "has a new tree where worker 0 has a known one",
    "operation": "calls another operation",
    "root": "names another root",
    "weights": "lists other weights",
    "call": "calls another collective",
    "starter": "the program that started all is killed (SIGKILL)",
}
DIFFERENCES = ("shape", "order", "one is new", "operation", "root", "weights", "call")
RUN = """
import sys, run_samples, unidev

if __name__ == "__main__":
    launcher, limit, function, *arguments = sys.argv[1:]
    try:
        print(unidev.run(
            getattr(run_samples, function), *arguments, workers=3, backend="torch",
            launcher=launcher, timeout=float(limit),
        ))
    except unidev.WorkerFailedError as error:
        print(f"BLAMED {error.rank}: {error}")
"""
JOINED = """
import sys, run_samples

function, *arguments = sys.argv[1:]
print(getattr(run_samples, function)(*arguments))
"""
_BLAMED = {
    "processes": r"^BLAMED (\d+)",
    "ray": r"^BLAMED (\d+)",
    "torchrun": r"Root Cause[\s\S]*?rank +: (\d+)",
    "mpirun": r"Process name: \[.*,(\d+)\]|process rank (\d+) with PID",
}
TABLE = MeasuredTable(f"worker {_FAILED}", "kinds", KINDS, "launchers", tuple(_BLAMED))


@dataclass(frozen=True)
class Ending:
    """How one program ended."""

    kind: str
    launcher: str
    seconds: float | None
    """From the failure on; None if it did not end, or did not come to the failure."""
    blamed: str
    """The rank that the output names, ``all`` if each worker raised with both named, or ``-``."""
    left: int
    """Processes that were there five seconds later."""
    output: str


def ending(kind: str, launcher: str) -> Ending:
    """Run one program, and look at what it leaves."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as folder:
        flag = Path(folder, "fails")
        with Path(folder, "output").open("w+b") as output:
            variables = {"RUN_MARK": mark, "FAILS_AT": str(flag)}
            process = _started(kind, launcher, Path(folder), output.fileno(), variables)
            if kind == "starter":
                _await(flag, process)
                process.send_signal(signal.SIGKILL)
            try:
                process.wait(_PATIENCE_S)
                seconds = time.time() - flag.stat().st_mtime if flag.exists() else None
            except subprocess.TimeoutExpired:
                seconds = None
                process.kill()
            left = _left(mark)
            output.seek(0)
            text = output.read().decode(errors="replace")
    return Ending(kind, launcher, seconds, _blamed(kind, launcher, text), left, text)


def _started(
    kind: str, launcher: str, folder: Path, output: int, variables: dict[str, str]
) -> subprocess.Popen[bytes]:
    is_run = launcher in ("processes", "ray")
    program = folder / "program.py"
    program.write_text(RUN if is_run else JOINED)
    call = ["differing", kind] if kind in DIFFERENCES else ["failing", kind]
    mpirun = shutil.which("mpirun", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    before = {
        "torchrun": [
            sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=3", "--standalone",
        ],
        "mpirun": [
            mpirun or "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", sys.executable,
        ],
    }.get(launcher, [sys.executable])  # fmt: skip
    options = [launcher, str(LIMIT_S)] if is_run else []
    return subprocess.Popen(
        [*before, str(program), *options, *call],
        env={
            **os.environ, **variables, "UNIDEV_BACKEND": "torch",
            "UNIDEV_RAY_PLACE_TIMEOUT": "180", "UNIDEV_TORCHRUN_TIMEOUT": str(LIMIT_S),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(HELPERS), *sys.path])),
            **({"UNIDEV_LAUNCHER": "mpi"} if launcher == "mpirun" else {}),
        },
        stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder,
    )  # fmt: skip


def _await(flag: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not flag.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)


def _left(mark: str) -> int:
    until = time.monotonic() + 5
    while marked(mark) and time.monotonic() < until:
        time.sleep(0.1)
    found = marked(mark)
    end_marked(mark)  # they are no concern of the next program
    return len(found)


def _blamed(kind: str, launcher: str, text: str) -> str:
    if kind in DIFFERENCES:
        named = re.findall(r"worker 0 .*? but worker 1 ", text)
        return "all" if len(named) == _WORKERS else "-"
    found = re.search(_BLAMED[launcher], text, re.MULTILINE)
    return "-" if found is None else next(filter(None, found.groups()))


def _cell(one: Ending) -> str:
    if one.seconds is None:
        return "did not come to that, or did not end"
    blamed = {"all": "all raise", "-": "nobody"}.get(one.blamed, f"worker {one.blamed}")
    left = f", {one.left} left" if one.left else ""
    return f"{one.seconds:.0f} s, {blamed}{left}"


def main() -> int:
    """Print one line a program, and write the table."""
    options = TABLE.parsed(TABLE.parser(__doc__))
    endings = []
    for kind in options.kinds:
        for launcher in options.launchers:
            endings.append(ending(kind, launcher))
            print(f"{launcher:10} {kind:14} {_cell(endings[-1])}", flush=True)
            if endings[-1].seconds is None:
                print(endings[-1].output[-3000:], file=sys.stderr)
    if options.markdown is not None:
        cells = {(each.kind, each.launcher): _cell(each) for each in endings}
        options.markdown.write_text(TABLE.markdown(cells))
    return 1 if any(each.seconds is None for each in endings) else 0


if __name__ == "__main__":
    sys.exit(main())
