"""``Installation``: the part of the contract that says what a framework was built for.

``unidev doctor`` compares it with what the machine and its driver say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from unidev.contract.backend import Backend


class Wheel(NamedTuple):
    """A build that the framework publishes for an accelerator."""

    accelerator: str
    """``cuda``, ``rocm``, ``xpu`` or ``mps``."""
    version: str
    """The version of the accelerator's toolkit that it is built with, such as ``12.6``."""
    command: str
    """The framework's own published command, which replaces the build that is installed."""


@dataclass(frozen=True, kw_only=True)
class Build:
    """What a framework, as it is installed, was built for."""

    accelerator: str | None
    """``cuda``, ``rocm``, ``xpu`` or ``mps``; None: for the CPU alone."""
    version: str | None = None
    """The version of the accelerator's toolkit; None: not known."""
    architectures: tuple[str, ...] = ()
    """What it has code for (``sm_80``, ``compute_90``, ``gfx90a``); empty: not known."""
    cudnn: str | None = None
    """The version of cuDNN that it was built with."""
    missing: tuple[str, ...] = ()
    """Shared libraries that it needs for its accelerator and that are not found here."""
    wheels: tuple[Wheel, ...] = ()
    """What else there is, the newest first. With no accelerator and no wheel there never is one."""
    page: str | None = None
    """The framework's own page about installing it."""


class Installation(ABC):
    """A framework as it is installed. Asked only once the framework is imported."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def build(self) -> Build:
        """What it was built for.

        Creates no context and initialises no driver: also asked for an error message, in the user's
        process.
        """

    def usable_gpus(self) -> int:
        """How many GPUs the framework's runtime can really use.

        Asked in a process of its own, so it may initialise the runtime. Overridden where
        ``device_count`` asks somebody else.
        """
        return self.backend.device_count("gpu")
