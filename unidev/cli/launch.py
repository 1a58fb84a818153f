"""``unidev launch``: a program in several processes, which ``unidev.group()`` connects."""

from __future__ import annotations

import os
import sys

import click

from unidev.cli.options import Integer, in_options, timeout
from unidev.cli.programs import run_source
from unidev.errors import DeviceNotFoundError, InvalidDataError
from unidev.parallel.exchange.membership import MOST
from unidev.system.printing import say
from unidev.system.settings import STARTS

_HELP = """
Run a Python program in several processes at once. In it, unidev.group() connects the workers, and
unidev.DataParallel(model) trains one model in all of them; the program also runs alone, in one.

What the workers print is shown line by line, with the worker's number. If a worker fails, all end,
and the error is that of the worker that failed first. At the end, it says for each worker what
share of the steps of unidev.DataParallel was exchange, and how much of that ran while backward did.

\b
Exit codes:
  0    the program ended in all workers
  1    a worker failed, or the run could not start
  2    wrong usage
  130  interrupted by Ctrl-C

\b
Examples:
  unidev launch --workers 2 train.py --epochs 3
  unidev launch --workers 4 --retries 2 --checkpoints checkpoints train.py
  unidev launch --workers 8 --address auto train.py
"""


@click.command(name="launch", help=_HELP, context_settings={"allow_interspersed_args": False})
@click.option(
    "--workers", default=2, show_default=True, type=Integer(1, MOST), metavar="N",
    help="How many processes.",
)  # fmt: skip
@click.option(
    "--launcher", metavar="NAME",
    help="What starts them: processes (on this machine), or a plugin's launcher, such as ray.",
)  # fmt: skip
@click.option("--address", metavar="ADDRESS", help="The cluster; for Ray: auto, or HOST:PORT.")
@click.option(
    "--backend", metavar="NAME", help="The workers' backend; by default the selected one."
)
@click.option(
    "--gpus-per-worker", type=Integer(0, MOST), metavar="N",
    help="0: the CPU. By default 1 if there are enough for all workers, else 0.",
)  # fmt: skip
@click.option(
    "--start", type=click.Choice(STARTS),
    help="How workers start: forked from one process that has imported the framework, or each as a "
    "new process. By default forked where that is known to work.",
)  # fmt: skip
@timeout(600.0, "Seconds for which the workers of a collective wait for the last one.")
@click.option(
    "--retries", default=0, show_default=True, type=Integer(0, MOST), metavar="N",
    help="How often to start again, from the last checkpoint, after a worker has failed.",
)  # fmt: skip
@click.option(
    "--checkpoints", type=click.Path(file_okay=False), metavar="FOLDER",
    help="The folder for checkpoints.",
)  # fmt: skip
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(  # noqa: PLR0913  an argument for each option
    *,
    workers: int,
    launcher: str | None,
    address: str | None,
    backend: str | None,
    gpus_per_worker: int | None,
    start: str | None,
    timeout_s: float,
    retries: int,
    checkpoints: str | None,
    program: str,
    arguments: tuple[str, ...],
) -> int:
    """Run the program in all workers."""
    from unidev.parallel.running.run import run

    if not os.path.isfile(program):
        if os.path.isdir(program):
            raise click.UsageError(f"{program!r} is a folder: name a Python file.")
        raise click.UsageError(f"there is no file {program!r}.")
    try:
        times = run(
            run_program, os.path.abspath(program), program, arguments,
            workers=workers, launcher=launcher, address=address, backend=backend,
            gpus_per_worker=gpus_per_worker, start=start, timeout=timeout_s, retries=retries,
            checkpoints=checkpoints,
        )  # fmt: skip
    except (DeviceNotFoundError, InvalidDataError) as error:
        raise type(error)(in_options(str(error))) from None
    for rank, line in enumerate(times):
        if line:
            say(f"worker {rank}: {line}.")
    return 0


def run_program(path: str, program: str, arguments: tuple[str, ...]) -> str:
    """Run the program at ``path`` in this worker, as ``python PROGRAM ARGUMENTS`` would.

    Returns:
        How long its steps of ``DataParallel`` exchanged, in words; nothing if it had none.

    Raises:
        InvalidDataError: the program is not on this worker's machine.
        SystemExit: the program ended with another exit code than 0.
    """
    from unidev.parallel.worker import check_file

    check_file(path)
    sys.argv[:] = [program, *arguments]
    if not getattr(sys.flags, "safe_path", False):  # Python 3.11
        folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        is_given = sys.path[0] in map(os.path.abspath, filter(None, folders))
        sys.path[: 0 if is_given else 1] = [os.path.dirname(path)]
    try:
        run_source(path)
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise
    from unidev.parallel.exchange.step_times import of_this_worker

    return str(of_this_worker) if of_this_worker.steps else ""
