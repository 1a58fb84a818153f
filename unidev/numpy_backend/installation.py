"""What NumPy was built for: the CPU alone."""

from __future__ import annotations

from unidev.contract.installation import Build, Installation


class NumpyInstallation(Installation):
    """There is no NumPy for GPUs."""

    def build(self) -> Build:
        """For the CPU, and nothing else to be had."""
        return Build(accelerator=None, page="https://numpy.org/install/")
