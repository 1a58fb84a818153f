"""Checks shared by the options of several commands."""

from __future__ import annotations

import math

import click


def finite(_context: object, _option: object, seconds: float) -> float:
    """An option callback that rejects ``inf`` and ``nan``, which passes any range check."""
    if not math.isfinite(seconds):
        raise click.BadParameter(f"{seconds} is not a finite number of seconds.")
    return seconds
