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

from unidev.contract import hookspecs
from unidev.contract.backend import CONTRACT_VERSION, BackendSpec
from unidev.contract.optional import names_an_object
from unidev.errors import BackendNotFoundError, PluginError
from unidev.support.wording import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = "unidev"
EMBEDDED = "numpy"
OURS = ("mxnet", "paddle", "tensorflow", "torch")
"""The plugins of unidev's own repository."""
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


_lock = threading.RLock()
_found: list[Plugin] | None = None


def find_plugins() -> list[Plugin]:
    """Every plugin there is, broken and disabled ones too, in the order they were tried."""
    global _found  # noqa: PLW0603  found once a process, when first asked for
    if _found is None:
        with _lock:
            if _found is None:
                found: list[Plugin] = []
                disabled = _names_in("UNIDEV_DISABLED_PLUGINS")
                for point in plugin_points():
                    found.append(_try_plugin(point, found, disabled))
                _found = found
    return list(_found)


def plugin_points() -> Iterator[EntryPoint]:
    """Where each plugin would be loaded from, NumPy's first; imports none of them."""
    installed = sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    named = (
        EntryPoint(source.rpartition(":")[2], source, GROUP)
        for source in _names_in("UNIDEV_PLUGINS")
    )
    seen: set[str] = set()
    for point in (EntryPoint(EMBEDDED, "unidev.numpy_backend", GROUP), *installed, *named):
        if point.value not in seen:  # one plugin found on two ways is one plugin
            seen.add(point.value)
            yield point


def backend_specs() -> dict[str, BackendSpec]:
    """The specs of the plugins that work, by the backend's name."""
    return {plugin.spec.name: plugin.spec for plugin in find_plugins() if plugin.spec is not None}


def backend_spec(name: str) -> BackendSpec:
    """The spec of backend ``name``.

    Raises:
        BackendNotFoundError: there is none; says what is there.
        PluginError: its plugin is broken; says how.
    """
    specs = backend_specs()
    if name in specs:
        return specs[name]
    for plugin in find_plugins():
        if plugin.name == name and plugin.failure is not None:
            raise PluginError(
                f"the plugin of backend {name!r} ({plugin.source}) is broken: {plugin.failure}. "
                f"`unidev info` shows its traceback. {_remedy(plugin)}, or switch it off with "
                f"UNIDEV_DISABLED_PLUGINS={name}.",
                backend=name,
            )
        if plugin.name == name and plugin.is_disabled:
            raise BackendNotFoundError(
                f"backend {name!r} is switched off by UNIDEV_DISABLED_PLUGINS; take it out of "
                "there.",
                backend=name,
            )
    raise BackendNotFoundError(_not_found(name, sorted(specs)), backend=name)


def _remedy(plugin: Plugin) -> str:
    if plugin.distribution is None:
        return "Is it spelled right in UNIDEV_PLUGINS, and is it on PYTHONPATH?"
    return f"Install {plugin.distribution} again, or a newer one"


def _not_found(name: str, there: list[str]) -> str:
    from difflib import get_close_matches

    message = f"there is no backend {shown(name)}; there are: {', '.join(there)}."
    for plugin in find_plugins():
        if plugin.failure is not None:
            message += f" Broken is the plugin {plugin.source}: {plugin.failure}."
    meant = get_close_matches(str(name).lower(), [*there, *OURS], 1)
    if meant and meant[0] in there:
        return f"{message} Did you mean {meant[0]!r}?"
    ours = meant[0] if meant else "torch"
    return (
        f"{message} Each framework has a plugin of its own: `pip install "
        f"'./plugins/unidev-{ours}[framework]'` in unidev's repository. `unidev info` lists what "
        "is installed."
    )


def _names_in(variable: str) -> list[str]:
    names = (name.strip() for name in os.environ.get(variable, "").split(","))
    return list(dict.fromkeys(name for name in names if name))


def _try_plugin(point: EntryPoint, found: list[Plugin], disabled: list[str]) -> Plugin:
    distribution = f"{point.dist.name} {point.dist.version}" if point.dist else None
    if point.name in disabled and point.name != EMBEDDED:
        return Plugin(point.name, point.value, distribution, is_disabled=True)
    try:
        if not all(part.isidentifier() for part in point.value.replace(":", ".").split(".")):
            raise PluginError(f"{shown(point.value)} is neither `module` nor `module:attribute`.")
        spec = _registered(point.load(), point.value)
        _check_fields(spec, point.value)
        _check_alone(spec, found)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a stranger's import can raise anything
        failure = " ".join(f"{type(error).__name__}: {error}".split())
        trace = "".join(traceback.format_exception(error))
        return Plugin(point.name, point.value, distribution, failure=failure, traceback=trace)
    return Plugin(point.name, point.value, distribution, spec)


def _registered(plugin: object, source: str) -> BackendSpec:
    # A manager for each: what a broken plugin leaves behind in one would be the next one's problem.
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin)
    manager.check_pending()  # a misspelt hook is an error, not a plugin without one
    implementations = getattr(manager.hook, _HOOK).get_hookimpls()
    if not implementations:
        raise PluginError(
            f"{source} has no @unidev.hookimpl function named {_HOOK}, so it registers no backend."
        )
    value = implementations[0].function()
    if not isinstance(value, BackendSpec):
        raise PluginError(f"{source} returned {shown(value)} from {_HOOK}, and no BackendSpec.")
    return value


def _check_fields(spec: BackendSpec, source: str) -> None:
    if spec.contract_version != CONTRACT_VERSION:
        raise PluginError(
            f"backend {spec.name!r} was written for version {spec.contract_version} of the "
            f"contract, this unidev speaks version {CONTRACT_VERSION}: install two that fit.",
            backend=spec.name,
        )
    roots = (spec.framework, *spec.namespaces)
    # A name that is no string would break every list of names, not only its own backend.
    for field, value in (("name", spec.name), *(("framework", root) for root in roots)):
        plain = value.replace("-", "_") if field == "name" and isinstance(value, str) else value
        if not isinstance(plain, str) or not plain.isidentifier():
            raise PluginError(
                f"{source}: the {field} of its spec is {shown(value)}, which is no name (letters, "
                "digits and underscores; of a framework, that of the top-level module)."
            )
    for field, given in (("load", spec.load), ("simulator", spec.simulator)):
        if not (names_an_object(given) if isinstance(given, str) else callable(given)):
            raise PluginError(
                f"{source}: `{field}` of its spec is {shown(given)}: it must be a function, or "
                f'"module:name" of the class.'
            )


def _check_alone(spec: BackendSpec, found: list[Plugin]) -> None:
    for plugin in found:
        if plugin.spec is None:
            continue
        # NumPy's tensors may be taken over, since the embedded plugin cannot be switched off.
        is_common = plugin.name != EMBEDDED and plugin.spec.framework == spec.framework
        if plugin.spec.name == spec.name or is_common:
            what = f"the tensors of {spec.framework} have" if is_common else f"{spec.name!r} is"
            raise PluginError(
                f"{what} a backend already, by {plugin.source}: switch one of them off with "
                "UNIDEV_DISABLED_PLUGINS.",
                backend=spec.name,
            )
