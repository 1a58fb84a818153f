"""Facts about a machine, its drivers and its frameworks: plain data, easy to make up in tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unidev.backends.known_frameworks import KNOWN
from unidev.system.facts import WORKS, Process
from unidev.system.visible import SUBSET, hidden

if TYPE_CHECKING:
    from unidev.backends.known_frameworks import KnownFramework
    from unidev.contract.installation import Build
    from unidev.system.facts import GpuProcess, Machine
    from unidev.system.visible import Hiding


@dataclass(frozen=True)
class Framework:
    """An installed framework, as reported by its own process."""

    backend: str
    framework: str
    state: str = WORKS
    """``works``, or the words of ``unidev info``: ``fails``, ``crashes``, ``hangs``, ``broken``."""
    version: str | None = None
    problem: str | None = None
    build: Build | None = None
    """None: its backend does not report it."""
    gpus_seen: int | None = None
    """None: not queried, or it did not answer."""
    said: str = ""
    """The last lines of its output."""

    @property
    def takes_gpus(self) -> bool:
        """Whether any build of it uses a GPU."""
        return self.build is None or bool(self.build.accelerator or self.build.wheels)


@dataclass(frozen=True)
class Case:
    """All facts that a diagnosis is based on."""

    machine: Machine
    frameworks: tuple[Framework, ...] = ()
    process: Process = Process()  # noqa: RUF009  frozen
    known: tuple[KnownFramework, ...] = KNOWN
    """The frameworks that are recognised in other processes."""
    chosen: str | None = None
    """The backend that ``UNIDEV_BACKEND`` names, if ``frameworks`` are all that there are."""
    lacks_simulator: str | None = None
    """How to install the simulator of the backend that is used, if it is missing."""

    def frameworks_in(self, process: GpuProcess) -> tuple[KnownFramework, ...]:
        """The frameworks whose libraries a process has loaded."""
        return tuple(
            each
            for each in self.known
            if each.library is not None
            and any(name.startswith(each.library) for name in process.libraries)
        )

    def accelerator_of(self, framework: Framework) -> str | None:
        """The vendor whose GPUs it should see: its build's, else one that has a build, else any."""
        there = [gpu.accelerator for gpu in self.machine.gpus]
        build = framework.build
        wanted = (
            [] if build is None else [build.accelerator, *(w.accelerator for w in build.wheels)]
        )
        return next((each for each in [*wanted, *there] if each in there), None)

    def expected(self, framework: Framework) -> int:
        """How many of the GPUs that the driver sees the framework should see, too.

        A variable that chooses some of them, as a scheduler sets it, is followed; one that names
        none by mistake is not.
        """
        accelerator = self.accelerator_of(framework)
        gpus = [gpu for gpu in self.machine.gpus if gpu.accelerator == accelerator]
        hiding = self.hiding(accelerator)
        if hiding is not None and hiding.how == SUBSET:
            return hiding.shown
        # Where GPUs are partitioned (MIG), a process sees one partition and nothing else:
        # https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html#cuda-visible-devices
        return 1 if any(gpu.mig_uuids for gpu in gpus) else len(gpus)

    def sees_all(self, framework: Framework) -> bool:
        """Whether it sees as many as expected."""
        return (framework.gpus_seen or 0) >= self.expected(framework)

    def hiding(self, accelerator: str | None) -> Hiding | None:
        """The environment variable that hides GPUs of one vendor, or None."""
        if accelerator is None:
            return None
        driver = self.machine.driver(accelerator)
        unreadable = [each.index for each in driver.unreadable]
        gpus = driver.gpus if driver.gpus or unreadable else None
        return hidden(self.machine.environment, accelerator, gpus, unreadable=unreadable)

    def is_seen(self, accelerator: str) -> bool:
        """Whether a framework whose build is for that vendor's GPUs sees one."""
        return any(
            each.gpus_seen and (each.build is None or each.build.accelerator == accelerator)
            for each in self.frameworks
        )

    @property
    def is_seen_by_frameworks_alone(self) -> bool:
        """Whether a framework sees a GPU that no driver reports: Jetson's, or a plug-in device."""
        return not self.machine.gpus and any(each.gpus_seen for each in self.frameworks)


@dataclass(frozen=True)
class Remedy:
    """A way to fix a cause, with the exact command where there is one."""

    text: str
    command: str | None = None


@dataclass(frozen=True)
class Finding:
    """One cause, why it is believed, and what to do."""

    cause: str
    """One of ``diagnosis.RANKING``."""
    title: str
    evidence: tuple[str, ...]
    remedies: tuple[Remedy, ...]
    link: str | None = None
    is_blocking: bool = True
    """Whether it prevents the use of a GPU; otherwise it is a note."""
    backend: str | None = None
    """The backend that it concerns; None: all."""
