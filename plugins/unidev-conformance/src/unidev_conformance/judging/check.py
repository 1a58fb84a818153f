"""``Check``: one check of the suite, as the catalogue lists it."""

from __future__ import annotations

from dataclasses import dataclass

from unidev_conformance.events import CheckEntry


@dataclass(frozen=True)
class Check:
    """One check of the suite."""

    id: str
    """``group.name``."""
    summary: str
    """The promise that it proves, in one sentence."""
    profile: str
    required: bool
    needs: tuple[str, ...]
    """Abilities without which even a required check may be ``unsupported``."""
    also_in: tuple[str, ...] = ()
    """Other profiles that it belongs to."""

    @property
    def group(self) -> str:
        """The part of the id before the dot."""
        return self.id.partition(".")[0]

    def entry(self) -> CheckEntry:
        """The check as it appears in the events and the report."""
        return CheckEntry(
            check=self.id,
            profile=self.profile,
            required=self.required,
            needs=self.needs,
            summary=self.summary,
        )
