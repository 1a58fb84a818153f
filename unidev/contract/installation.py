"""``Installation``: the part of the contract that reports what a framework was built for.

``unidev doctor`` compares it with what the machine and its driver report.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from unidev.contract.optional import BackendPart

if TYPE_CHECKING:
    from collections.abc import Mapping


class Wheel(NamedTuple):
    """A build that the framework publishes for an accelerator."""

    accelerator: str
    """``cuda``, ``rocm``, ``xpu`` or ``mps``."""
    version: str
    """The version of the accelerator's toolkit that it was built with, such as ``12.6``."""
    command: str
    """The framework's own published command, which replaces the installed build."""


class Conflict(NamedTuple):
    """Installed parts of a framework that do not work together."""

    found: str
    """What is installed, and why that does not work, in a sentence."""
    command: str
    """The command that resolves it."""


@dataclass(frozen=True, kw_only=True)
class Build:
    """The installed build of a framework: its accelerator and libraries; other available builds."""

    accelerator: str | None
    """``cuda``, ``rocm``, ``xpu`` or ``mps``; None: for the CPU only."""
    version: str | None = None
    """The version of the accelerator's toolkit; None: unknown."""
    architectures: tuple[str, ...] = ()
    """The architectures it has code for (``sm_80``, ``compute_90``, ``gfx90a``); empty: unknown."""
    cudnn: str | None = None
    """The version of cuDNN that it was built with."""
    missing: tuple[str, ...] = ()
    """Shared libraries that it needs for its accelerator and that were not found here."""
    conflicts: tuple[Conflict, ...] = ()
    """Parts of it that do not work together, such as two versions of one plugin."""
    wheels: tuple[Wheel, ...] = ()
    """Other available builds, newest first. Empty with no accelerator: no GPU build exists."""
    page: str | None = None
    """The framework's own installation page."""


class Installation(BackendPart, ABC):
    """The installed framework. Used only once the framework is imported."""

    @abstractmethod
    def build(self) -> Build:
        """The installed build: its accelerator and libraries, and other available builds.

        Creates no context and initialises no driver: error messages in the user's process use it.
        """

    def accelerator(self) -> str | None:
        """``build().accelerator``; a process that has only asked for it must be able to fork."""
        return self.build().accelerator

    def settings(self) -> Mapping[str, str]:
        """The framework's settings that change how fast or how precisely a GPU computes, by name.

        Such as whether float32 products may use TF32. Creates no context; empty by default.
        """
        return {}

    def usable_gpus(self) -> int:
        """The number of GPUs that the framework's runtime can actually use.

        Runs in a child process, so it may initialise the runtime. Override it if ``device_count``
        does not come from that runtime.
        """
        return self.backend.device_count("gpu")
