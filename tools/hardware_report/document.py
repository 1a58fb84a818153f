"""``gpu-report.json``: written after each step, and read to resume."""

from __future__ import annotations

import datetime
import hashlib
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unidev.support.atomic_file import write_whole
from unidev.support.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Report = dict[str, Any]

ROOT = Path(__file__).parents[2]
"""unidev's checkout."""
FORMAT, VERSION = "unidev-gpu-report", 2
PASS, FAIL, NOT_RUN = "pass", "fail", "not run"
VERDICTS = (PASS, FAIL, NOT_RUN)
JSON_NAME, MARKDOWN_NAME = "gpu-report.json", "gpu-report.md"
INCOMPLETE = "incomplete"

_SOURCES = ("unidev", "plugins", "tools", "examples", "benchmarks")
_IDENTITY = ("format", "version", "backend", "short", "stand_in", "commit", "sources", "planned")
"""A report is resumed only where these are the same."""


class ReportError(ValueError):
    """A file that is not a report, or is the report of something else."""


@dataclass
class Outcome:
    """The verdict of a step, and what it is based on; plain values, for JSON."""

    verdict: str
    reason: str | None = None
    """Why it fails or did not run; None for a pass."""
    remarks: list[str] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    """Each has a ``title``, ``columns`` and ``rows``, whose cells are text."""
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.verdict == PASS) is not (self.reason is None):
            raise ValueError(f"all but a pass have a reason: {self}")

    def add_table(
        self, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]
    ) -> None:
        """Report a table."""
        cells = [[str(cell) for cell in row] for row in rows]
        self.tables.append({"title": title, "columns": list(columns), "rows": cells})


def judged(problems: Sequence[str]) -> Outcome:
    """A pass, or a failure for the first of these reasons, with the others as remarks."""
    if not problems:
        return Outcome(PASS)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Outcome(FAIL, f"{problems[0]}{more}", list(problems[1:]))


def new_report(
    backend: str, planned: Sequence[str], *, is_short: bool, is_stand_in: bool, commit: str | None
) -> Report:
    """A report without results."""
    found, is_dirty = _commit()
    return {
        "format": FORMAT,
        "version": VERSION,
        "backend": backend,
        "short": is_short,
        "stand_in": is_stand_in,
        "commit": found or commit,
        "dirty": is_dirty,
        "sources": digest(_sources()),
        "unidev": __version__,
        "started": _now(),
        "changed": _now(),
        "verdict": INCOMPLETE,
        "planned": list(planned),
        "machines": {},
        "results": [],
    }


def resumed(new: Report, folder: Path) -> Report:
    """The report in ``folder``, if there is one, else ``new``.

    Raises:
        ReportError: it is the report of something else, such as another commit.
    """
    file = folder / JSON_NAME
    if not file.exists():
        return new
    old = read(file)
    differing = [name for name in _IDENTITY if old[name] != new[name]]
    if differing:
        raise ReportError(
            f"{file} was begun with other {', '.join(differing)}: name an empty folder, or pass "
            "--fresh to discard it"
        )
    return old


def read(file: Path) -> Report:
    """The report in ``file``.

    Raises:
        ReportError: it is not one of this version.
    """
    try:
        report: Report = json.loads(file.read_text(encoding="utf-8"))
        if (report["format"], report["version"]) != (FORMAT, VERSION):
            raise ReportError(f"{file} is not a report of this version")
    except (ValueError, LookupError, TypeError) as error:
        raise ReportError(f"{file} is not a report of this version: {error}") from error
    return report


def record(report: Report, result: dict[str, Any]) -> None:
    """Add a result, in the place of an earlier one of the same step."""
    results = [each for each in report["results"] if each["step"] != result["step"]]
    order = report["planned"]
    report["results"] = sorted([*results, result], key=lambda each: order.index(each["step"]))
    report["verdict"] = verdict(report)
    report["changed"] = _now()


def verdict(report: Report) -> str:
    """``incomplete`` until each step has a result; then ``fail`` if one fails, else ``pass``.

    A report in which no step passes shows nothing, and does not pass.
    """
    found = {each["step"]: each["verdict"] for each in report["results"]}
    if set(found) != set(report["planned"]):
        return INCOMPLETE
    return PASS if FAIL not in found.values() and PASS in found.values() else FAIL


def left(report: Report) -> list[str]:
    """The steps that have no result."""
    done = {each["step"] for each in report["results"]}
    return [name for name in report["planned"] if name not in done]


def write(report: Report, folder: Path) -> None:
    """Write the JSON, completely or not at all."""
    text = json.dumps(report, indent=1, ensure_ascii=False)
    write_whole(folder / JSON_NAME, text + "\n")


def digest(files: Iterable[Path]) -> str:
    """A digest of the files' names and contents: it differs if any was changed."""
    whole = hashlib.sha256()
    for file in sorted(files):
        name = file.relative_to(ROOT).as_posix()
        whole.update(f"{name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def _sources() -> list[Path]:
    return [
        file
        for folder in _SOURCES
        for file in (ROOT / folder).rglob("*")
        if file.suffix in (".py", ".cpp", ".c", ".h", ".json", ".toml", ".jinja", ".expected")
    ]


def _commit() -> tuple[str | None, bool | None]:
    """The commit of the checkout, and whether files differ from it; None: git does not tell."""
    try:
        commit = _git("rev-parse", "HEAD").strip()
        return commit, bool(_git("status", "--porcelain").strip())
    except (OSError, subprocess.CalledProcessError):  # no git, or not a checkout
        return None, None


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
