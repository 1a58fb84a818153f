"""The installed NumPy, which is built for the CPU only."""

from __future__ import annotations

from unidev.contract.installation import Build, Installation


class NumpyInstallation(Installation):
    """There is no NumPy for GPUs."""

    def build(self) -> Build:
        """A build for the CPU; no other is available."""
        return Build(accelerator=None, page="https://numpy.org/install/")
