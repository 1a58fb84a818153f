"""From how a check ended to its outcome; and the errors that end one without pass or fail.

A backend declines an ability with ``unsupported(reason)`` in its place, whose every use raises
``UnsupportedOperation``: such a check ends as unsupported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unidev.backends.description import resolve
from unidev.contract.backend import Unsupported
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from unidev.contract.backend import Backend
    from unidev_conformance.judging.check import Check
    from unidev_conformance.judging.expectations import Expectation

_MOST_CHARACTERS = 5_000
"""A program of a few lines, with what it defines, fits."""


class NotApplicableError(Exception):
    """The configuration lacks what the check is about, such as a second device."""


class NotSupportedError(Exception):
    """The backend verifiably declares that it does not support what the check is about."""

    def __init__(self, reason: str, link: str | None = None) -> None:
        super().__init__(reason + (f" ({link})" if link else ""))


class InconclusiveError(Exception):
    """The probe's answer proves neither a pass nor a failure: an error, never a pass."""


@dataclass(frozen=True)
class Outcome:
    """One of ``events.CHILD_RESULTS``, and the reason."""

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
        return Outcome("xpass", f"passes, but was expected to fail: {expected.described}")
    return outcome


def _plainly(check: Check, error: BaseException | None, when: str) -> Outcome:
    if error is None:
        return Outcome("pass")
    if isinstance(error, NotApplicableError) and when == "call":
        return Outcome("not-applicable", str(error))
    if isinstance(error, NotSupportedError) and when == "call":
        if check.required and not check.needs:
            return Outcome("fail", f"required, but declared unsupported: {error}")
        return Outcome("unsupported", str(error))
    if isinstance(error, AssertionError) and when == "call":
        return Outcome("fail", _said(error))
    return Outcome("error", f"{type(error).__name__}: {_said(error)}")


def _said(error: BaseException) -> str:
    # Hypothesis adds information, such as the smallest example, as notes.
    notes = getattr(error, "__notes__", ())
    said = "\n".join([str(error) or "a bare assert", *notes])
    return said[:_MOST_CHARACTERS]


def require_ability(backend: Backend, name: str) -> None:
    """Return if ``backend`` has the ability.

    Raises:
        NotSupportedError: it declines.
        AssertionError: it declines by an object that may do what it declines.
    """
    ability = resolve(backend, name)
    if isinstance(ability, Unsupported):
        if type(ability) is not Unsupported:
            raise AssertionError(
                f"{name} is declared unsupported ({ability.reason}) by a {type(ability).__name__}, "
                "which may work: declare it with unidev.unsupported(reason)"
            )
        raise NotSupportedError(ability.reason, ability.link)
    if name == "probe.allocated_bytes":  # the default uses the C library, and may decline then
        try:
            ability(backend.cpu)
        except UnsupportedOperation as refusal:
            raise NotSupportedError(refusal.reason, refusal.link) from refusal
