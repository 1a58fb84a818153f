"""Naive backends: a real framework's, where a copy is the call that most people would write.

For the tests of plugins, which show that the suite sees through it. A module on the import path
makes one, and ``plugin_suite.judge`` runs checks on it in a child process::

    to = NaiveBackend("to", unidev_torch, lambda x, device: x.to(device))
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from unidev.contract.hookspecs import hookimpl
from unidev.registry.loading import load_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract.backend import Backend
    from unidev.contract.backend_spec import BackendSpec


@dataclasses.dataclass(frozen=True, eq=False)  # pluggy keeps plugins in dicts: compare by `is`
class NaiveBackend:
    """A plugin like another, but for how its backend copies."""

    name: str
    plugin: Any
    """The plugin that it is made of. (Its hook alone would be taken for one of this plugin's.)"""
    copy: Callable[[Any, Any], Any]
    """``copy(x, device)``, with a ``Device``."""

    @hookimpl
    def unidev_register_backend(self) -> BackendSpec:
        """As the other plugin does, under another name."""
        spec: BackendSpec = self.plugin.unidev_register_backend()
        return dataclasses.replace(spec, name=f"naive_{self.name}", load=self.load)

    def load(self) -> type[Backend]:
        """The other plugin's backend, with another copy."""
        copy = self.copy

        class Naive(load_class(self.plugin.unidev_register_backend())):  # type: ignore[misc]  # known when it is loaded
            """The backend, but for how it copies."""

            def copy_to(self, x: Any, device: Any, non_blocking: bool) -> Any:
                """The naive call."""
                return copy(x, device)

            def copy_if_there(self, x: Any, device: Any) -> Any:
                """The naive call, too."""
                return copy(x, device) if self.device_of(x) is device else None

        return Naive
