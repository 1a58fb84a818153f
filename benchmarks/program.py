"""What all programs share: options, a child process for each backend, and one table."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from measure import Row

import unidev
from unidev.backends.discovery import backend_spec
from unidev.system.child_processes import describe_exit, end_group
from unidev.system.progress import progress
from unidev.system.wording import bytes_text, one_line, seconds_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

FRAMEWORKS = ("numpy", "torch", "tensorflow", "paddle", "mxnet", "jax")
HEADER = "| backend | what | against | unidev | other | ratio | at most | |"
RULE = "|---|---|---|---|---|---|---|---|"
ABSENT = "not installed"
DISTRIBUTIONS = (
    "unidev-core", "numpy", "torch", "tensorflow-cpu", "tensorflow", "paddlepaddle", "mxnet", "jax",
    "flax", "accelerate", "array-api-compat", "lightning-fabric", "transformers",
)  # fmt: skip
GRACE_S = 10.0
"""For an interrupted child, which ends its own children and removes its files."""


def main(
    description: str, rows_of: Callable[[str, str], Iterable[Row | str]], device: str = "cpu"
) -> None:
    """Measure each installed backend, each in its own process, and print a table.

    A string among the rows says what was not measured, and why.
    """
    parser = parser_of(description)
    parser.add_argument(
        "--backend", action="append", choices=FRAMEWORKS, help="default: all installed"
    )
    parser.add_argument(
        "--device", default=device, help="in unidev's spelling (default: %(default)s)"
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rounds:
        os.environ["BENCH_ROUNDS"] = str(options.rounds)  # measure.py's, in all processes
    ended_by(lambda: (_child if options.child else _parent)(options, rows_of))


def parser_of(description: str) -> argparse.ArgumentParser:
    """The options of each program."""
    parser = argparse.ArgumentParser(
        description=description,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--rounds", type=_positive, metavar="N", help="of each comparison; with 1, sizes are "
        "small: that shows that a program runs, and no cost (default: its own, up to 41)",
    )  # fmt: skip
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"not a positive integer: {text!r}")
    return int(text)


def ended_by(run: Callable[[], int]) -> None:
    """End this process with the exit code of ``run``, with 130 after Ctrl-C, 143 after SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which ends children, as Ctrl-C does
    try:
        code = run()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def _child(options: argparse.Namespace, rows_of: Callable[..., Iterable[Row | str]]) -> int:
    try:
        for row in rows_of(options.backend[0], options.device):
            print(json.dumps(row), flush=True)
    except (unidev.DeviceNotFoundError, unidev.DeviceSpecError, unidev.SimulationError) as error:
        print(json.dumps(str(error)))
    return 0


def _parent(options: argparse.Namespace, _: object) -> int:
    rows, notes, code = [], [], 0
    for name in options.backend or FRAMEWORKS:
        if lack := _lack(name):
            notes.append(lack)
            continue
        command = [sys.executable, sys.argv[0], "--child", "--backend", name]
        with progress(f"measuring {name}"):
            ended, printed = output_of(
                [*command, "--device", options.device], {"UNIDEV_BACKEND": name}
            )
        found = [json.loads(line) for line in printed.splitlines() if line[:1] in '["']
        rows += [Row(*each) for each in found if isinstance(each, list)]
        notes += [f"{name}: {one_line(each)}" for each in found if isinstance(each, str)]
        if ended:
            notes.append(f"{name}: failed, {describe_exit(ended)}")
            code = 1
    if rows:
        print(f"{machine()}. Medians; lower ratios are better.\n")
        print(HEADER, RULE, *map(_line, rows), sep="\n")
    for note in notes:
        print(note)
    return code


def _lack(name: str) -> str | None:
    """What is missing for a backend, with the command that installs it."""
    if importlib.util.find_spec(name) is None:
        return f"{name}: {ABSENT} (pip install './plugins/unidev-{name}[framework]')"
    try:
        backend_spec(name)
    except unidev.PluginError as error:
        return f"{name}: {one_line(str(error))}"
    except unidev.BackendNotFoundError:
        return f"{name}: its plugin is {ABSENT} (pip install ./plugins/unidev-{name})"
    return None


def lack_of(module: str) -> str | None:
    """What is said of another library, if it is not installed."""
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is not None:
        return None
    return f"{package}: {ABSENT} (pip install {package.replace('_', '-')})"


def output_of(
    command: Sequence[str], environment: dict[str, str], grace_s: float = GRACE_S
) -> tuple[int, str]:
    """Exit code and stdout of a child, which Ctrl-C reaches through this process alone."""
    child = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        printed = child.communicate()[0].decode()
    except BaseException:
        child.send_signal(signal.SIGINT)
        try:
            child.communicate(timeout=grace_s)
        finally:
            end_group(child)
        raise
    return child.returncode, printed


def machine() -> str:
    """Today, where, and how times are taken."""
    clock = ", CPU time" * bool(os.environ.get("BENCH_CPU"))
    found = f"{datetime.date.today()}, {platform.platform()}, {os.cpu_count()} cores"
    return f"{found}, Python {platform.python_version()}{clock}"


def versions() -> str:
    """The versions of what is measured and compared, where it is installed."""
    found = []
    for name in DISTRIBUTIONS:
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found)


def _line(row: Row) -> str:
    limit = "" if row.at_most is None else f"{row.at_most:g}"
    verdict = "" if row.at_most is None else ("ok" if row.ratio <= row.at_most else "MISSED")
    return (
        f"| {row.backend} | {row.what} | `{row.against}` | {_quantity(row.ours, row.unit)} "
        f"| {_quantity(row.theirs, row.unit)} | {row.ratio:.3g} | {limit} | {verdict} |"
    )


def _quantity(value: float, unit: str) -> str:
    if not unit:
        return f"{value:,}"
    return bytes_text(round(value)) if unit == "bytes" else seconds_text(value)
