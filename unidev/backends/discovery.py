"""Finds plugins: each is tried separately, and a broken one is kept, with its traceback.

Plugins come from the entry points of the group ``unidev``, then from ``UNIDEV_PLUGINS`` (``module``
or ``module:attribute``, comma-separated: for a backend that is not installed, or under test).
``UNIDEV_DISABLED_PLUGINS`` (entry-point names, comma-separated) excludes plugins.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

import pluggy

from unidev.backends.known_frameworks import OUR_PLUGINS, install_command
from unidev.contract import hookspecs
from unidev.contract.backend import Unsupported
from unidev.contract.backend_spec import ADAPTED_VERSION, CONTRACT_VERSION, BackendSpec
from unidev.contract.launcher import Forks, LauncherSpec
from unidev.contract.optional import names_an_object
from unidev.errors import BackendNotFoundError, PluginError, UnsupportedOperation
from unidev.system.forking import fork_safe_lock
from unidev.system.settings import DISABLED_PLUGINS, PLUGINS
from unidev.system.wording import error_text, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = "unidev"
EMBEDDED = "numpy"
_HOOK = "unidev_register_backend"
_LAUNCHER_HOOK = "unidev_register_launcher"


@dataclass(frozen=True)
class Plugin:
    """One plugin that was found: working, broken or disabled."""

    name: str
    """The entry point's name."""
    source: str
    """Where it comes from: ``module:attribute``."""
    distribution: str | None = None
    """Name and version of the distribution that installed it."""
    spec: BackendSpec | None = None
    """The backend that it registered; None if it is broken or disabled, or registered none."""
    launcher: LauncherSpec | None = None
    """The launcher that it registered, if any."""
    failure: str | None = None
    """The problem, in one line."""
    refusal: str | None = None
    """Why there is no backend for the framework that it names, if it says so."""
    traceback: str | None = None
    """The full traceback of the problem."""
    is_disabled: bool = False


_lock = fork_safe_lock()
_found: list[Plugin] | None = None


def find_plugins() -> list[Plugin]:
    """Every plugin, including broken and disabled ones, in the order they were tried."""
    global _found  # noqa: PLW0603  found once per process, on first use
    if _found is None:
        with _lock:
            if _found is None:
                found: list[Plugin] = []
                disabled = DISABLED_PLUGINS.value()
                for point in plugin_points():
                    found.append(_try_plugin(point, found, disabled))
                # One that the program imports, and whose own import of unidev has led here.
                broken = (each.source.partition(":")[0] for each in found if each.failure)
                if any(map(is_being_imported, broken)):
                    return found
                _found = found
    return list(_found)


def is_complete() -> bool:
    """Whether every plugin has been tried; false while one that imported unidev is half done."""
    return _found is not None


def is_being_imported(module: str) -> bool:
    """Whether an import of ``module`` has begun and not ended, so that names may be missing."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def plugin_points() -> Iterator[EntryPoint]:
    """The entry point of each plugin, NumPy's first; imports none of them."""
    installed = sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    named = (EntryPoint(source.rpartition(":")[2], source, GROUP) for source in PLUGINS.value())
    seen: set[str] = set()
    for point in (EntryPoint(EMBEDDED, "unidev.backends.numpy_backend", GROUP), *installed, *named):
        if point.value not in seen:  # a plugin that is found twice counts once
            seen.add(point.value)
            yield point


def facts_of(plugin: Plugin) -> dict[str, Any]:
    """What is known of a plugin, for reports; its problem, where it has one."""
    spec, launcher = plugin.spec, plugin.launcher
    return {
        "plugin": plugin.name,
        "source": plugin.source,
        "distribution": plugin.distribution,
        "backend": spec.name if spec else None,
        "launcher": launcher.name if launcher else None,
        "variables": dict(launcher.variables) if launcher else {},
        "framework": spec.framework if spec else None,
        "install": spec.install if spec else None,
        "problem": plugin.failure or plugin.refusal,
        "traceback": plugin.traceback,
    }


