"""How long this worker's steps took, and how long exchanges were under way in them."""

from __future__ import annotations

from dataclasses import dataclass

from unidev.system.wording import count_text, seconds_text


@dataclass
class StepTimes:
    """Sums over the steps of ``DataParallel`` in this worker, by the host's clock."""

    steps: int = 0
    seconds: float = 0.0
    under_way_s: float = 0.0
    """Since the first bucket of a step had begun."""
    waited_s: float = 0.0
    """The seconds after backward, among those: the rest is hidden behind computing."""

    def add(self, seconds: float, under_way_s: float, waited_s: float) -> None:
        """Count one step."""
        self.steps += 1
        self.seconds += seconds
        self.under_way_s += under_way_s
        self.waited_s += waited_s

    def __str__(self) -> str:
        if not self.under_way_s:
            return f"{count_text(self.steps, 'step')} in {seconds_text(self.seconds)}"
        hidden = 1 - self.waited_s / self.under_way_s
        return (
            f"{count_text(self.steps, 'step')} in {seconds_text(self.seconds)}, exchanging for "
            f"{self.under_way_s / self.seconds:.0%} of them; {hidden:.0%} of that was hidden "
            "behind computing"
        )


of_this_worker = StepTimes()
"""The steps of all models."""
