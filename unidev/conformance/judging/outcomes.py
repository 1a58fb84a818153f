"""From how a check ended to what the suite says of it; and the errors that end one otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unidev.conformance.judging.expectations import Expectation
    from unidev.conformance.running.catalog import Check

_MOST_CHARACTERS = 2_000


class NotApplicableError(Exception):
    """This configuration has nothing that the check is about, such as a second device."""


class NotSupportedError(Exception):
    """The backend declares, and was held to it, that it cannot do what the check is about."""

    def __init__(self, reason: str, link: str | None = None) -> None:
        super().__init__(reason + (f" ({link})" if link else ""))


class InconclusiveError(Exception):
    """The probe's answer proves neither the one nor the other: an error, never a pass."""


@dataclass(frozen=True)
class Outcome:
    """One of ``events.CHILD_RESULTS``, and why."""

    result: str
    message: str = ""

    @property
    def is_good(self) -> bool:
        """Whether a backend with this result can conform."""
        return self.result in ("pass", "xfail", "unsupported", "not-applicable")


def outcome_of(
    check: Check, error: BaseException | None, when: str, expected: Expectation | None
) -> Outcome:
    """The outcome of ``check``, which ended with ``error``, or without one."""
    outcome = _plainly(check, error, when)
    if expected is None:
        return outcome
    if outcome.result in ("fail", "error"):
        return Outcome("xfail", f"{expected.described}. Seen: {outcome.message}")
    if outcome.result == "pass":
        return Outcome("xpass", f"passes, and was expected to fail: {expected.described}")
    return outcome


def _plainly(check: Check, error: BaseException | None, when: str) -> Outcome:
    if error is None:
        return Outcome("pass")
    if isinstance(error, NotApplicableError) and when == "call":
        return Outcome("not-applicable", str(error))
    if isinstance(error, NotSupportedError) and when == "call":
        if check.required and not check.needs:
            return Outcome("fail", f"required, and declared unsupported: {error}")
        return Outcome("unsupported", str(error))
    if isinstance(error, AssertionError) and when == "call":
        return Outcome("fail", _said(error))
    return Outcome("error", f"{type(error).__name__}: {_said(error)}")


def _said(error: BaseException) -> str:
    # Whatever hypothesis adds, such as the smallest example, comes as notes.
    notes = getattr(error, "__notes__", ())
    said = "\n".join([str(error) or "a bare assert", *notes])
    return said[:_MOST_CHARACTERS]
