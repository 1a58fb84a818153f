"""The results of all suites, in a file, and as a table."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from programs_of_others.counting import Counts, Verdict
    from programs_of_others.suites import Suite

HEAD = """\
| suite | passed | failed | skipped | without simulation | % |
|---|---|---|---|---|---|
"""


class Results:
    """The file ``results.json``: one entry for each suite, that of its last run."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def keep(self, suite: Suite, verdict: Verdict, versions: dict[str, str]) -> None:
        """Replace the suite's entry."""
        entries = self._read()
        entries[suite.name] = {
            "about": suite.about,
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
            "versions": versions,
            "with": _counts(verdict.with_gpus),
            "without": _counts(verdict.without),
            "percent": round(100 * verdict.share, 1),
            "failures": [
                {
                    "test": each.test,
                    "whose": each.reason.whose if each.reason else "",
                    "why": each.reason.why if each.reason else "",
                }
                for each in verdict.failures
            ],
            "skips": verdict.with_gpus.numbers_by_skip(),
            "left_out": [vars(each) for each in suite.left_out],
            "complaints": list(verdict.complaints),
        }
        text = json.dumps(entries, indent=1, ensure_ascii=False, sort_keys=True)
        self._path.write_text(f"{text}\n", encoding="utf-8")

    def as_markdown(self) -> str:
        """The table, and under it the reasons."""
        entries = self._read()
        rows, reasons = [], []
        for name, entry in entries.items():
            found, before = entry["with"], entry["without"]
            versions = ", ".join(f"{each} {number}" for each, number in entry["versions"].items())
            rows.append(
                f"| {entry['about']} ({versions}; {entry['date']}) | {found['passed']} "
                f"| {found['failed']} | {found['skipped']} | {before['passed']} passed, "
                f"{before['failed']} failed, {before['skipped']} skipped | {entry['percent']:g} |"
            )
            reasons += _reasons(name, entry)
        return HEAD + "\n".join(rows) + "\n\n" + "\n".join(reasons)

    def _read(self) -> dict[str, Any]:
        if not self._path.is_file():
            return {}
        entries: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
        return entries


def _counts(counts: Counts) -> dict[str, int]:
    return {"passed": counts.passed, "failed": len(counts.failed), "skipped": counts.skipped}


def _reasons(name: str, entry: dict[str, Any]) -> list[str]:
    """A line for each reason: of failures and skips, with their number, and of what is left out."""
    numbers: dict[tuple[str, str], int] = {}
    for each in entry["failures"]:
        key = (each["whose"] or "unexplained", each["why"] or each["test"])
        numbers[key] = numbers.get(key, 0) + 1
    lines = [
        f"- {name}, {number} failed, {whose}: {why}" for (whose, why), number in numbers.items()
    ]
    skips = sorted(entry.get("skips", {}).items(), key=lambda pair: (-pair[1], pair[0]))
    if skips:
        listed = "; ".join(f"{why or 'without a word'} ({number})" for why, number in skips)
        lines.append(f"- {name}, {entry['with']['skipped']} skipped, in its words: {listed}")
    lines += [f"- {name}, left out, {each['whose']}: {each['why']}" for each in entry["left_out"]]
    return list(dict.fromkeys(lines))
