"""Simulated GPUs for NumPy."""

from __future__ import annotations

from unidev.contract.backend_spec import Simulator


class NumpySimulator(Simulator):
    """Needs no setup: simulated arrays are our own class."""

    def start(self, count: int) -> None:
        """Do nothing: the backend's constructor receives the count."""
