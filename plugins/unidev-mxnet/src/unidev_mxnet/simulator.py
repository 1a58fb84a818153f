"""Simulated GPUs: MXNet's further CPU contexts."""

from __future__ import annotations

from unidev import Simulator


class MxnetSimulator(Simulator):
    """There is nothing to set up, so it is never too late.

    MXNet accepts any ``mx.cpu(i)`` as a context with its own worker threads and memory:
    ``mx.cpu(i + 1)`` is the simulated ``gpu:i``. Only the backend, which receives the count,
    decides how many exist.
    """

    def start(self, count: int) -> None:
        """Does nothing: the backend does the work."""
