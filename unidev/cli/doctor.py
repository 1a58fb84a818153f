"""``unidev doctor``: why is there no GPU, or why is it not used?"""

from __future__ import annotations

import json
import os

import click

from unidev.cli.options import timeout
from unidev.cli.output import console, say

_HELP = """
Why is there no GPU, or why is it not used? Prints the causes in the order in which to fix them,
each with the evidence and what to do.

Each framework is imported in its own process, all at the same time. No GPU is used or initialised.

\b
Exit codes:
  0    every installed framework sees every GPU that the driver sees
  1    some GPU is not seen, or there is no GPU
  2    wrong usage
  130  interrupted by Ctrl-C

\b
Examples:
  unidev doctor
  unidev doctor --backend torch
  unidev doctor --json
"""


@click.command(name="doctor", help=_HELP)
@click.option("--json", "is_json", is_flag=True, help="Print everything as JSON.")
@click.option("--backend", metavar="NAME", help="Check only this backend's framework.")
@timeout(180.0, "Seconds after which a framework counts as hung.")
def command(*, is_json: bool, backend: str | None, timeout_s: float) -> int:
    """Examine, then report."""
    from unidev.doctor.diagnosis import diagnose, is_healthy
    from unidev.doctor.examination import UnknownBackendError, examine
    from unidev.system.child_processes import noticing_interruption

    with noticing_interruption() as stop:
        try:
            case = examine(os.environ, backend, timeout_s, stop)
        except UnknownBackendError as error:
            raise click.UsageError(str(error)) from error
    if stop:
        return stop.exit_code
    findings = diagnose(case)
    if is_json:
        from unidev.doctor.document import to_document

        say(json.dumps(to_document(case, findings), indent=1, ensure_ascii=False))
    else:
        from unidev.doctor.text import print_diagnosis

        print_diagnosis(case, findings, console())
    return 0 if is_healthy(case, findings) else 1
