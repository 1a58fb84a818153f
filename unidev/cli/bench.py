"""``unidev bench``: what this machine's devices are worth, on one framework."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from unidev.cli.options import Seconds, need, need_writable
from unidev.cli.output import console, say

if TYPE_CHECKING:
    from unidev.bench.results import Bench
    from unidev.bench.tasks import Task
    from unidev.contract.backend import Backend

_FOLDER = Path("unidev-bench")

_HELP = """
Measure this machine's devices with one framework: the minimum time of one small operation,
transfers from 1 KiB to 256 MiB, products and sums of matrices from 8 to 4,096 rows with and without
moving the data, and the textbook's exercises.

Writes a table, a page, a picture and JSON: bench.txt, bench.html, bench.png and bench.json.
Simulated devices are listed but never timed. Takes less than two minutes for each device; after
Ctrl-C, no files are written.

\b
Exit codes:
  0    done
  1    the backend is not available
  2    wrong usage, or the files cannot be written
  130  interrupted by Ctrl-C

\b
Examples:
  unidev bench
  unidev bench --backend torch --output results
  unidev bench --json > bench.json
"""


@click.command(name="bench", help=_HELP)
@click.option("--backend", metavar="NAME", help="The backend; by default the selected one.")
@click.option(
    "--full",
    "is_full",
    is_flag=True,
    help="Take more timings, for up to half an hour for each device.",
)
@click.option(
    "--output", "folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
    help="The folder for the files.  [default: unidev-bench; none with --json]",
)  # fmt: skip
@click.option(
    "--limit", "limit_s", type=Seconds(), metavar="S",
    help="Seconds for each device; after these, no new measurement starts.  [default: 80; with "
         "--full, 1800]",
)  # fmt: skip
@click.option("--json", "is_json", is_flag=True, help="Print JSON instead of the table.")
def command(
    *, backend: str | None, is_full: bool, folder: Path | None, limit_s: float | None, is_json: bool
) -> int:
    """Measure, then report."""
    import unidev

    if folder is None and not is_json:
        folder = _FOLDER
    if backend is not None:
        unidev.set_backend(backend)
    chosen = unidev.active_backend()
    if folder is not None:
        _check(folder)
    return _report(_measure(chosen, limit_s, is_full=is_full), folder, is_json=is_json)


def _check(folder: Path) -> None:
    """Check that the files can be written, before minutes are spent on measuring."""
    also = ". --json without --output does not need them."
    need("bench", "the page and the picture cannot be made", also)
    from unidev.bench.files import FILES

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"--output {folder}: {error.strerror}.") from error
    for name in FILES:
        need_writable(folder / name)


def _measure(backend: Backend, limit_s: float | None, *, is_full: bool) -> Bench:
    from unidev.bench.running import run
    from unidev.system.progress import progress

    def report(done: int, of: int, task: Task) -> None:
        size = "" if task.size is None else f", {task.size:,}"
        step(f"{done} of {of}: {task.what}{size} on {task.device}")

    with progress(f"measuring {backend.name}") as step:
        return run(backend, is_full=is_full, limit_s=limit_s, progress=report)


def _report(bench: Bench, folder: Path | None, *, is_json: bool) -> int:
    from unidev.bench.files import contents, to_json, write
    from unidev.bench.findings import findings
    from unidev.bench.table import print_table, to_text

    found = findings(bench)
    if folder is not None:
        try:
            made = contents(bench, found, to_text(bench, found))
            stop = write(folder, made)
        except OSError as error:
            say(f"unidev: {error.filename or folder}: {error.strerror}.", err=True)
            return 2
        if stop:
            return stop.exit_code
    if is_json:
        say(to_json(bench, found), nl=False)
    else:
        print_table(bench, found, console())
    if folder is not None:
        say(f"unidev: wrote {', '.join(str(folder / each) for each in made)}", err=True)
    return 0
