"""What options of several commands have in common."""

from __future__ import annotations

import math

import click


def finite(_context: object, _option: object, seconds: float) -> float:
    """A callback for options: refuses ``nan``, which any comparison lets through, and ``inf``."""
    if not math.isfinite(seconds):
        raise click.BadParameter(f"{seconds} is no number of seconds.")
    return seconds
