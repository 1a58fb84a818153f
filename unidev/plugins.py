"""Finding plugins: each is tried by itself, and one that is broken is kept, with its traceback.

Entry points of the group ``unidev``, then ``UNIDEV_PLUGINS`` (``module`` or ``module:attribute``,
separated by commas: for a backend that is not installed, or is being tested). Those that
``UNIDEV_DISABLED_PLUGINS`` names (entry points' names, separated by commas) are left out.
"""

from __future__ import annotations

import os
import threading
import traceback
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

import pluggy

from unidev import hookspecs
from unidev.backend import CONTRACT_VERSION, BackendSpec
from unidev.errors import BackendNotFoundError, PluginError

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = "unidev"
EMBEDDED = "numpy"
_HOOK = "unidev_register_backend"


@dataclass(frozen=True)
class Plugin:
    """One plugin that was found, whatever became of it."""

    name: str
    """The entry point's name."""
    source: str
    """Where it comes from: ``module:attribute``."""
    distribution: str | None = None
    """Name and version of the distribution that installed it."""
    spec: BackendSpec | None = None
    """What it registered; None when it is broken or disabled."""
    failure: str | None = None
    """One line about what is wrong."""
    traceback: str | None = None
    """Where it went wrong, in full."""
    is_disabled: bool = False


class _Registry:
    """The plugins of this process, found when first asked for."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.found: dict[str, Plugin] | None = None

    def plugins(self) -> dict[str, Plugin]:
        if self.found is None:
            with self.lock:
                if self.found is None:
                    found: dict[str, Plugin] = {}
                    disabled = _names_in("UNIDEV_DISABLED_PLUGINS")
                    for point in _entry_points():
                        found[point.name] = self.try_plugin(point, found, disabled)
                    self.found = found
        return self.found

    def try_plugin(self, point: EntryPoint, found: dict[str, Plugin], disabled: set[str]) -> Plugin:
        distribution = f"{point.dist.name} {point.dist.version}" if point.dist else None
        if point.name in disabled:
            return Plugin(point.name, point.value, distribution, is_disabled=True)
        try:
            spec = self.register(point.load(), point.name, point.value)
            _check_spec(spec, found)
        except Exception as error:  # noqa: BLE001  a stranger's import can raise anything
            failure = traceback.format_exception_only(error)[-1].strip()
            trace = "".join(traceback.format_exception(error))
            return Plugin(point.name, point.value, distribution, failure=failure, traceback=trace)
        return Plugin(point.name, point.value, distribution, spec)

    def register(self, plugin: object, name: str, source: str) -> BackendSpec:
        self.manager.register(plugin, name=name)
        try:
            self.manager.check_pending()  # a misspelt hook is an error, not a plugin without one
            hook = getattr(self.manager.hook, _HOOK)
            for implementation in hook.get_hookimpls():
                if implementation.plugin is plugin:
                    return _as_spec(implementation.function(), source)
        except BaseException:
            self.manager.unregister(name=name)
            raise
        self.manager.unregister(name=name)
        raise PluginError(
            f"{source} has no @unidev.hookimpl function named {_HOOK}, so it registers no backend."
        )


_registry = _Registry()


def find_plugins() -> list[Plugin]:
    """Every plugin there is, broken and disabled ones too, in the order they were tried."""
    return list(_registry.plugins().values())


def backend_specs() -> dict[str, BackendSpec]:
    """The specs of the plugins that work, by the backend's name."""
    return {p.spec.name: p.spec for p in _registry.plugins().values() if p.spec is not None}


def backend_spec(name: str) -> BackendSpec:
    """The spec of backend ``name``.

    Raises:
        BackendNotFoundError: there is none; says what is there.
        PluginError: its plugin is broken; says how.
    """
    specs = backend_specs()
    if name in specs:
        return specs[name]
    plugin = _registry.plugins().get(name)
    if plugin is not None and plugin.failure is not None:
        raise PluginError(
            f"the plugin of backend {name!r} ({plugin.source}) is broken: {plugin.failure}. "
            "`unidev info` shows its traceback; reinstall or update it, or switch it off with "
            f"UNIDEV_DISABLED_PLUGINS={name}.",
            backend=name,
        )
    if plugin is not None and plugin.is_disabled:
        raise BackendNotFoundError(
            f"backend {name!r} is switched off by UNIDEV_DISABLED_PLUGINS; take it out of there.",
            backend=name,
        )
    raise BackendNotFoundError(
        f"there is no backend {name!r}; there are: {', '.join(sorted(specs))}. Each framework has "
        "a plugin of its own: `pip install './plugins/unidev-torch[framework]'` in unidev's "
        "repository; `unidev info` lists what is installed.",
        backend=name,
    )


def _entry_points() -> Iterator[EntryPoint]:
    yield EntryPoint(EMBEDDED, "unidev.numpy_plugin", GROUP)
    seen = {EMBEDDED}
    installed = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    named = [
        EntryPoint(source.rpartition(":")[2] or source, source, GROUP)
        for source in sorted(_names_in("UNIDEV_PLUGINS"))
    ]
    for point in [*installed, *named]:
        if point.name not in seen:
            seen.add(point.name)
            yield point


def _names_in(variable: str) -> set[str]:
    names = (name.strip() for name in os.environ.get(variable, "").split(","))
    return {name for name in names if name}


def _as_spec(value: object, source: str) -> BackendSpec:
    if not isinstance(value, BackendSpec):
        raise PluginError(f"{source} returned {value!r} from {_HOOK}: a BackendSpec is needed.")
    return value


def _check_spec(spec: BackendSpec, found: dict[str, Plugin]) -> None:
    if spec.contract_version != CONTRACT_VERSION:
        raise PluginError(
            f"backend {spec.name!r} was written for version {spec.contract_version} of the "
            f"contract, this unidev speaks version {CONTRACT_VERSION}: install two that fit.",
            backend=spec.name,
        )
    for plugin in found.values():
        if plugin.spec is not None and plugin.spec.name == spec.name:
            raise PluginError(
                f"backend {spec.name!r} is registered already, by {plugin.source}: switch one of "
                "them off with UNIDEV_DISABLED_PLUGINS.",
                backend=spec.name,
            )
