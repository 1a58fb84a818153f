"""array-api-strict: NumPy's arrays, on a CPU and on devices that refuse to mix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import array_api_strict
import numpy as np

from unidev.contract import Build, Installation, part
from unidev.errors import PluginError
from unidev_array_api.backend import ArrayApiBackend, Place
from unidev_array_api.simulator import GPUS, POOR, simulated_names

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from unidev.contract import Array

_CPU = "CPU_DEVICE"


class StrictBackend(ArrayApiBackend):
    """Judges programs that should run with any library of the standard."""

    probe = part("unidev_array_api.probe:StrictProbe")
    interop = part("unidev_array_api.interop:StrictInterop")
    installation = part("unidev_array_api.libraries.strict:StrictInstallation")

    xp = array_api_strict

    def places(self) -> Sequence[Place]:
        """Its CPU, and those of its devices that are simulated GPUs."""
        self.array_type = type(array_api_strict.empty(0))
        try:
            natives = {
                name: array_api_strict.Device(name) for name in (_CPU, *GPUS, *POOR.values())
            }
        except (AttributeError, ValueError) as error:
            raise PluginError(
                "backend 'array_api_strict' needs array_api_strict 2.6.1 or later, and this is "
                f"{array_api_strict.__version__}: run `pip install 'array-api-strict>=2.6.1'`.",
                backend=self.name,
            ) from error
        kinds = {_CPU: "cpu"} | dict.fromkeys(simulated_names(self.simulated_count), "gpu")
        return [Place(kind, natives[name], name, natives[name]) for name, kind in kinds.items()]

    def key(self, native: Any) -> Hashable:
        """The device itself, which equals each of its name."""
        return native if isinstance(native, array_api_strict.Device) else None

    def host_array(self, x: Any) -> Array:
        """By a copy on its CPU, which NumPy reads as its own."""
        copied = array_api_strict.asarray(x, copy=True, device=self.cpu.native)
        return np.asarray(copied, order="C")

    def unnamed(self, x: Any) -> str:
        """Its other devices are GPUs where they are simulated."""
        return (
            f"{x.device} is a GPU only where it is simulated: set UNIDEV_SIMULATE={len(GPUS)} "
            f"before Python starts, and {' and '.join(GPUS)} are gpu:0 and gpu:1; or "
            f"UNIDEV_SIMULATE=1 with UNIDEV_SIMULATE_LIKE={' or '.join(POOR)}"
        )


class StrictInstallation(Installation):
    """There is no build of it for a GPU."""

    def build(self) -> Build:
        """For the CPU alone."""
        return Build(accelerator=None, page="https://data-apis.org/array-api-strict/")
