"""``unidev conform``: judge a backend."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from unidev.cli.options import Integer, need_writable, timeout
from unidev.cli.output import console, say
from unidev.system.settings import MOST_SIMULATED

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev_conformance.judging.report import Report
    from unidev_conformance.running.configuration_run import Progress

INCOMPLETE = 3
BACKEND_MISSING = 4

_OF_LAUNCHERS = (
    "launcher", "backend", "address", "only", "is_list", "timeout_s", "fail_fast",
)  # fmt: skip
_FILE = click.Path(dir_okay=False, path_type=Path)
_HELP = """
Judge backend NAME: does it keep unidev's promises, and above all, does it copy?

The checks run in child processes, first on the host's own devices, then on 1 and on 4 simulated
GPUs, or on as many as there can be; with --simulate N, on the host's own devices and on N simulated
GPUs (0: on the host's own only); with --no-host, on simulated GPUs alone. The profile hardware is
about real GPUs: it uses only the host's own devices. pytest.ini and conftest.py in the current
folder, and PYTEST_ADDOPTS, are ignored. A child that crashes or hangs counts as a result; the
remaining checks still run.

With --launcher NAME, judge a launcher of unidev.run instead: --backend, --address, --only, --list,
--timeout and --fail-fast apply.

\b
Exit codes:
  0    the backend conforms (with --only: the selected checks pass)
  1    it does not: a check fails or raises an error, or a known failure passes
  2    wrong usage
  3    incomplete: a check crashed, hung or was not run
  4    there is no such backend or launcher, or it does not load
  5    not a judgement: nothing that --quick drew fails
  130  interrupted by Ctrl-C; a requested report holds the results so far (143: by SIGTERM)

\b
Examples:
  unidev conform numpy
  unidev conform torch --simulate 4 --report report.json --markdown report.md
  unidev conform torch --simulate 3 --simulate-as cuda
  unidev conform torch --profile hardware
  unidev conform my_backend --quick
  unidev conform torch --only copy.values_bit_exact --simulate 0
  unidev conform --launcher ray --backend torch
  UNIDEV_PLUGINS=my_module python -m unidev conform my_backend     (a plugin that is not installed)
"""


@click.command(name="conform", help=_HELP, short_help="Judge a backend.")
@click.argument("name", required=False)
@click.option(
    "--launcher", metavar="NAME", help="Judge this launcher of unidev.run, instead of a backend."
)
@click.option(
    "--backend", metavar="NAME", default="numpy", show_default=True,
    help="With --launcher: the backend of its workers.",
)  # fmt: skip
@click.option("--address", metavar="ADDRESS", help="With --launcher: of the cluster.")
@click.option(
    "--profile", metavar="NAME", default="tensor", show_default=True, help="The set of checks."
)
@click.option(
    "--simulate", type=Integer(0, MOST_SIMULATED), metavar="N",
    help="Host and N simulated GPUs, instead of host, 1 and 4; 0: the host's own devices only.",
)  # fmt: skip
@click.option(
    "--no-host", is_flag=True, help="Leave out the host's own devices: simulated GPUs alone."
)
@click.option(
    "--simulate-as", metavar="NAME",
    help="The framework's name for the simulated GPUs: cuda on the CPU build of PyTorch.",
)  # fmt: skip
@click.option(
    "--only",
    metavar="ID,ID…",
    help="Only these checks, such as copy.zero_d, or groups, such as copy.",
)
@click.option(
    "--quick", is_flag=True,
    help="A tenth of the checks, drawn anew each time, while you write a backend: no judgement.",
)  # fmt: skip
@click.option("--list", "is_list", is_flag=True, help="List the profile's checks; run nothing.")
@click.option("--report", type=_FILE, metavar="FILE", help="Write the report as JSON.")
@click.option("--markdown", type=_FILE, metavar="FILE", help="Write it as Markdown.")
@click.option("--junit", type=_FILE, metavar="FILE", help="Write it as JUnit XML.")
@click.option(
    "--fail-fast", is_flag=True, help="End at the first failure that makes the backend not conform."
)
@timeout(120.0, "Seconds without progress after which a check is hung.")
@click.option("-v", "--verbose", is_flag=True, help="Print all checks, including those that pass.")
def command(  # noqa: PLR0913  one for each option
    *,
    name: str | None,
    launcher: str | None,
    backend: str,
    address: str | None,
    profile: str,
    simulate: int | None,
    no_host: bool,
    simulate_as: str | None,
    only: str | None,
    quick: bool,
    is_list: bool,
    report: Path | None,
    markdown: Path | None,
    junit: Path | None,
    fail_fast: bool,
    timeout_s: float,
    verbose: bool,
) -> int:
    """Judge a backend or a launcher, or list the checks."""
    if launcher is not None:
        from unidev_conformance.cli.conform_launcher import judge_launcher

        _need_launchers_options(name)
        return judge_launcher(
            launcher, backend, address, only=only, is_list=is_list, timeout_s=timeout_s,
            fail_fast=fail_fast,
        )  # fmt: skip
    if address is not None or _is_given("backend"):
        raise click.UsageError("--backend and --address are for --launcher.")
    _need_profile(profile)
    if is_list:
        return _list(profile)
    if quick and only is not None:
        raise click.UsageError("--quick draws the checks: leave out --only.")
    if name is None:
        raise click.UsageError("which backend? Give its NAME; `unidev info` lists them.")
    selected = _drawn(profile) if quick else _selection(only, profile)
    outputs = {"json": report, "markdown": markdown, "junit": junit}
    for path in filter(None, outputs.values()):
        need_writable(path)
    _need_different(outputs)

    from unidev_conformance.running.runner import BackendMissingError, Plan, UsageError

    command_line = shlex.join(["unidev", *click.get_current_context().find_root().obj])
    plan = Plan(
        backend=name, command=command_line, profile=profile, simulate=simulate,
        with_host=not no_host, simulate_as=simulate_as, only=selected, timeout_s=timeout_s,
        fail_fast=fail_fast, is_quick=quick,
    )  # fmt: skip
    try:
        return _run(plan, {kind: path for kind, path in outputs.items() if path}, verbose=verbose)
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    except BackendMissingError as error:
        say(f"unidev: {error}", err=True)
        return BACKEND_MISSING


def _run(plan: object, outputs: dict[str, Path], *, verbose: bool) -> int:
    from unidev.system.atomic_file import write_whole
    from unidev.system.child_processes import noticing_interruption
    from unidev.system.progress import progress
    from unidev_conformance.judging.verdict import judge
    from unidev_conformance.reports.terminal import print_report
    from unidev_conformance.running.runner import Plan, run

    assert isinstance(plan, Plan)
    with noticing_interruption() as stop, progress("loading the backend") as step:
        report = run(plan, on_progress=lambda at: step(_step(at)), stop=stop)
    print_report(report, console(), verbose=verbose)  # first: a full disk cannot lose it
    try:
        for kind, path in outputs.items():
            write_whole(path, _renderer(kind)(report))
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}.") from error
    return stop.exit_code if stop else judge(report).exit_code


def _step(progress: Progress) -> str:
    is_done = progress.of and progress.done == progress.of
    idle = "waiting for the process to end" if is_done else "loading the backend"
    doing = progress.check or progress.loading or idle
    count = f" ({progress.done} of {progress.of})" if progress.of else ""
    return f"{progress.configuration}: {doing}{count}"


def _renderer(kind: str) -> Callable[[Report], str]:
    from unidev_conformance.reports.as_json import to_json
    from unidev_conformance.reports.junit import to_junit
    from unidev_conformance.reports.markdown import to_markdown

    return {"json": to_json, "markdown": to_markdown, "junit": to_junit}[kind]


def _list(profile: str) -> int:
    from unidev_conformance.running.catalog import all_checks

    out = console()
    for each in all_checks(profile):
        required = "required" if each.required else "optional"
        out.print(f"{each.id:<46} {required}  {each.summary}", markup=False)
    return 0


def _drawn(profile: str) -> tuple[str, ...]:
    """The calibration of the probe, without which no result counts, and a tenth of the rest."""
    import random

    from unidev_conformance.running.catalog import all_checks

    first, *rest = (each.id for each in all_checks(profile))
    return first, *random.sample(rest, max(1, len(rest) // 10))


def _selection(only: str | None, profile: str) -> tuple[str, ...] | None:
    from difflib import get_close_matches

    from unidev_conformance.running.catalog import all_checks

    if only is None:
        return None
    checks = all_checks(profile)
    found: list[str] = []
    for asked in filter(None, map(str.strip, only.split(","))):
        named = [each.id for each in checks if asked in (each.id, each.group)]
        if not named:
            groups = list(dict.fromkeys(each.group for each in checks))
            known = [*groups, *(each.id for each in checks)]
            near = " or ".join(get_close_matches(asked, known, n=3, cutoff=0.4))
            hint = f" Did you mean {near}?" if near else ""
            raise click.UsageError(
                f"profile {profile!r} has no check or group {asked!r}.{hint} Its groups are "
                f"{', '.join(groups)}; --list lists the checks."
            )
        found += named
    if not found:
        raise click.UsageError("--only names no check.")
    return tuple(dict.fromkeys(found))


def _is_given(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source is not ParameterSource.DEFAULT


def _need_launchers_options(name: str | None) -> None:
    """Refuse what is about the checks of a backend."""
    options = click.get_current_context().command.params
    names = [each.name for each in options if each.name not in (*_OF_LAUNCHERS, None, "name")]
    given = [f"--{each.replace('_', '-')}" for each in names if each and _is_given(each)]
    if name is not None or given:
        raise click.UsageError(
            f"--launcher judges a launcher: leave out {'NAME' if name is not None else given[0]}."
        )


def _need_profile(profile: str) -> None:
    from unidev_conformance.running.catalog import PROFILES

    if profile not in PROFILES:
        raise click.UsageError(
            f"there is no profile {profile!r}; choose from: {', '.join(PROFILES)}"
        )


def _need_different(outputs: dict[str, Path | None]) -> None:
    options: dict[Path, str] = {}
    for kind, path in outputs.items():
        if path is not None:
            option = "--report" if kind == "json" else f"--{kind}"
            other = options.setdefault(path.resolve(), option)
            if other != option:
                raise click.UsageError(f"{other} and {option} name the same file, {path}.")
