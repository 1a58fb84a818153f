"""Counts from JUnit files, and the rules by which a run is good."""

from __future__ import annotations

import re
import signal
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from programs_of_others.running import Run
    from programs_of_others.suites import Reason, Suite

CRASHES = re.compile(
    r"SIG(?:SEGV|ABRT|BUS|FPE|ILL)\b|Segmentation fault"
    r"|\b(?:exit ?code:?|but got) -(?:4|6|7|8|11)\b",
    re.IGNORECASE,
)
"""What reports of a test say where a process that it started has crashed."""
ORDER = ("skipped", "passed", "failed")
"""From the best to the worst, of what one test's elements say."""
OUTSIDE = ("network", "card", "files")
"""Kinds of failure that say nothing of the simulator."""


@dataclass(frozen=True)
class Failure:
    """A test that failed."""

    test: str
    text: str
    reason: Reason | None

    @property
    def crashed(self) -> bool:
        """Whether a process of it ended by a signal."""
        return CRASHES.search(self.text) is not None


@dataclass(frozen=True)
class Counts:
    """What one JUnit file says."""

    passed: int
    failed: tuple[tuple[str, str], ...]
    skips: tuple[str, ...]
    """For each skipped test what it says."""

    @property
    def collected(self) -> int:
        """All tests, however they ended."""
        return self.passed + len(self.failed) + self.skipped

    @property
    def skipped(self) -> int:
        """The number of tests that said so."""
        return len(self.skips)

    def numbers_by_skip(self) -> dict[str, int]:
        """How many tests were skipped with each message."""
        return dict(Counter(" ".join(each.split()) for each in self.skips))


@dataclass(frozen=True)
class Verdict:
    """A suite's result: its counts, its failures with their reasons, and what makes it bad."""

    with_gpus: Counts
    without: Counts
    failures: tuple[Failure, ...]
    complaints: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Whether nothing is left to explain."""
        return not self.complaints

    @property
    def share(self) -> float:
        """The part that passes, of tests that were run and need neither network nor a real card."""
        outside = sum(
            each.reason is not None and each.reason.whose in OUTSIDE for each in self.failures
        )
        judged = self.with_gpus.passed + len(self.failures) - outside
        return self.with_gpus.passed / judged if judged else 0.0

    def as_text(self) -> str:
        """Counts of both runs, each failure, and the complaints."""
        lines = [
            f"{name}: {each.passed} passed, {len(each.failed)} failed, {each.skipped} skipped"
            for name, each in (("with", self.with_gpus), ("without", self.without))
        ]
        lines.append(f"{100 * self.share:.1f} % of what needs neither network nor a real card")
        for failure in self.failures:
            reason = failure.reason
            lines.append(
                f"  {failure.test}: " + (f"{reason.whose}: {reason.why}" if reason else "NO REASON")
            )
        lines += [f"FAILED: {complaint}" for complaint in self.complaints]
        return "\n".join(lines)


def judge(suite: Suite, with_gpus: Run, without: Run) -> Verdict:
    """The verdict on two runs of a suite."""
    complaints: list[str] = []
    counted: list[Counts] = []
    for name, run in (("with", with_gpus), ("without", without)):
        ended = _signal(run.exit_code)
        if ended:
            complaints.append(f"the run {name} simulated GPUs ended by {ended}: {run.log}")
        counts = read_junit(run.junit)
        if counts is None:
            complaints.append(f"the run {name} simulated GPUs left no JUnit file: {run.log}")
        counted.append(counts or Counts(0, (), ()))
    found, before = counted
    if found.collected < before.collected:
        complaints.append(
            f"collected {found.collected} tests, {before.collected} without simulation"
        )
    if not found.collected:
        complaints.append("collected no tests")
    failures = tuple(
        Failure(test, text, next((each for each in suite.failing if each.is_about(test)), None))
        for test, text in found.failed
    )
    for failure in failures:
        if failure.crashed:
            complaints.append(f"{failure.test}: a process ended by a signal")
        elif failure.reason is None:
            complaints.append(f"{failure.test}: no reason in suites.toml")
    return Verdict(found, before, failures, tuple(complaints))


def read_junit(path: Path) -> Counts | None:
    """The counts of a file that pytest wrote, or None if there is none, or half of one."""
    try:
        root = ET.parse(path).getroot()
    except (FileNotFoundError, ET.ParseError):
        return None
    # A test with an error in its teardown has two elements: it is counted once, by the worst.
    kinds: dict[str, str] = {}
    texts: dict[tuple[str, str], str] = {}
    for case in root.iter("testcase"):
        name = "::".join(filter(None, [case.get("classname", ""), case.get("name", "")]))
        kind, text = _kind(case)
        kinds[name] = max(kinds.get(name, kind), kind, key=ORDER.index)
        texts[name, kind] = texts.get((name, kind), "") + text
    found = {kind: [name for name, each in kinds.items() if each == kind] for kind in ORDER}
    return Counts(
        len(found["passed"]),
        tuple((name, texts[name, "failed"]) for name in found["failed"]),
        tuple(texts[name, "skipped"] for name in found["skipped"]),
    )


def _kind(case: ET.Element) -> tuple[str, str]:
    bad = [child for child in case if child.tag in {"failure", "error"}]
    if bad:
        return "failed", "\n".join(f"{each.get('message', '')}\n{each.text or ''}" for each in bad)
    skipped = case.find("skipped")
    return ("passed", "") if skipped is None else ("skipped", skipped.get("message", ""))


def _signal(exit_code: int) -> str:
    """The signal's name, also where a shell or ``unidev simulate`` passed it on as 128 + n."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
