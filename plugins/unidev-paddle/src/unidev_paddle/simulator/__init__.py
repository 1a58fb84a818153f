"""Simulated GPUs for Paddle: a custom-device runtime in host memory.

To Paddle they are devices like any other accelerator, with memory of their own: ``sim:0``,
``sim:1``, … (from the 17th on ``sim16:0`` and so on, as Paddle's allocator ends at index 15).

Paddle's default device becomes ``sim:0``, and stays so: Paddle also defaults to a real accelerator,
and a program that fails because of it should fail on a laptop first. unidev itself always names the
device it means.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from unidev.contract import SimulatedGpus, Simulator, checked_file
from unidev.errors import SimulationError
from unidev_paddle.importing import environment, import_paddle
from unidev_paddle.simulator.compiling import built_library

if TYPE_CHECKING:
    from types import ModuleType

DEVICES_OF_BANK = 16
"""As in simulator.cpp, which gives the reason."""


def bank_name(index: int) -> str:
    """The Paddle device type that contains the simulated GPU of this index."""
    first = index - index % DEVICES_OF_BANK
    return f"sim{first}" if first else "sim"


def bank_first(device_type: str) -> int | None:
    """The index of the first simulated GPU of a device type; ``None`` if it is not one of ours."""
    if device_type == "sim":
        return 0
    number = device_type.removeprefix("sim")
    if number in ("16", "32", "48") and number != device_type:
        return int(number)
    return None


class PaddleSimulator(Simulator):
    """Builds the runtime once per machine, and has Paddle load it during import."""

    lacks: ClassVar[tuple[str, ...]] = ()
    """The dtypes that the GPUs refuse."""

    def start(self, count: int) -> None:
        """Import Paddle with ``count`` simulated GPUs; ``os.environ`` is restored."""
        if "paddle" in sys.modules:
            raise SimulationError(
                "Paddle is imported already, and it looks for devices only while it is imported: "
                f"with UNIDEV_SIMULATE={count} (or after unidev.simulate({count})), call "
                'unidev.set_backend("paddle") before the first `import paddle`.'
            )
        library = checked_file(built_library())
        banks = -(-count // DEVICES_OF_BANK)
        with tempfile.TemporaryDirectory(prefix="unidev-paddle-") as folder:
            # Paddle opens every .so in the folder; opened twice, a library is still one in memory.
            for bank in range(banks):
                (Path(folder) / f"bank{bank}.so").symlink_to(library)
            with environment(_settings(folder, count)):
                paddle = import_paddle()
        _check(paddle, count)
        if banks > 1:
            # Paddle would take the first bank of an unordered map; with one it is always sim:0.
            paddle.set_device("sim:0")
        global _library  # noqa: PLW0603  a process has one, as Paddle does
        _library = ctypes.CDLL(library)
        _library.unidev_simulated_bytes.argtypes = [ctypes.c_size_t]
        _library.unidev_simulated_bytes.restype = ctypes.c_size_t

    def start_as(self, gpus: SimulatedGpus) -> None:
        """As ``start``; then take dtypes away."""
        self.start(gpus.count)
        if gpus.lacks:
            from unidev_paddle.simulator.poor import lack

            PaddleSimulator.lacks = gpus.lacks
            lack(gpus.lacks)

    def refusal(self, gpus: SimulatedGpus) -> str | None:
        """Refuse a name: ``gpu:0`` is not in the CPU build."""
        if gpus.name is None:
            return super().refusal(replace(gpus, like=None) if gpus.lacks else gpus)
        return (
            "gpu:0 is compiled out of Paddle's CPU build, so no simulated GPU can be called "
            f"{gpus.name!r} there. Unset UNIDEV_SIMULATE_AS: "
            f"UNIDEV_SIMULATE={gpus.count} alone simulates GPUs, "
            "which Paddle calls sim:0, sim:1 and so on"
        )


_library: ctypes.CDLL | None = None


def allocated_bytes(index: int) -> int:
    """Bytes currently allocated on a simulated GPU, each tensor rounded up to 256."""
    if _library is None:
        raise SimulationError("no simulated devices were started in this process.")
    return int(_library.unidev_simulated_bytes(index))


def _settings(folder: str, count: int) -> dict[str, str]:
    # A user's own logging and allocator settings are kept.
    defaults = {
        "GLOG_minloglevel": "2",  # Paddle logs each library that it opens
        "FLAGS_free_idle_chunk": "1",  # else its allocator keeps freed memory as used
    }
    settings = {name: os.environ.get(name, value) for name, value in defaults.items()}
    return settings | {"CUSTOM_DEVICE_ROOT": folder, "UNIDEV_PADDLE_SIMULATED_GPUS": str(count)}


def _check(paddle: ModuleType, count: int) -> None:
    core = paddle.base.core
    types = core.get_all_custom_device_type() or []
    found = sum(
        core.get_custom_device_count(kind) for kind in types if bank_first(kind) is not None
    )
    if found != count:
        raise SimulationError(
            f"requested {count} simulated GPUs, but Paddle {paddle.__version__} shows {found}: "
            "this build does not accept additional devices. One that does: "
            "pip install 'paddlepaddle>=3.2,<3.4'. GLOG_minloglevel=0 makes Paddle log more."
        )
