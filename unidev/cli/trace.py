"""``unidev trace``: what a program moves between devices, from which line, and what to do."""

from __future__ import annotations

import builtins
import io
import os
import runpy
import sys
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TextIO
from zipfile import is_zipfile

import click

if TYPE_CHECKING:
    from types import TracebackType

    from unidev.tracing.trace import Trace

_INTERRUPTED = 130
_WRONG_USAGE = 2

_HELP = """
Run a Python program, which need not know of unidev, and print on stderr what it moves between
devices: by line, the most expensive first, with what to do about it, and what is not seen.

The program runs in this process as `python PROGRAM ARGUMENTS` would run it, and its exit code is
this one's. Frameworks are watched from the moment that they are imported; with UNIDEV_SIMULATE they
have simulated GPUs. The table is printed also after an error and after Ctrl-C, not after
os._exit().

\b
Examples:
  unidev trace train.py --epochs 3
  unidev trace --json transfers.json --chrome transfers.trace.json train.py
  unidev trace -m my_package.train --epochs 3
"""


@click.command(
    name="trace",
    help=_HELP,
    short_help="What a program moves between devices.",
    context_settings={"allow_interspersed_args": False},
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False), help="Also write it as JSON.")
@click.option(
    "--chrome", "chrome_file", type=click.Path(dir_okay=False),
    help="Also write a file for https://ui.perfetto.dev and chrome://tracing.",
)  # fmt: skip
@click.option("-m", "is_module", is_flag=True, help="PROGRAM is a module, as of `python -m`.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    *,
    json_file: str | None,
    chrome_file: str | None,
    is_module: bool,
    program: str,
    arguments: tuple[str, ...],
) -> int:
    """Run it, then tell."""
    from unidev.tracing.trace_transfers import trace_transfers

    if not is_module and not os.path.exists(program):
        raise click.UsageError(f"there is no file {program!r}. A module is run by `-m {program}`.")
    _check_folders(json_file, chrome_file)
    folder, stderr = Path.cwd(), sys.stderr  # the program may go elsewhere, and write elsewhere
    process = os.getpid()
    with trace_transfers() as trace:
        code = _run(program, arguments, is_module=is_module)
    if os.getpid() != process:  # a fork of the program's: the table is its parent's
        return code
    if not getattr(sys.stdout, "closed", True):
        with suppress(OSError):  # `| head` has had enough: that is no reason to say nothing
            sys.stdout.flush()
    try:
        _say(f"\n{trace}", stderr)
    finally:  # also where nobody reads the table
        failure = _write(trace, folder, json_file, chrome_file, stderr)
    return failure or code


def _check_folders(*files: str | None) -> None:
    """Before hours are spent on a trace that cannot be written."""
    for file in files:
        if file is not None and not Path(file).parent.is_dir():
            raise click.UsageError(f"{file}: there is no folder {str(Path(file).parent)!r}.")


def _say(text: str, stream: TextIO | None) -> None:
    """Nothing, where the program or who called has closed the stream."""
    if not getattr(stream, "closed", True):
        click.echo(text, file=stream)


def _run(program: str, arguments: tuple[str, ...], *, is_module: bool) -> int:
    """The exit code that Python would end with."""
    sys.argv[:] = [program, *arguments]
    if not getattr(sys.flags, "safe_path", False):  # Python 3.11
        sys.path[0] = os.getcwd() if is_module else str(Path(program).resolve().parent)
    try:
        if is_module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        elif not _is_source(program):  # a folder or an archive with a __main__.py, or a .pyc
            runpy.run_path(program, run_name="__main__")
        else:
            _run_source(os.path.abspath(program))
    except SystemExit as stop:
        return _exit_code(stop.code)
    except BaseException as error:  # noqa: BLE001  said as Python says it, and then the table
        _say_error(error.with_traceback(_of_program(error.__traceback__)))
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _is_source(program: str) -> bool:
    if not os.path.isfile(program):
        return not os.path.isdir(program)  # a pipe, which can be read but once
    return not program.endswith(".pyc") and not is_zipfile(program)


def _run_source(path: str) -> None:
    """As Python does, and runpy does not: ``__file__`` is absolute, ``sys.argv[0]`` as given.

    The module stays ``__main__`` also for what the program does at exit.
    """
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__dict__.update(__file__=path, __cached__=None, __builtins__=builtins)
    module.__loader__ = SourceFileLoader("__main__", path)
    exec(code, module.__dict__)  # noqa: S102  the user's program


def _exit_code(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    _say(str(code), sys.stderr)  # as of `sys.exit("message")`
    return 1


def _say_error(error: BaseException) -> None:
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception as failure:  # noqa: BLE001  a program may have a hook of its own
        sys.__excepthook__(type(failure), failure, failure.__traceback__)
        sys.__excepthook__(type(error), error, error.__traceback__)


def _of_program(found: TracebackType | None) -> TracebackType | None:
    """The part of a traceback below what runs the program; None where it did not begin."""
    ours = (__file__, runpy.__file__)
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
