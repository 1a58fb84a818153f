"""Simulated GPUs for NumPy."""

from __future__ import annotations

from unidev.contract.backend import Simulator


class NumpySimulator(Simulator):
    """Nothing to arrange: simulated arrays are a class of our own."""

    def start(self, count: int) -> None:
        """Leave it to the backend, whose constructor receives the count."""
