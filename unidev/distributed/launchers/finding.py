"""Finds a launcher by its name: unidev's own two, and those of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.contract.launcher import Launcher, LauncherSpec
from unidev.contract.optional import import_named
from unidev.errors import InvalidDataError, PluginError
from unidev.registry.discovery import launcher_specs
from unidev.support.wording import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

OURS = {
    "processes": LauncherSpec(
        name="processes", contract_version=2,
        load="unidev.distributed.launchers.processes:Processes",
    ),
    "ray": LauncherSpec(
        name="ray", contract_version=2, load="unidev.distributed.launchers.ray:RayLauncher",
        takes_address=True,
    ),
}  # fmt: skip


def launchers() -> Mapping[str, LauncherSpec]:
    """All launchers by name."""
    return {**launcher_specs(), **OURS}


def launcher_class(name: str | None, address: str | None) -> type[Launcher]:
    """The class of the launcher ``name``, or of the one that an ``address`` needs.

    Raises:
        InvalidDataError: there is none of that name, or it takes no address.
        PluginError: a plugin's does not load.
    """
    if name is None:
        name = "processes" if address is None else "ray"
    found = launchers()
    if not isinstance(name, str) or name not in found:
        raise InvalidDataError(
            f"there is no launcher {shown(name)}; there are: {', '.join(sorted(found))}."
        )
    if address is not None and not found[name].takes_address:
        raise InvalidDataError(f"the launcher {name!r} takes no address: leave launcher out.")
    load = found[name].load
    where = f"`load` of launcher {name!r}"
    cls = import_named(load, where) if isinstance(load, str) else load()
    if not (isinstance(cls, type) and issubclass(cls, Launcher)):
        raise PluginError(f"{where} gives {shown(cls)}, not a subclass of Launcher.")
    return cls
