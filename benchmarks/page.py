"""Write the tables of docs/benchmarks.md: run each program, with one date and one machine.

A table stands between ``<!-- table: PROGRAM -->``, of one program or several, and ``<!-- end -->``,
the date and the machine after ``<!-- measured -->``. A table of which nothing can be measured here
stays, with a date and a machine of its own. If a program fails, the page is not written.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from program import ABSENT, GRACE_S, HEADER, RULE, ended_by, machine, output_of, parser_of, versions

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs/benchmarks.md"
REGION = re.compile(r"(<!-- (measured|table: [\w ]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
LACK = re.compile(rf"(\w+): (?:its plugin is )?{ABSENT}")
LINE = re.compile(r"\| |\w+: ")
"""A row, or what was not measured."""


def main() -> int:
    """Measure, and write the page."""
    parser = parser_of(__doc__ or "")
    parser.add_argument("--page", type=Path, default=PAGE, help="default: docs/benchmarks.md")
    parser.add_argument(
        "--python", action="append", type=Path, default=[], metavar="FILE", help="of another "
        "environment, for frameworks that this one lacks, as some exclude each other",
    )  # fmt: skip
    parser.add_argument("--machine", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.machine:
        print(machine(), versions(), sep=": ")
        return 0
    pythons = [Path(sys.executable), *options.python]
    for file in (options.page, *pythons):
        if not file.is_file():
            parser.error(f"no such file: {file}")
    text = options.page.read_text(encoding="utf-8")
    old = {what: body for _, what, body, _ in REGION.findall(text)}
    new = {"measured": _machine_of(pythons)}
    failed = []
    for what in list(old)[1:]:
        rows = []
        for program in what.split()[1:]:
            code, lines = _measured(program, pythons, options.rounds)
            failed += [program] * bool(code)
            rows += [line for line in lines if line.startswith("| ")]
            print(*(f"{program}: {each}" for each in lines if each not in rows), sep="\n")
        if rows:
            new[what] = "\n".join(["", HEADER, RULE, *rows, "", ""])
        elif " cores" not in old[what]:  # the machine
            new[what] = old["measured"] + old[what].lstrip("\n")
    if failed:
        print(f"{options.page} is as it was: {', '.join(failed)} failed")
        return 1
    text = REGION.sub(lambda found: found[1] + new.get(found[2], found[3]) + found[4], text)
    options.page.write_text(text, encoding="utf-8")
    print(f"{options.page} is written")
    return 0


def _machine_of(pythons: list[Path]) -> str:
    """The date, the machine, and the versions in each environment."""
    found = [_output(python, "page", "--machine")[1].strip() for python in pythons]
    there = ";\n".join([found[0], *(each.partition(": ")[2] for each in found[1:])])
    return f"\nMeasured on {there}.\n\n"


def _measured(program: str, pythons: list[Path], rounds: int | None) -> tuple[int, list[str]]:
    """The exit code of a program, the rows of its table, and lines on what it did not measure."""
    options = [f"--rounds={rounds}"] * bool(rounds)
    lines: list[str] = []
    chosen: list[str] = []
    for python in pythons:
        code, printed = _output(python, program, *options, *chosen)
        lines = [line for line in lines if not LACK.match(line)]
        lines += [each for each in printed.splitlines() if LINE.match(each) and each != HEADER]
        chosen = [f"--backend={lack[1]}" for lack in map(LACK.match, lines) if lack]
        if code or not chosen:
            return code, lines
    return 0, lines


def _output(python: Path, program: str, *options: str) -> tuple[int, str]:
    # Ctrl-C: a program waits for its own children.
    command = [str(python), str(HERE / f"{program}.py"), *options]
    return output_of(command, {}, grace_s=GRACE_S + 5)


if __name__ == "__main__":
    ended_by(main)
