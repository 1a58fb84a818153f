"""The command line, ``unidev``: one module per command, imported only when the command is used.

Another distribution adds a command by an entry point of the group ``unidev.commands``: the name of
the command, and ``module:attribute`` of a ``click.Command``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

import click

from unidev.backends.known_frameworks import KNOWN
from unidev.errors import UnidevError
from unidev.system.wording import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMANDS = {
    "bench": "What are this machine's devices worth?",
    "conform": "Judge a backend: does it keep unidev's promises?",
    "doctor": "Why is there no GPU, or why is it not used?",
    "info": "Show plugins, frameworks and devices, and which backend is chosen.",
    "launch": "Run a program in several processes at once, on one machine or many.",
    "new-backend": "Write the package of a new backend, with the members to fill in.",
    "simulate": "Run a command with simulated GPUs for each Python program in it.",
    "trace": "Run a program and show what it moves between devices, by line, with advice.",
}
"""Each command with its help line, so that listing them does not import them."""
_DISTRIBUTIONS = dict.fromkeys(("conform", "new-backend"), "unidev-conformance")
"""Those of another distribution of this repository."""

_HELP = f"""
One device layer for {", ".join(each.title for each in KNOWN)} and NumPy.

\b
Examples:
  unidev info                          what is installed, and which backend is chosen
  unidev doctor                        why is there no GPU, or why is it not used?
  unidev bench --backend torch         what are this machine's devices worth?
  unidev conform numpy --simulate 4    judge the NumPy backend
  unidev launch --workers 2 train.py   train in two processes, connected by unidev.group()
  unidev simulate --gpus 4 -- pytest   run a command with four simulated GPUs
  unidev trace train.py --epochs 3     what does it move between devices, and from which line?
"""

_REFUSED = 2
"""The system refuses what a command needs; as for a report that cannot be written."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
_SIGPIPE = 141
"""The exit code that a shell reports for a program killed by SIGPIPE."""


class _ReaderGoneError(Exception):
    """The reader of the output, such as ``head``, has exited."""


@contextlib.contextmanager
def _past_click() -> Iterator[None]:
    # Of a broken pipe, click makes exit code 1, in a way that differs between its versions.
    try:
        yield
    except BrokenPipeError as error:
        raise _ReaderGoneError from error


class _LazyGroup(click.Group):
    """A group whose commands are in modules of the same name."""

    @_past_click()
    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the command line; prints the help."""
        return super().make_context(info_name, args, parent, **extra)

    @_past_click()
    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the requested command; for a misspelt one, name the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], self.list_commands(ctx), 1)
            is_said = "Did you mean" in error.message  # newer releases of click say it
            if is_said or near in ([], args[:1]):  # the second: it is a command that cannot run
                raise
            message = f"{error.message} Did you mean {near[0]!r}?"
            raise click.UsageError(message, ctx) from None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All commands, imported or not."""
        return sorted(_COMMANDS.keys() | _added())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the requested command."""
        if known := super().get_command(ctx, cmd_name):
            return known
        if cmd_name in _COMMANDS.keys() - _DISTRIBUTIONS.keys():
            command: click.Command = import_module(f"unidev.cli.{cmd_name}").command
            command.short_help = _COMMANDS[cmd_name]  # which a shell's completion shows
            return command
        if point := _added().get(cmd_name):
            return _load(point)
        if cmd_name in _DISTRIBUTIONS:
            raise click.UsageError(
                f"unidev {cmd_name} needs {_DISTRIBUTIONS[cmd_name]}, which is not installed. In "
                f"unidev's repository, run: pip install ./plugins/{_DISTRIBUTIONS[cmd_name]}"
            )
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands in the help text."""
        added = {name: point for name, point in _added().items() if name not in _COMMANDS}
        lines = {**_COMMANDS, **{name: _short_help(point) for name, point in added.items()}}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(lines.items()))


def _added() -> dict[str, EntryPoint]:
    """The commands of other distributions by name; none replaces one of ours."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group="unidev.commands"):
        owner = point.dist.name if point.dist else None
        if point.name not in _COMMANDS or owner == _DISTRIBUTIONS.get(point.name, ""):
            found.setdefault(point.name, point)
    return found


def _load(point: EntryPoint) -> click.Command:
    try:
        command = point.load()
        if not isinstance(command, click.Command):
            raise TypeError(f"it is a {type(command).__name__}, not a click.Command")
    except (Exception, SystemExit) as error:  # its import may raise anything
        owner = f" of {point.dist.name}" if point.dist else ""
        said = " ".join(f"{type(error).__name__}: {error}".split())
        message = f"{point.value}{owner} does not load: {said}"
        raise click.UsageError(message) from error
    return command


def _short_help(point: EntryPoint) -> str:
    try:
        return _load(point).get_short_help_str(70)
    except click.UsageError as error:
        return error.message


@click.group(cls=_LazyGroup, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="unidev-core", prog_name="unidev")
def cli() -> None:
    """The parent of all commands."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, then exit with the command's exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if sys.stdout is None:  # closed by the caller, as with `>&-`
        click.echo("unidev: stdout is closed, so nothing can be printed.", err=True)
        sys.exit(_REFUSED)
    try:
        code: Any = cli.main(given, prog_name="unidev", standalone_mode=False, obj=given)
        if not getattr(sys.stdout, "closed", True):  # a traced program may close it
            sys.stdout.flush()  # here, where a closed pipe is handled
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.message = plain(error.message)  # type: ignore[misc]
        error.show(sys.stderr)
        sys.exit(error.exit_code)
    except (BrokenPipeError, _ReaderGoneError, SystemExit) as error:  # rich exits after the first
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        _drop_output()  # without this, Python would report it at exit
        sys.exit(_SIGPIPE)
    except OSError as error:
        if error.filename is None and error.errno in _FULL:  # about a stream
            _drop_output()
        click.echo(f"unidev: {plain(_refused(error))}.", err=True)
        sys.exit(_REFUSED)
    except UnidevError as error:
        click.echo(f"unidev: {plain(str(error))}", err=True)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _refused(error: OSError) -> str:
    """The system's refusal in one line, such as a full disk or a deleted folder."""
    said = error.strerror or str(error)
    if error.filename is not None:
        return f"{error.filename}: {said}"
    if error.errno in _FULL:
        return f"the output cannot be written: {said}"
    try:
        os.getcwd()
    except OSError:
        return "the current folder has been deleted: change to another"
    return said


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
