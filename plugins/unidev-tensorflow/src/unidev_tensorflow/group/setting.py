"""What TensorFlow's collectives need from the launcher. Imports no framework."""

from __future__ import annotations

from unidev.contract import Arrangement, GroupSetting, Meeting


class TensorFlowSetting(GroupSetting):
    """Nothing but a port for each worker; TensorFlow's servers cannot be bound to an address."""

    listens = "each worker's TensorFlow server listens on all interfaces of its host"

    def prepare(self, meeting: Meeting) -> Arrangement:
        """No variables: the engine reads the addresses from ``meeting``."""
        return Arrangement(({},) * meeting.size)
