"""Other people's programs on two simulated GPUs: which of their own tests pass there?

    python tools/programs_of_others accelerate
    python tools/programs_of_others d2l --checkout FOLDER
    python tools/programs_of_others --table

Each suite has an environment of its own, is run with and without simulation, and its counts go into
``results.json``, from which ``--table`` writes the table of ``docs/simulated-cuda.md``. Exit code 1
if the run failed: a failure without a reason in ``suites.toml``, fewer tests than without
simulation, an end by a signal, or no JUnit file.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

if not __package__:  # Python puts the folder that it runs on the path, not the one above it.
    sys.path[0] = str(Path(__file__).parents[1])

from programs_of_others.counting import judge
from programs_of_others.environment import Environment
from programs_of_others.results import Results
from programs_of_others.running import Refusal, run_pytest
from programs_of_others.suites import Suite, read_suites

HERE = Path(__file__).parent


def main(words: list[str]) -> int:
    """Run one suite, or print the table."""
    suites = read_suites(HERE / "suites.toml")
    parser = _options(suites)
    asked = parser.parse_args(words)
    if bool(asked.suite) == asked.table:
        parser.error(f"name one suite ({', '.join(suites)}), or give --table")
    results = Results(asked.results)
    if asked.table:
        print(results.as_markdown())
        return 0
    try:
        return _run(suites[asked.suite], asked, results)
    except Refusal as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the suite's processes have ended, and no result is kept", flush=True)
        return 130


def _options(suites: dict[str, Suite]) -> argparse.ArgumentParser:
    listed = "\n".join(f"  {suite.name:12} {suite.about}" for suite in suites.values())
    parser = argparse.ArgumentParser(
        prog="python tools/programs_of_others",
        description=__doc__,
        epilog=f"suites:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suite", nargs="?", choices=[*suites], metavar="SUITE")
    parser.add_argument("--table", action="store_true", help="print the results of all suites")
    parser.add_argument(
        "--checkout", type=Path, metavar="FOLDER", help="what the suite is run from"
    )
    parser.add_argument(
        "--folder", type=Path, default=_cache(), help="for environments and sources (%(default)s)"
    )
    parser.add_argument("--results", type=Path, default=HERE / "results.json", metavar="FILE")
    parser.add_argument(
        "--recount", action="store_true", help="judge the last run by the reasons of now"
    )
    parser.add_argument("--only", metavar="EXPRESSION", help="pytest's -k; the result is not kept")
    return parser


def _cache() -> Path:
    given = os.environ.get("UNIDEV_CACHE")
    return (Path(given) if given else Path.home() / ".cache" / "unidev") / "programs_of_others"


def _run(suite: Suite, asked: argparse.Namespace, results: Results) -> int:
    environment = Environment(suite, asked.folder.resolve(), asked.checkout)
    if not asked.recount:
        environment.prepare()
    extra = ["-k", asked.only] if asked.only else []
    without = run_pytest(environment, simulated=False, kept=asked.recount, extra=extra)
    with_gpus = run_pytest(environment, simulated=True, kept=asked.recount, extra=extra)
    verdict = judge(suite, with_gpus, without)
    print(verdict.as_text())
    if not asked.only:
        results.keep(suite, verdict, environment.versions())
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
