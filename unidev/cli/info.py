"""``unidev info``: plugins, frameworks and devices, and which backend is chosen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from unidev.cli.options import timeout
from unidev.cli.output import console, say

_HELP = """
Show every plugin, its framework and its devices, which backend is chosen and why, and what fails
to load and how to fix it.

Each framework is imported in its own process, all at the same time, so that one that crashes, hangs
or prints something unexpected affects only its own line.

\b
Exit codes:
  0    shown; also if a plugin is broken, which --json and the table report
  1    --check: the table in FILE is outdated, or a plugin did not load; --watch: no GPU
  2    wrong usage
  130  interrupted by Ctrl-C

\b
Examples:
  unidev info
  unidev info --verbose                        with tracebacks of failures
  unidev info --watch                          memory, utilisation, power, temperature of GPUs
  UNIDEV_SIMULATE=4 unidev info --json
  unidev info --capabilities                   what each backend can and cannot do
  unidev info --capabilities --markdown
  unidev info --capabilities --update docs/capabilities.md
"""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(name="info", help=_HELP)
@click.option("--json", "is_json", is_flag=True, help="Print everything as JSON.")
@click.option(
    "--watch", "is_watch", is_flag=True,
    help="Show only NVIDIA's GPUs, every two seconds until Ctrl-C; in a terminal.",
)  # fmt: skip
@click.option("--capabilities", is_flag=True, help="Show what each backend can and cannot do.")
@click.option("--markdown", is_flag=True, help="With --capabilities: as a Markdown table.")
@click.option(
    "--update", type=_FILE, metavar="FILE",
    help="With --capabilities: put the table into FILE, between <!-- capabilities --> markers; "
    "columns of backends that are not installed stay.",
)  # fmt: skip
@click.option(
    "--check", type=_FILE, metavar="FILE",
    help="Like --update, but only check whether it is up to date.",
)  # fmt: skip
@timeout(180.0, "Seconds after which a framework counts as hung.")
@click.option("-v", "--verbose", is_flag=True, help="Print tracebacks.")
def command(  # noqa: PLR0913  one for each option
    *,
    is_json: bool,
    is_watch: bool,
    capabilities: bool,
    markdown: bool,
    update: Path | None,
    check: Path | None,
    timeout_s: float,
    verbose: bool,
) -> int:
    """Gather, then print."""
    file = update or check
    if (markdown or file) and not capabilities:
        raise click.UsageError("--markdown, --update and --check require --capabilities.")
    if is_json and (markdown or file):
        raise click.UsageError("--json excludes --markdown, --update and --check.")
    if is_watch:
        if is_json or capabilities or verbose:
            raise click.UsageError("--watch excludes --json, --capabilities and --verbose.")
        return _watch()
    from unidev.cli.facts import gather
    from unidev.system.child_processes import noticing_interruption

    with noticing_interruption() as stop:
        document = gather(timeout_s, stop)
    if stop:
        return stop.exit_code
    if file:
        return _in_file(document, file, is_check=check is not None)
    if is_json:
        say(json.dumps(document, indent=1, ensure_ascii=False))
    elif capabilities:
        _print_capabilities(document, markdown=markdown)
    else:
        from unidev.cli.info_table import print_info

        print_info(document, console(), verbose=verbose)
    return 0


def _watch() -> int:
    from unidev.cli.gpus import watch

    shown = console()
    if not shown.is_terminal or shown.is_dumb_terminal:
        raise click.UsageError(
            "--watch needs a terminal that it can update; `unidev info --json` has the same values."
        )
    return watch(shown)


def _print_capabilities(document: dict[str, Any], *, markdown: bool) -> None:
    from unidev.cli.capability_table import to_markdown
    from unidev.cli.info_table import print_capabilities

    _report_left_out(document)
    if markdown:
        say(to_markdown(document), nl=False)
    else:
        print_capabilities(document, console())


def _in_file(document: dict[str, Any], path: Path, *, is_check: bool) -> int:
    from unidev.cli.capability_table import MarkersError, update

    if _report_left_out(document):
        # Updating without a backend that fails to load now would erase its column.
        say(f"unidev: {path} was not changed.", err=True)
        return 1
    try:
        was_current = update(path, document, is_check=is_check)
    except MarkersError as error:
        raise click.UsageError(str(error)) from error
    if is_check and not was_current:
        say(
            f"unidev: the table in {path} is outdated; run: "
            f"unidev info --capabilities --update {path}",
            err=True,
        )
        return 1
    return 0


def _report_left_out(document: dict[str, Any]) -> bool:
    settled = ("works", "disabled", "refused")
    left_out = [each for each in document["plugins"] if each["state"] not in settled]
    for each in left_out:
        name = each["backend"] or each["plugin"]
        say(f"unidev: left out: {name} ({each['state']}): {each['problem']}", err=True)
    return bool(left_out)
