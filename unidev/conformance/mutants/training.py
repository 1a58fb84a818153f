"""Sound: the reference with training."""

from __future__ import annotations

from typing import Any

from unidev.conformance.mutants.mutant import training_mutant


@training_mutant("gradients.probe_calibrated", "models.probe_calibrated", result="pass")
def trains(backend: Any) -> None:
    """Nothing is broken: the reference with an autograd, a net and an optimizer."""
