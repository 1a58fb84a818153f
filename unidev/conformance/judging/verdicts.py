"""From how a check ended to what the suite says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unidev.conformance.judging.outcomes import NotApplicableError, NotSupportedError

if TYPE_CHECKING:
    from unidev.conformance.judging.expectations import Expectation
    from unidev.conformance.running.catalog import Check

_MOST_CHARACTERS = 2_000


@dataclass(frozen=True)
class Verdict:
    """One of ``events.CHILD_RESULTS``, and why."""

    result: str
    message: str = ""

    @property
    def is_good(self) -> bool:
        """Whether a backend with this result can conform."""
        return self.result in ("pass", "xfail", "unsupported", "not-applicable")


def judged(
    check: Check, error: BaseException | None, when: str, expected: Expectation | None
) -> Verdict:
    """The verdict on ``check``, which ended with ``error``, or without one."""
    verdict = _plainly(check, error, when)
    if expected is None:
        return verdict
    if verdict.result in ("fail", "error"):
        return Verdict("xfail", f"{expected.described}. Seen: {verdict.message}")
    if verdict.result == "pass":
        return Verdict("xpass", f"passes, and was expected to fail: {expected.described}")
    return verdict


def _plainly(check: Check, error: BaseException | None, when: str) -> Verdict:
    if error is None:
        return Verdict("pass")
    if isinstance(error, NotApplicableError) and when == "call":
        return Verdict("not-applicable", str(error))
    if isinstance(error, NotSupportedError) and when == "call":
        if check.required and not check.needs:
            return Verdict("fail", f"required, and declared unsupported: {error}")
        return Verdict("unsupported", str(error))
    if isinstance(error, AssertionError) and when == "call":
        return Verdict("fail", _said(error))
    return Verdict("error", f"{type(error).__name__}: {_said(error)}")


def _said(error: BaseException) -> str:
    # Whatever hypothesis adds, such as the smallest example, comes as notes.
    notes = getattr(error, "__notes__", ())
    said = "\n".join([str(error) or "a bare assert", *notes])
    return said[:_MOST_CHARACTERS]
