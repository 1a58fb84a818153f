"""Simulated GPUs: MXNet's further CPU contexts."""

from __future__ import annotations

from unidev import Simulator


class MxnetSimulator(Simulator):
    """Nothing to arrange, hence never too late.

    MXNet takes any ``mx.cpu(i)`` for a context of its own, with its own worker threads and memory:
    ``mx.cpu(i + 1)`` is the simulated ``gpu:i``. Here it is only the backend, which is told the
    count, that says which of them are there.
    """

    def start(self, count: int) -> None:
        """Leave it to the backend."""
