"""TensorFlow's collectives between workers, and what these need from the launcher.

Imports no framework: a launcher reads it.
"""

from __future__ import annotations

import os

from unidev.contract import Arrangement, GroupSetting, Rendezvous

_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


class TensorFlowSetting(GroupSetting):
    """Nothing but a port for each worker; TensorFlow's servers cannot be bound to an address."""

    joins_first = True

    def prepare(self, rendezvous: Rendezvous) -> Arrangement:
        """The engine reads the addresses from ``rendezvous``; TensorFlow logs each connection."""
        quiet = {_LOG_LEVEL: os.environ.get(_LOG_LEVEL, "1")}
        return Arrangement(
            (quiet,) * rendezvous.size,
            listens="each worker's TensorFlow server listens on all interfaces of its host",
        )
