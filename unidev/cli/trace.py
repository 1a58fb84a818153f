"""``unidev trace``: what a program moves between devices, from which line, with advice."""

from __future__ import annotations

import os
import runpy
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from zipfile import is_zipfile

import click

from unidev.cli import programs
from unidev.cli.options import Integer, need_writable

if TYPE_CHECKING:
    from types import TracebackType

    from unidev.tracing.trace import Trace

_INTERRUPTED = 130
_WRONG_USAGE = 2

_HELP = """
Run a Python program and print on stderr what it moves between devices: by line, the most expensive
first, with advice, and with what cannot be seen. The program need not use unidev.

The program runs in this process as with `python PROGRAM ARGUMENTS`, and its exit code is passed on.
Frameworks are traced from the moment that they are imported; with UNIDEV_SIMULATE they have
simulated GPUs. The table is also printed after an error and after Ctrl-C, but not after os._exit().

\b
Examples:
  unidev trace train.py --epochs 3
  unidev trace --json transfers.json --chrome transfers.trace.json train.py
  unidev trace -m my_package.train --epochs 3
"""


@click.command(name="trace", help=_HELP, context_settings={"allow_interspersed_args": False})
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False), help="Also write the trace as JSON."
)
@click.option(
    "--chrome", "chrome_file", type=click.Path(dir_okay=False),
    help="Also write a file for https://ui.perfetto.dev and chrome://tracing.",
)  # fmt: skip
@click.option(
    "--limit", default=100_000, show_default=True, type=Integer(min=0),
    help="How many transfers the files list one by one; the table counts all.",
)  # fmt: skip
@click.option("-m", "is_module", is_flag=True, help="PROGRAM is a module, as with `python -m`.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(  # noqa: PLR0913  an argument for each option
    *,
    json_file: str | None,
    chrome_file: str | None,
    limit: int,
    is_module: bool,
    program: str,
    arguments: tuple[str, ...],
) -> int:
    """Run the program, then report."""
    from unidev.tracing.trace_transfers import trace_transfers

    if not is_module and not os.path.exists(program):
        *package, name = program.split(".")
        is_name = all(map(str.isidentifier, (*package, name))) and name != "py"
        hint = f" To run a module, use `-m {program}`." if is_name else ""
        if program == "-":
            hint = " A program on standard input is /dev/stdin."
        raise click.UsageError(f"there is no file {program!r}.{hint}")
    mains = (os.path.join(program, f"__main__.{end}") for end in ("py", "pyc"))
    if not is_module and os.path.isdir(program) and not any(map(os.path.isfile, mains)):
        raise click.UsageError(f"{program!r} is a folder without a __main__.py.")
    for file in filter(None, (json_file, chrome_file)):
        need_writable(Path(file))
    folder, stderr = Path.cwd(), sys.stderr  # the program may change both
    process = os.getpid()
    with trace_transfers(limit=limit) as trace:
        code = _run(program, arguments, is_module=is_module)
    if os.getpid() != process:  # a fork made by the program: only its parent prints
        return code
    if not getattr(sys.stdout, "closed", True):
        with suppress(OSError):  # after `| head` exits, the table is still printed
            sys.stdout.flush()
    try:
        _say(f"\n{trace}", stderr)
    finally:  # also if the table cannot be printed
        failure = _write(trace, folder, json_file, chrome_file, stderr)
    return failure or code


def _say(text: str, stream: TextIO | None) -> None:
    """Print ``text``, unless the program or the caller has closed the stream."""
    if not getattr(stream, "closed", True):
        click.echo(text, file=stream)


def _run(program: str, arguments: tuple[str, ...], *, is_module: bool) -> int:
    """Run the program; returns the exit code that Python would use."""
    sys.argv[:] = [program, *arguments]
    if not getattr(sys.flags, "safe_path", False):  # Python 3.11
        sys.path[0] = os.getcwd() if is_module else str(Path(program).resolve().parent)
    try:
        if is_module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        elif not _is_source(program):  # a folder or an archive with a __main__.py, or a .pyc
            runpy.run_path(program, run_name="__main__")
        else:
            programs.run_source(os.path.abspath(program))
    except SystemExit as stop:
        return _exit_code(stop.code)
    except BaseException as error:  # noqa: BLE001  reported as Python does, before the table
        _say_error(error.with_traceback(_of_program(error.__traceback__)))
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _is_source(program: str) -> bool:
    if not os.path.isfile(program):
        return not os.path.isdir(program)  # a pipe, which can be read only once
    return not program.endswith(".pyc") and not is_zipfile(program)


def _exit_code(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    _say(str(code), sys.stderr)  # as with `sys.exit("message")`
    return 1


def _say_error(error: BaseException) -> None:
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception as failure:  # noqa: BLE001  the program's own hook may fail
        sys.__excepthook__(type(failure), failure, failure.__traceback__)
        sys.__excepthook__(type(error), error, error.__traceback__)


def _of_program(found: TracebackType | None) -> TracebackType | None:
    """The program's own part of a traceback; None if the program did not start."""
    ours = (__file__, programs.__file__, runpy.__file__)
    last = found
    while last is not None and (
        last.tb_frame.f_code.co_filename in ours
        or last.tb_frame.f_code.co_filename.startswith("<frozen runpy")
    ):
        last = last.tb_next
    return last


def _write(
    trace: Trace,
    folder: Path,
    json_file: str | None,
    chrome_file: str | None,
    stderr: TextIO | None,
) -> int:
    try:
        if json_file is not None:
            trace.to_json(folder / json_file)
        if chrome_file is not None:
            trace.to_chrome_trace(folder / chrome_file)
    except OSError as error:
        _say(f"unidev: the trace cannot be written: {error}", stderr)
        return _WRONG_USAGE
    return 0
