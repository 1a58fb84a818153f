"""What a step finds: expectations that hold or not, remarks, tables and facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PASS, FAIL, NOT_RUN = "pass", "fail", "not run"
VERDICTS = (PASS, FAIL, NOT_RUN)
MOST_MISSED = 12
"""Further expectations that do not hold are counted, not listed."""


class NotRunError(Exception):
    """This step cannot run here; the message is the reason."""


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


class Findings:
    """Collects what a step finds."""

    def __init__(self) -> None:
        self._outcome = Outcome(PASS)
        self._expected = 0
        self._missed: list[str] = []

    def expect(self, holds: bool, said: str) -> bool:
        """Count an expectation; ``said`` describes what was found if it does not hold."""
        self._expected += 1
        if not holds:
            self._missed.append(said)
        return holds

    def remark(self, said: str) -> None:
        """Report an observation that does not affect the verdict."""
        self._outcome.remarks.append(said)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Report a table."""
        cells = [[str(cell) for cell in row] for row in rows]
        self._outcome.tables.append({"title": title, "columns": list(columns), "rows": cells})

    def keep(self, **facts: Any) -> None:
        """Keep plain values in the report, by name."""
        self._outcome.facts.update(facts)

    def outcome(self) -> Outcome:
        """The verdict: a step passes if it expected something, and all of that holds."""
        if not self._expected:
            self._missed.append("the step judged nothing")
        if self._missed:
            more = f" (and {len(self._missed) - 1} more)" if len(self._missed) > 1 else ""
            self._outcome.verdict = FAIL
            self._outcome.reason = f"{self._missed[0]}{more}"
            self._outcome.remarks[:0] = self._missed[1:MOST_MISSED]
        else:
            self.remark(f"expectations that hold: {self._expected}")
        return self._outcome
