"""``unidev conform --launcher``: judge a launcher of ``unidev.run``."""

from __future__ import annotations

import click

from unidev.cli.options import in_options
from unidev.cli.output import console, say

NONE = 4


def judge_launcher(  # noqa: PLR0913  one for each option
    launcher: str,
    backend: str,
    address: str | None,
    *,
    only: str | None,
    is_list: bool,
    timeout_s: float,
    fail_fast: bool,
) -> int:
    """Judge the launcher, or list its checks; returns the exit code."""
    from unidev.system.child_processes import noticing_interruption
    from unidev.system.wording import count_text
    from unidev_conformance.launching.checks import CHECKS, Subject
    from unidev_conformance.launching.judging import judged, summary

    out = console()
    if is_list:
        for check in CHECKS:
            out.print(f"{check:<12} {summary(check)}", markup=False)
        return 0
    checks = _selection(only, [*CHECKS])
    problem = _missing(launcher, backend, address)
    if problem is not None:
        say(f"unidev: {problem}", err=True)
        return NONE
    failed = 0
    with noticing_interruption() as stop:
        for found in judged(Subject(launcher, backend, address), checks, timeout_s, stop):
            if found.is_missing:
                break
            word = "pass" if found.problem is None else "FAIL"
            out.print(
                f"{word}  {found.check:<12} {found.seconds:6.1f} s  {summary(found.check)}",
                markup=False,
            )
            if found.problem is not None:
                failed += 1
                out.print("\n".join(f"      {x}" for x in found.problem.splitlines()), markup=False)
                if fail_fast:
                    break
    if stop:
        return stop.exit_code
    verdict = (
        "conforms" if not failed else f"does not conform: {count_text(failed, 'check')} failed"
    )
    which = "" if only is None else ", in the selected checks"
    out.print(f"the launcher {launcher} {verdict}{which} (workers of {backend})", markup=False)
    return int(failed > 0)


def _missing(launcher: str, backend: str, address: str | None) -> str | None:
    """Why there is nothing to judge, or None."""
    from unidev.backends.discovery import backend_spec
    from unidev.errors import UnidevError
    from unidev.parallel.launchers.finding import launcher_class

    try:
        backend_spec(backend)
        launcher_class(launcher, address)
    except UnidevError as error:
        return in_options(str(error))
    return None


def _selection(only: str | None, known: list[str]) -> list[str]:
    if only is None:
        return known
    asked = list(filter(None, map(str.strip, only.split(","))))
    for each in asked:
        if each not in known:
            raise click.UsageError(f"no check of launchers is {each!r}: {', '.join(known)}")
    if not asked:
        raise click.UsageError("--only names no check.")
    return [each for each in known if each in asked]
