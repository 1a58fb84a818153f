"""Facts about the machine, its drivers and this process, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

VENDORS = {"0x10de": "cuda", "0x1002": "rocm", "0x8086": "xpu"}
"""PCI vendor ids, and the platform with which the vendor's GPUs are programmed."""
MAKERS = {"cuda": "NVIDIA", "rocm": "AMD", "xpu": "Intel", "mps": "Apple"}

WORKS = "works"
NO_LIBRARY = "no library"
NOT_LOADED = "not loaded"
NO_PERMISSION = "no permission"
MISMATCH = "mismatch"
FAILS = "fails"
NO_ANSWER = "no answer"
NOT_ASKED = "not asked"
LOST = "lost"


@dataclass(frozen=True)
class PciDevice:
    """A GPU on the PCI bus, whatever its driver."""

    address: str
    vendor: str
    driver: str | None = None
    """The kernel driver bound to it: ``nvidia``, ``nouveau``, ``vfio-pci``, ``amdgpu``…"""

    @property
    def accelerator(self) -> str:
        """The platform it is programmed with: ``cuda``, ``rocm`` or ``xpu``."""
        return VENDORS[self.vendor]


@dataclass(frozen=True)
class DeviceFile:
    """A file under ``/dev`` through which programs reach a GPU."""

    path: str
    is_accessible: bool = True
    """Whether this user may read and write it."""


@dataclass(frozen=True)
class GpuProcess:
    """A process that holds memory of a GPU."""

    pid: int
    name: str | None = None
    """The program's name, without arguments; None: the process belongs to another user."""
    used_bytes: int | None = None
    libraries: tuple[str, ...] = ()
    """File names of the shared libraries that it has loaded, as far as this user may see them."""


@dataclass(frozen=True)
class Gpu:
    """A GPU that its driver sees."""

    accelerator: str
    index: int
    name: str
    uuid: str | None = None
    architecture: str | None = None
    """``sm_90``, ``gfx90a``; None: unknown."""
    used_bytes: int | None = None
    total_bytes: int | None = None
    processes: tuple[GpuProcess, ...] = ()
    shares_host_memory: bool = False
    """Whether it has no memory of its own: the bytes are then the host's."""
    parent: str | None = None
    """For an instance (MIG), the GPU that is divided: ``GPU 0, NVIDIA H200``."""
    parts: tuple[Gpu, ...] = ()
    """The instances (MIG) into which it is divided, with the index of their parent."""

    @property
    def mig_uuids(self) -> tuple[str, ...]:
        """The UUIDs of its parts."""
        return tuple(each.uuid for each in self.parts if each.uuid is not None)


@dataclass(frozen=True)
class UnreadableGpu:
    """A GPU that its driver counts but does not describe."""

    index: int
    state: str
    """``lost``, ``no permission`` or ``fails``."""
    message: str
    """The driver's own."""


@dataclass(frozen=True)
class Driver:
    """The driver of one vendor's GPUs: its state, its versions, and the GPUs that it reports."""

    accelerator: str
    state: str
    """One of the states above."""
    message: str | None = None
    """Its own message, if it fails."""
    version: str | None = None
    cuda_version: str | None = None
    """The newest CUDA version that it supports, such as ``12.4``."""
    gpus: tuple[Gpu, ...] = ()
    unreadable: tuple[UnreadableGpu, ...] = ()


@dataclass(frozen=True)
class Machine:
    """Facts about the machine, without any framework: system, bus, drivers, variables."""

    system: str = "Linux"
    distribution: str | None = None
    """The ``ID`` of ``/etc/os-release``."""
    is_wsl: bool = False
    container: str | None = None
    """The file or variable that shows that this is a container."""
    pci_count: int | None = None
    """The number of devices on the bus; None: the bus is not visible."""
    gpus_on_bus: tuple[PciDevice, ...] = ()
    nvidia_kernel: str | None = None
    """The version of NVIDIA's kernel module, if it is loaded."""
    device_files: tuple[DeviceFile, ...] = ()
    drivers: tuple[Driver, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment variables that affect GPUs."""

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """Every GPU that a driver sees."""
        return tuple(gpu for driver in self.drivers for gpu in driver.gpus)

    def driver(self, accelerator: str) -> Driver:
        """The facts about that driver; ``NOT_ASKED`` if it was not queried."""
        found = (driver for driver in self.drivers if driver.accelerator == accelerator)
        return next(found, Driver(accelerator, NOT_ASKED))

    def on_bus(self, accelerator: str) -> list[PciDevice]:
        """The GPUs of one vendor on the bus."""
        return [each for each in self.gpus_on_bus if each.accelerator == accelerator]

    def files(self, prefix: str) -> list[DeviceFile]:
        """The device files whose paths start with ``prefix``."""
        return [each for each in self.device_files if each.path.startswith(prefix)]


class Change(NamedTuple):
    """A variable that has another value than the driver has read, or may have read."""

    variable: str
    before: str | None
    """None: it was not set."""
    now: str | None
    file: str
    """The device file that shows that the driver has been initialised."""
    line: str | None = None
    """The line of the user's program that changed it later; None: not seen, so perhaps earlier."""

    def __str__(self) -> str:
        return f"{self.variable} was {_value(self.before)}, and is {_value(self.now)}"


@dataclass(frozen=True)
class Process:
    """The current process."""

    pid: int = 0
    parent: int = 0
    is_forked: bool = False
    """Whether it is a copy of its parent, with no ``exec`` in between."""
    holds_gpu: tuple[str, ...] = ()
    """Open device files that show that CUDA or ROCm has been initialised."""
    parent_holds_gpu: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    """Variables that were changed too late for the driver, or perhaps so."""


def _value(value: str | None) -> str:
    return "not set" if value is None else repr(value)
