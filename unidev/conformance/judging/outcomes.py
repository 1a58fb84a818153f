"""What a check can say besides pass and fail. There is no skipping: each of these has a reason."""

from __future__ import annotations


class NotApplicableError(Exception):
    """This configuration has nothing that the check is about, such as a second device."""


class NotSupportedError(Exception):
    """The backend declares, and was held to it, that it cannot do what the check is about."""

    def __init__(self, reason: str, link: str | None = None) -> None:
        super().__init__(reason + (f" ({link})" if link else ""))


class InconclusiveError(Exception):
    """The probe's answer proves neither the one nor the other: an error, never a pass."""