def distribution_of(point: EntryPoint) -> str | None:
    """Name and version of the distribution that installed a plugin, if one did."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else None


def backend_specs() -> dict[str, BackendSpec]:
    """The specs of the working plugins, by backend name."""
    return {plugin.spec.name: plugin.spec for plugin in find_plugins() if plugin.spec is not None}


def launcher_specs() -> dict[str, LauncherSpec]:
    """The specs of the launchers that plugins register, by name."""
    found = (plugin.launcher for plugin in find_plugins())
    return {launcher.name: launcher for launcher in found if launcher is not None}


def backend_spec(name: str) -> BackendSpec:
    """The spec of backend ``name``.

    Raises:
        BackendNotFoundError: there is none; lists the backends that exist.
        PluginError: its plugin is broken; gives the reason.
    """
    specs = backend_specs()
    if name in specs:
        return specs[name]
    for plugin in find_plugins():
        if plugin.name == name and plugin.failure is not None:
            raise PluginError(
                f"the plugin of backend {name!r} ({plugin.source}) is broken: {_reason(plugin)}. "
                f"`unidev info` shows its traceback. {_remedy(plugin)}, or disable it with "
                f"UNIDEV_DISABLED_PLUGINS={name}.",
                backend=name,
            )
        if plugin.name == name and plugin.refusal is not None:
            raise BackendNotFoundError(plugin.refusal, backend=name)
        if plugin.name == name and plugin.is_disabled:
            raise BackendNotFoundError(
                f"backend {name!r} is disabled by UNIDEV_DISABLED_PLUGINS; remove it from that "
                "variable.",
                backend=name,
            )
    raise BackendNotFoundError(_not_found(name, sorted(specs)), backend=name)


def _reason(plugin: Plugin) -> str:
    return (plugin.failure or "").removesuffix(".")


def _remedy(plugin: Plugin) -> str:
    if plugin.distribution is None:
        return (
            "Check its spelling in UNIDEV_PLUGINS and that it is on PYTHONPATH, or in the current "
            "folder of `python -m unidev`"
        )
    return f"Reinstall {plugin.distribution} or install a newer version"


def _not_found(name: str, there: list[str]) -> str:
    from difflib import get_close_matches

    message = f"there is no backend {shown(name)}; there are: {', '.join(there)}."
    for plugin in find_plugins():
        if plugin.failure is not None:
            message += (
                f" The plugin {plugin.source} is broken: {_reason(plugin)}. {_remedy(plugin)}."
            )
    meant = get_close_matches(str(name).lower(), [*there, *OUR_PLUGINS], 1)
    if meant and meant[0] in there:
        return f"{message} Did you mean {meant[0]!r}?"
    needed = (
        "Each framework needs its own plugin: run"
        if meant
        else f"unidev has plugins for {', '.join(OUR_PLUGINS)}: run, for example,"
    )
    return (
        f"{message} {needed} `{install_command(*meant)}` in unidev's repository. `unidev info` "
        "lists what is installed."
    )


def _try_plugin(point: EntryPoint, found: list[Plugin], disabled: list[str]) -> Plugin:
    distribution = distribution_of(point)
    if point.name in disabled and point.name != EMBEDDED:
        return Plugin(point.name, point.value, distribution, is_disabled=True)
    try:
        parts = point.value.replace(":", ".", 1).split(".")
        if not all(part.isidentifier() for part in parts):
            raise PluginError(f"{shown(point.value)} is neither `module` nor `module:attribute`.")
        spec, launcher = _registered(point.load(), point.value)
        if spec is not None:
            _check_fields(spec, point.value)
            if isinstance(spec.load, Unsupported):
                unsupported = UnsupportedOperation(
                    f"backend {spec.name!r}", spec.load.reason, spec.load.link
                )
                return Plugin(point.name, point.value, distribution, refusal=str(unsupported))
            _check_alone(spec, found)
        if launcher is not None:
            _check_launcher(launcher, point.value, found)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's import may raise anything
        failure = " ".join(error_text(error).split())
        trace = "".join(traceback.format_exception(error))
        return Plugin(point.name, point.value, distribution, failure=failure, traceback=trace)
    return Plugin(point.name, point.value, distribution, spec, launcher)


def _registered(plugin: object, source: str) -> tuple[BackendSpec | None, LauncherSpec | None]:
    # One manager per plugin: what a broken plugin leaves behind must not affect the next one.
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin)
    manager.check_pending()  # a misspelt hook is an error, not a plugin without one
    found: dict[str, Any] = {}
    for name, cls in ((_HOOK, BackendSpec), (_LAUNCHER_HOOK, LauncherSpec)):
        for hook in getattr(manager.hook, name).get_hookimpls():
            found[name] = value = hook.function()
            if not isinstance(value, cls):
                raise PluginError(
                    f"{source} returned {shown(value)} from {name}, not a {cls.__name__}."
                )
    if not found:
        raise PluginError(
            f"{source} has no @unidev.hookimpl function named {_HOOK}, so it registers no backend; "
            f"nor one named {_LAUNCHER_HOOK}."
        )
    return found.get(_HOOK), found.get(_LAUNCHER_HOOK)


def _check_version(what: str, written_for: object, backend: str | None = None) -> None:
    if written_for in (CONTRACT_VERSION, ADAPTED_VERSION):
        return
    is_older = isinstance(written_for, int) and written_for < CONTRACT_VERSION
    page = f"docs/contract-{CONTRACT_VERSION}.md in unidev's repository"
    way_out = (
        f"install a newer release of the plugin. For its author: {page} lists what to change"
        if is_older
        else "install a matching pair"
    )
    raise PluginError(
        f"{what} was written for version {shown(written_for)} of the contract, but this unidev has "
        f"version {CONTRACT_VERSION}: {way_out}.",
        backend=backend,
    )


def _check_fields(spec: BackendSpec, source: str) -> None:
    _check_version(f"backend {spec.name!r}", spec.contract_version, spec.name)
    for field in ("namespaces", "short_names"):
        if not isinstance(getattr(spec, field), tuple):  # a string would be taken letter by letter
            raise _wrong(source, field, getattr(spec, field), "a tuple of names.")
    roots = (spec.framework, *spec.namespaces, *spec.short_names)
    # A name that is not a string would break every list of names, not only its own backend.
    for field, value in (("name", spec.name), *(("framework", root) for root in roots)):
        plain = value.replace("-", "_") if field == "name" and isinstance(value, str) else value
        if not isinstance(plain, str) or not plain.isidentifier():
            raise PluginError(
                f"{source}: the {field} of its spec is {shown(value)}, which is not a valid name "
                "(letters, digits and underscores; for a framework, its top-level module)."
            )
    for field in ("install", "title", "library", "sharing_page", "simulator_install"):
        if not isinstance(getattr(spec, field), str | None):
            raise _wrong(source, field, getattr(spec, field), "a string, or None.")
    until: object = spec.tested_until
    is_release = isinstance(until, str) and all(each.isdecimal() for each in until.split("."))
    if until is not None and not is_release:
        raise _wrong(source, "tested_until", until, 'a release, as in "2.14"')
    _check_loadable("load", spec.load, source)
    _check_loadable("simulator", spec.simulator, source)
    if not isinstance(spec.forks, Forks | Unsupported):
        raise _wrong(source, "forks", spec.forks, "Forks(…), or unsupported(reason).")
    if not isinstance(spec.group_setting, Unsupported):
        _check_loadable("group_setting", spec.group_setting, source)


def _check_loadable(field: str, given: object, source: str) -> None:
    if not (names_an_object(given) if isinstance(given, str) else callable(given)):
        raise _wrong(source, field, given, 'a function, or "module:name" of the class.')


def _wrong(source: str, field: str, given: object, needed: str) -> PluginError:
    return PluginError(f"{source}: `{field}` of its spec is {shown(given)}: it must be {needed}")


def _check_launcher(spec: LauncherSpec, source: str, found: list[Plugin]) -> None:
    _check_version(f"launcher {shown(spec.name)}", spec.contract_version)
    if not isinstance(spec.name, str) or not spec.name.replace("-", "_").isidentifier():
        raise PluginError(
            f"{source}: the name of its launcher is {shown(spec.name)}, which is not a valid name "
            "(letters, digits and underscores)."
        )
    _check_loadable("load", spec.load, source)
    for plugin in found:
        if plugin.launcher is not None and plugin.launcher.name == spec.name:
            raise PluginError(
                f"a launcher {spec.name!r} is already registered by {plugin.source}: disable one "
                "of them with UNIDEV_DISABLED_PLUGINS."
            )


def _check_alone(spec: BackendSpec, found: list[Plugin]) -> None:
    for plugin in found:
        if plugin.spec is None:
            continue
        # NumPy's tensors may be taken over, since the embedded plugin cannot be switched off.
        is_common = plugin.name != EMBEDDED and plugin.spec.framework == spec.framework
        if plugin.spec.name == spec.name or is_common:
            what = f"a backend for {spec.framework}" if is_common else f"a backend {spec.name!r}"
            raise PluginError(
                f"{what} is already registered by {plugin.source}: disable one of them with "
                "UNIDEV_DISABLED_PLUGINS.",
                backend=spec.name,
            )
