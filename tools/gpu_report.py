"""Report on unidev on this machine's GPUs: ``python tools/gpu_report.py OUT``.

Needs unidev's dependencies, pytest, hypothesis and one framework; neither an installed unidev nor a
network. Each step runs in a process with a limit. OUT gets ``gpu-report.json`` and
``gpu-report.md`` after each step, and the next run with the same OUT continues where this one
stopped. Exit code 0: every step passed, or gave the reason why it did not run; 1: a step failed; 2:
wrong usage; 3: steps are left; 130: interrupted.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT)]

from hardware_report import document, hardware_page, running  # noqa: E402  needs the path above
from hardware_report.markdown import counted  # noqa: E402
from hardware_report.plan import STEPS, read_list, steps_of  # noqa: E402

from unidev.support.child_processes import noticing_interruption  # noqa: E402

EXIT_CODES = {document.PASS: 0, "fail": 1, document.INCOMPLETE: 3}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="gpu_report.py", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    made.add_argument("out", nargs="?", type=Path, metavar="OUT", help="the folder for both files")
    made.add_argument("--backend", default="torch", help="the framework to use (default: torch)")
    made.add_argument("--short", action="store_true", help="a few minutes instead of an hour")
    made.add_argument(
        "--only", action="append", default=[], metavar="STEP",
        help="run only this step, or a subject such as copies; again, if it has a result",
    )  # fmt: skip
    made.add_argument("--fresh", action="store_true", help="discard the results in OUT")
    made.add_argument(
        "--seconds", type=float, default=math.inf, metavar="S",
        help="stop after this many seconds; run again to continue",
    )  # fmt: skip
    made.add_argument("--commit", help="the commit of these sources, where there is no git to ask")
    made.add_argument(
        "--stand-in", type=Path, metavar="LIST",
        help="this machine has a stand-in for a GPU; LIST names steps that it cannot run, and why",
    )  # fmt: skip
    made.add_argument(
        "--simulate", type=int, default=0, metavar="N",
        help="use N simulated GPUs, to try the report itself: it shows nothing about hardware",
    )  # fmt: skip
    made.add_argument("--list", action="store_true", help="list the steps, and run nothing")
    made.add_argument(
        "--page", action="store_true", help="write docs/hardware.md from docs/hardware/*.json"
    )
    return made


def main(words: list[str] | None = None) -> int:
    """Run the command."""
    options = parser().parse_args(words)
    if options.list:
        for step in STEPS:
            print(
                f"{step.name:32}{'' if step.short is not None else '(not in --short) '}{step.title}"
            )
        return 0
    if options.page:
        hardware_page.write()
        return 0
    if options.out is None:
        parser().error("name the folder for the report")
    return _report(options)


def _report(options: argparse.Namespace) -> int:
    began = time.monotonic()
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    planned = [each.name for each in steps_of(is_short=options.short)]
    new = document.new_report(
        options.backend, planned, is_short=options.short,
        is_stand_in=options.stand_in is not None or options.simulate > 0, commit=options.commit,
    )  # fmt: skip
    try:
        left_out = {} if options.stand_in is None else read_list(options.stand_in, planned)
        report = new if options.fresh else document.resumed(new, out)
        wanted = chosen(options.only, planned)
    except (document.ReportError, OSError) as error:
        parser().error(str(error))
    if options.only:
        report["results"] = [each for each in report["results"] if each["step"] not in wanted]
    with noticing_interruption() as stop:
        orders = running.Orders(
            out, wanted, left_out, began + options.seconds, stop, options.simulate
        )
        running.run(report, orders, _say)
    if stop:
        return stop.exit_code
    _say(f"{report['verdict']}: {counted(report)}; {out / document.MARKDOWN_NAME}")
    return EXIT_CODES[report["verdict"]]


def chosen(only: list[str], planned: list[str]) -> set[str]:
    """The steps to run: those named, or all."""
    if not only:
        return set(planned)
    found = {
        name for name in planned for each in only if name == each or name.startswith(f"{each}.")
    }
    if not found:
        raise document.ReportError(f"no step is called {' or '.join(only)}; see --list")
    return found


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
