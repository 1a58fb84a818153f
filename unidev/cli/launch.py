"""``unidev launch``: a program in several processes, which ``unidev.group()`` connects."""

from __future__ import annotations

import os
import sys

import click

from unidev.cli.programs import run_source

_HELP = """
Run a Python program in several processes at once. In it, unidev.group() connects the workers, and
unidev.DataParallel(model) trains one model in all of them; the program also runs alone, in one.

What the workers print is shown line by line, with the worker's number. If a worker fails, all end,
and the error is that of the worker that failed first; exit code 1.

\b
Examples:
  unidev launch --workers 2 train.py --epochs 3
  unidev launch --workers 4 --retries 2 --checkpoints checkpoints train.py
  unidev launch --workers 8 --address auto train.py
"""


@click.command(
    name="launch", help=_HELP, short_help="Run a program in several processes at once.",
    context_settings={"allow_interspersed_args": False},
)  # fmt: skip
@click.option("--workers", default=2, show_default=True, type=click.IntRange(min=1))
@click.option("--launcher", help="processes, ray, or one of a plugin's.")
@click.option("--address", help="Of a Ray cluster: auto, or HOST:PORT.")
@click.option("--backend", help="The workers' backend; else as UNIDEV_BACKEND or chosen.")
@click.option(
    "--gpus-per-worker", type=click.IntRange(min=0),
    help="0 is the CPU. Default: 1 if there are enough for all workers, else 0.",
)  # fmt: skip
@click.option(
    "--timeout", default=600.0, show_default=True,
    help="How many seconds a worker may come to a collective after the others.",
)  # fmt: skip
@click.option(
    "--retries", default=0, show_default=True, type=click.IntRange(min=0),
    help="How often to start again, from the last checkpoint, after a worker has failed.",
)  # fmt: skip
@click.option("--checkpoints", type=click.Path(file_okay=False), help="A folder for checkpoints.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(  # noqa: PLR0913  an argument for each option
    *,
    workers: int,
    launcher: str | None,
    address: str | None,
    backend: str | None,
    gpus_per_worker: int | None,
    timeout: float,
    retries: int,
    checkpoints: str | None,
    program: str,
    arguments: tuple[str, ...],
) -> int:
    """Run the program in all workers."""
    from unidev.distributed.running.run import run

    if not os.path.isfile(program):
        raise click.UsageError(f"there is no file {program!r}.")
    run(
        run_program, os.path.abspath(program), program, arguments,
        workers=workers, launcher=launcher, address=address, backend=backend,
        gpus_per_worker=gpus_per_worker, timeout=timeout, retries=retries, checkpoints=checkpoints,
    )  # fmt: skip
    return 0


def run_program(path: str, program: str, arguments: tuple[str, ...]) -> None:
    """Run the program at ``path`` in this worker, as ``python PROGRAM ARGUMENTS`` would.

    Raises:
        InvalidDataError: the program is not on this worker's machine.
        SystemExit: the program ended with another exit code than 0.
    """
    from unidev.distributed.workers.missing import check_file

    check_file(path)
    sys.argv[:] = [program, *arguments]
    if not getattr(sys.flags, "safe_path", False):  # Python 3.11
        sys.path[0] = os.path.dirname(path)
    try:
        run_source(path)
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise
