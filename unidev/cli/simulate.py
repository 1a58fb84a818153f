"""``unidev simulate``: any command, with simulated GPUs for the Python programs in it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unidev.backends import simulation
from unidev.backends.import_hook import check_possible, deactivate
from unidev.cli.options import Integer
from unidev.cli.python_commands import unreached
from unidev.errors import SimulationError
from unidev.system.settings import (
    MOST_SIMULATED,
    SIMULATE,
    SIMULATE_AS,
    SIMULATE_COMPILE,
    SIMULATE_LATE,
    SIMULATE_LIKE,
    SIMULATE_MEMORY,
)

if TYPE_CHECKING:
    from collections.abc import Collection

_OPTIONS: dict[str, str] = {
    SIMULATE_AS: "--as", SIMULATE_MEMORY: "--memory", SIMULATE_LIKE: "--like",
    SIMULATE_COMPILE: "--compile", SIMULATE_LATE: "--late", SIMULATE: "--gpus",
}  # fmt: skip
STARTUP = Path(__file__).parent / "startup"
"""The folder that holds our ``sitecustomize.py``, and nothing else."""

_HELP = """
Run a command with simulated GPUs for each Python program in it, also in its children. The programs
need not use unidev.

With --as, the simulated GPUs have that name, in each framework that supports it: the CPU build of
PyTorch supports "cuda". Without --as, they have the names that unidev gives them: in PyTorch
"sim:0", "sim:1" and so on. Options that are not given are read from the environment:
UNIDEV_SIMULATE_AS, UNIDEV_SIMULATE_MEMORY, UNIDEV_SIMULATE_LIKE, UNIDEV_SIMULATE_COMPILE,
UNIDEV_SIMULATE_LATE.

The command replaces this one: exit code, signals and output are its own.

\b
Exit codes:
  2    wrong usage, or the command could not be started; else that of the command
  66   with --late=report: the program found races, and no exception ended it

\b
Examples:
  unidev simulate --as cuda --gpus 8 -- python train.py --epochs 3
  unidev simulate --as cuda --gpus 2 --memory 24GiB --like L4 -- pytest tests
  unidev simulate --as cuda --gpus 4 -- torchrun --nproc-per-node 4 train.py
  unidev simulate --as cuda --gpus 2 --late=report -- python train.py
  unidev simulate --gpus 4 -- jupyter lab
"""


@click.command(name="simulate", help=_HELP, context_settings={"allow_interspersed_args": False})
@click.option(
    "--gpus", required=True, type=Integer(1, MOST_SIMULATED), metavar="N",
    help=f"How many, 1 to {MOST_SIMULATED}.",
)  # fmt: skip
@click.option("--as", metavar="NAME", help="The framework's name for GPUs, such as cuda.")
@click.option("--memory", metavar="SIZE", help="The memory of each, such as 24GiB.")
@click.option("--like", metavar="MODEL", help="The model of GPU, such as H100, A100, L4 or T4.")
@click.option(
    "--compile", metavar="BACKEND",
    help="What torch.compile uses in place of Inductor: eager or aot_eager.",
)  # fmt: skip
@click.option(
    "--late", is_flag=False, flag_value="1", metavar="[=report]",
    help="Lose every race of streams, devices and the host; =report, =FILE.jsonl: say where.",
)  # fmt: skip
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(*, words: tuple[str, ...], **options: int | str | None) -> int:
    """Check what can be checked before the command starts, then become it."""
    values = ((variable, options[option[2:]]) for variable, option in _OPTIONS.items())
    given = {variable: str(value) for variable, value in values if value is not None}
    for variable, value in given.items():
        if not value.strip() or value == "--":
            raise click.UsageError(f"{_OPTIONS[variable]} needs a value.")
    environment = {**os.environ, **given}
    deactivate()  # the settings are the command's, not of this process
    try:
        requested = simulation.simulated_gpus(environment)
        assert requested is not None  # --gpus is at least 1
        check_possible(requested)
    except SimulationError as error:
        late = given.get(SIMULATE_LATE, "")
        hint = f" Before a command: --late -- {late} …" if shutil.which(late) else ""
        raise click.UsageError(_in_options(str(error), given) + hint) from error
    program = shutil.which(words[0])
    if program is None:
        raise click.UsageError(f"there is no command {words[0]!r}.{_hint(words[0])}")
    if (problem := unreached(program, words[1:])) is not None:
        raise click.UsageError(problem)
    environment["PYTHONPATH"] = _with_startup(environment.get("PYTHONPATH", ""))
    try:
        return _become(program, words, environment)
    except OSError as error:  # such as a file of text that is executable
        raise click.UsageError(f"{words[0]!r} does not start: {error.strerror}.") from error


def _in_options(text: str, given: Collection[str]) -> str:
    """``text`` about variables, in words of the options that gave them."""
    for variable, option in _OPTIONS.items():
        if variable in given:
            text = re.sub(f"(?<=[Uu])nset {variable}\\b", f"se no {option}", text)
            text = text.replace(f"{variable}=", f"{option} ").replace(f"{variable}:", f"{option}:")
    return text


def _hint(word: str) -> str:
    if not os.path.isfile(word):
        return ""
    if word.endswith(".py"):
        return f" To run a Python program: -- python {word}"
    return " It is a file, but not an executable one on PATH."


def _with_startup(path: str) -> str:
    ours = str(STARTUP)
    others = [each for each in path.split(os.pathsep) if each != ours] if path else []
    return os.pathsep.join([ours, *others])


def _become(program: str, words: tuple[str, ...], environment: dict[str, str]) -> int:
    sys.stdout.flush()
    if os.name == "posix":
        for ignored in ("SIGPIPE", "SIGXFSZ"):  # by Python, and the command would inherit that
            signal.signal(getattr(signal, ignored), signal.SIG_DFL)
        os.execve(program, words, environment)  # noqa: S606  the user's own command
    # On Windows exec starts another process, for which a shell does not wait.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the command as well
    return subprocess.run([program, *words[1:]], env=environment, check=False).returncode  # noqa: S603  as above
