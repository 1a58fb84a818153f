"""Finds a launcher by its name: that of this machine, and those of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.backends.discovery import find_plugins, launcher_specs
from unidev.backends.known_frameworks import OUR_LAUNCHERS, install_command
from unidev.contract.launcher import Launcher, LauncherSpec
from unidev.contract.optional import import_named
from unidev.errors import InvalidDataError, PluginError, UnsupportedOperation
from unidev.system.wording import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROCESSES = "processes"
OURS = {
    _PROCESSES: LauncherSpec(
        name=_PROCESSES, contract_version=3,
        load="unidev.parallel.launchers.processes:Processes",
    )
}  # fmt: skip


def launchers() -> Mapping[str, LauncherSpec]:
    """All launchers by name."""
    return {**launcher_specs(), **OURS}


def launcher_class(name: str | None, address: str | None) -> type[Launcher]:
    """The class of the launcher ``name``, or of the one that an ``address`` needs."""
    found = launchers()
    if name is None:
        name = _PROCESSES if address is None else _with_address(found)
    if not isinstance(name, str) or name not in found:
        raise _missing(name, found)
    if address is not None and not found[name].takes_address:
        raise InvalidDataError(
            f"the launcher {name!r} takes no address: leave out launcher=… or address=…."
        )
    load = found[name].load
    where = f"`load` of launcher {name!r}"
    cls = import_named(load, where) if isinstance(load, str) else load()
    if not (isinstance(cls, type) and issubclass(cls, Launcher)):
        raise PluginError(f"{where} gives {shown(cls)}, not a subclass of Launcher.")
    return cls


def _with_address(found: Mapping[str, LauncherSpec]) -> str:
    names = sorted(name for name, spec in found.items() if spec.takes_address)
    if len(names) > 1:
        raise InvalidDataError(
            f"several launchers take an address: {', '.join(names)}. Choose one by launcher=…."
        )
    return names[0] if names else OUR_LAUNCHERS[0]


def _missing(name: object, found: Mapping[str, LauncherSpec]) -> Exception:
    for plugin in find_plugins():
        if plugin.name == name and plugin.failure is not None:
            return PluginError(
                f"the plugin of launcher {name!r} ({plugin.source}) is broken: {plugin.failure}. "
                "`unidev info` shows its traceback."
            )
    if isinstance(name, str) and name in OUR_LAUNCHERS:
        return UnsupportedOperation(
            f"the launcher {name!r}",
            f"unidev-{name} is not installed. In unidev's repository, run: {install_command(name)}",
        )
    return InvalidDataError(
        f"there is no launcher {shown(name)}; there are: {', '.join(sorted(found))}."
    )
