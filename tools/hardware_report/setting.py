"""Where a step runs: the backend, the extent of the report, and the folders."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import unidev
from hardware_report.outcome import NotRunError
from unidev.support.wording import count_text

if TYPE_CHECKING:
    from unidev.contract.backend import Backend
    from unidev.contract.device import Device

ROOT = Path(__file__).parents[2]
"""unidev's checkout."""
DISTRIBUTIONS = {"sklearn": "scikit-learn", "pynvml": "nvidia-ml-py"}
"""Distributions whose modules have another name."""


@dataclass(frozen=True)
class Setting:
    """Passed to each step."""

    name: str
    """The backend's."""
    is_short: bool
    folder: Path
    """An empty folder of the step's own."""

    @property
    def backend(self) -> Backend:
        """The backend, loaded at the first use."""
        unidev.set_backend(self.name)
        return unidev.active_backend()

    def gpus(self, least: int = 1) -> list[Device]:
        """The GPUs; simulated ones where ``--simulate`` asks for them.

        Raises:
            NotRunError: there are fewer than ``least``.
        """
        self.backend  # noqa: B018  selects it
        found = [each for each in unidev.list_devices() if each.kind == "gpu"]
        if len(found) < least:
            there = ", ".join(map(str, found)) or "none"
            raise NotRunError(f"needs {count_text(least, 'GPU')} of {self.name}; there: {there}")
        return found

    def real_gpus(self, least: int = 1) -> list[Device]:
        """The GPUs, for what simulated devices cannot show.

        Raises:
            NotRunError: there are fewer than ``least``, or they are simulated.
        """
        found = self.gpus(least)
        if found[0].is_simulated:
            raise NotRunError("simulated devices cannot show it")
        return found

    def only(self, *names: str) -> None:
        """Refuse to run on other backends.

        Raises:
            NotRunError: this is another one.
        """
        if self.name not in names:
            raise NotRunError(f"written for {' and '.join(names)} only")


def need(*modules: str) -> None:
    """Check that optional modules are there.

    Raises:
        NotRunError: one is not.
    """
    missing = [each for each in modules if importlib.util.find_spec(each) is None]
    if missing:
        names = " ".join(DISTRIBUTIONS.get(each, each) for each in missing)
        raise NotRunError(f"needs {names}, which {sys.executable} does not have")
