"""Loads backends, and finds the backend that a type belongs to."""

from __future__ import annotations

import sys
import weakref

from unidev.backends.observer import thread
from unidev.device import registry
from unidev.errors import (
    FrameworkNotInstalledError,
    PluginError,
    SimulationError,
    UnidevError,
    UnsupportedOperation,
)
from unidev.system.forking import come_first, fork_safe_lock
from unidev.system.wording import error_text, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from unidev.contract.backend import Backend, Children, ContainerFunctions
    from unidev.contract.backend_spec import BackendSpec, SimulatedGpus, Simulator
    from unidev.contract.group_engine import GroupSetting
    from unidev.device import Device

loaded_backends: dict[str, Backend] = {}
"""Our own table: an entry of ``sys.modules`` may be half initialised."""

new_containers: list[tuple[type | str, ContainerFunctions | None]] = []
"""Containers of the backends that were loaded, until they are registered."""

openers: dict[str, Callable[[object], Children | None]] = {}
"""The ``opened`` of each loaded backend that has one of its own, by its name."""

judges: dict[str, Callable[[object], bool]] = {}
"""The ``is_model`` of each loaded backend that has one of its own, by its name."""

backends_by_type: dict[type, Backend] = {}
"""The backend of each tensor type seen so far.

An entry cannot go stale, because the modules of a type's bases determine its backend. Tensor types
are few, and live as long as their modules.
"""

device_getters: dict[type, Callable[[Any], Device]] = {}
"""The hottest path: the backend's ``device_of`` by tensor type; same keys as above."""

copiers: dict[type, Callable[[Any, Any], Any]] = {}
"""The backend's ``copy_if_there`` by tensor type; same keys as above."""

_backends_by_model_type: weakref.WeakKeyDictionary[type, Backend] = weakref.WeakKeyDictionary()
"""The same for models, whose classes are the users' own and may be garbage-collected."""

_types_of_no_tensor: weakref.WeakSet[type] = weakref.WeakSet()
loading_lock = fork_safe_lock(is_outermost=True)
simulators: dict[str, Simulator] = {}
"""The simulators that were started in this process, by the name of the backend."""
being_loaded: set[str] = set()
"""Backends whose framework is being imported; read only while holding ``loading_lock``."""


def load_backend(name: str) -> Backend:
    """The backend ``name``; its framework is imported the first time.

    Raises:
        BackendNotFoundError: there is no such backend.
        FrameworkNotInstalledError: the framework is not installed; gives the command.
        PluginError: the framework or the plugin fails to import, or lacks methods.
        SimulationError: simulated devices were requested, and are not available.
    """
    backend = loaded_backends.get(name)
    if backend is None:
        come_first()
        with loading_lock:
            backend = loaded_backends.get(name)
            is_new = backend is None
            backend = backend or _load(name)
            loaded_backends[name] = backend
        new_containers.extend(backend.containers.items())
        from unidev.contract.backend import Backend

        if type(backend).opened is not Backend.opened:
            openers[backend.name] = backend.opened
        if type(backend).is_model is not Backend.is_model:
            judges[backend.name] = backend.is_model
        for cls in backend.tensor_types:  # now: torch.compile could not follow it later
            backend_of_type(cls)
        if thread.recorder is not None:
            thread.recorder.add(backend)
        if is_new and (backend.spec.tested_until is not None or backend.spec.is_adapted):
            from unidev.backends.versions import warn_of_versions

            warn_of_versions(backend)
    return backend


def backend_of_type(cls: type) -> Backend | None:
    """The backend whose tensors are of class ``cls``, or None; the answer is cached."""
    backend = backends_by_type.get(cls)
    if backend is not None or cls in _types_of_no_tensor:
        return backend
    found = (each for each in backends_of_namespace(cls) if issubclass(cls, each.tensor_types))
    backend = next(found, None)
    if backend is None:
        _types_of_no_tensor.add(cls)
        return None
    backends_by_type[cls] = backend
    copiers[cls] = backend.copy_if_there
    device_getters[cls] = backend.device_of  # last: a thread that sees it also sees the others
    return backend


def backend_of_namespace(cls: type) -> Backend | None:
    """The first of ``backends_of_namespace``."""
    return next(backends_of_namespace(cls), None)


def backends_of_namespace(cls: type) -> Iterator[Backend]:
    """The backend whose framework defines ``cls`` or one of its bases; loads it if necessary.

    Where only a namespace tells, which may belong to several frameworks, as Keras does: each of
    them that the program has imported, those first that are loaded; of these the one registered
    last, as a backend on top of another's classes is.

    A class of a framework exists only if the framework is imported already, so this never imports
    a framework that the program does not use.
    """
    from unidev.backends.discovery import backend_specs

    roots = [str(getattr(base, "__module__", "")).partition(".")[0] for base in cls.__mro__]
    if set(roots) <= {"builtins"}:
        return
    specs = list(backend_specs().values())
    frameworks = {spec.framework: spec.name for spec in specs}
    for root in roots:
        if root in frameworks:
            yield load_backend(frameworks[root])
            return
    names = [
        spec.name
        for root in dict.fromkeys(roots)
        for spec in reversed(specs)
        if root in (*spec.namespaces, spec.plugin) and spec.framework in sys.modules
    ]
    for name in sorted(names, key=lambda name: name not in loaded_backends):
        yield load_backend(name)


def backend_of_model_type(x: object) -> Backend | None:
    """The backend whose ``model_types`` include the class of ``x``, or whose ``is_model`` does.

    A backend with an ``is_model`` of its own judges objects of all classes but Python's own.
    """
    cls = type(x)
    backend = _backends_by_model_type.get(cls)
    if backend is not None:
        return backend
    found = (each for each in backends_of_namespace(cls) if isinstance(x, each.model_types))
    backend = next(found, None)
    if backend is None:  # not cached: a backend's `model_types` may grow
        if not judges or str(getattr(cls, "__module__", "")) == "builtins":
            return None
        return next((loaded_backends[name] for name, judge in judges.items() if judge(x)), None)
    _backends_by_model_type[cls] = backend
    return backend


def check_installed(spec: BackendSpec) -> None:
    """Raise FrameworkNotInstalledError if the framework of ``spec`` is not installed."""
    if not is_installed(spec.framework):
        raise FrameworkNotInstalledError(
            f"backend {spec.name!r} needs {spec.framework}, which is not installed. "
            f"Install it with: {spec.install}",
            backend=spec.name,
        )


def is_installed(framework: str) -> bool:
    """Whether the module ``framework`` could be imported; imports nothing."""
    from importlib.metadata import packages_distributions
    from importlib.util import find_spec

    if sys.modules.get(framework) is not None:  # a hand-made stand-in has no spec to find
        return True
    found = find_spec(framework)
    if found is None or found.origin is not None:
        return found is not None
    # A folder without __init__.py counts as a module: that of an installed framework, such as mlx,
    # one that an uninstalled framework has left behind, or the user's own of that name.
    return framework in packages_distributions()


def _load(name: str) -> Backend:
    from unidev.backends.discovery import backend_spec
    from unidev.backends.simulation import simulated_gpus
    from unidev.system.collecting import collection_paused

    spec = backend_spec(name)
    check_installed(spec)
    gpus = simulated_gpus()
    being_loaded.add(name)
    try:
        with collection_paused():  # no fork comes in between: it waits for the lock
            if gpus is not None and name not in simulators:
                simulators[name] = _started(spec, gpus)
            backend = load_class(spec)(spec, gpus.count if gpus is not None else 0)
            _check_declared(backend, spec)
            return backend
    except UnidevError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"backend {spec.name!r} does not load: {error_text(error)}. {_remedy(spec, error)}",
            backend=spec.name,
        ) from error
    finally:
        being_loaded.discard(name)


def _remedy(spec: BackendSpec, error: BaseException) -> str:
    """Where to look: the line of the plugin that raised ``error``, or the installation."""
    from traceback import walk_tb

    *_, (frame, line) = walk_tb(error.__traceback__)  # there is one: it was caught here
    is_own = str(frame.f_globals.get("__name__")).partition(".")[0] == spec.plugin
    of_unidev = str(getattr(error, "name", "")).startswith("unidev.")  # an import that it lacks
    if is_own and (of_unidev or not isinstance(error, ImportError | OSError)):
        return f"The plugin itself raised it, at line {line} of {frame.f_code.co_filename}."
    return (
        f"The installation of {spec.framework} may be incomplete. Reinstall it with: {spec.install}"
    )


def _started(spec: BackendSpec, gpus: SimulatedGpus) -> Simulator:
    from unidev.backends.discovery import EMBEDDED

    # NumPy's arrays go with every framework's tensors, so it is refused where it is selected.
    if spec.name != EMBEDDED:
        check_possible_for(spec, gpus)
    simulator = simulator_of(spec)
    simulator.start_as(gpus)
    return simulator


def check_possible_for(spec: BackendSpec, gpus: SimulatedGpus) -> None:
    """Raise SimulationError if the framework of ``spec`` cannot have ``gpus``; imports none.

    Raises:
        UnsupportedOperation: it has no simulator.
        PluginError: as ``simulator_of``.
    """
    reason = simulator_of(spec).refusal(gpus)
    if reason is not None:
        raise SimulationError(
            f"backend {spec.name!r} cannot have these simulated GPUs: {reason.rstrip('.')}."
        )


def simulator_of(spec: BackendSpec) -> Simulator:
    """A simulator of the framework of ``spec``; imports no framework.

    Raises:
        UnsupportedOperation: it has none; gives the reason.
        SimulationError: it is a distribution of its own, and not installed; gives the command.
        PluginError: the module or name that ``spec`` gives is missing.
    """
    missing = missing_simulator(spec)
    if missing is not None:
        raise SimulationError(f"no simulated GPUs for backend {spec.name!r}: {missing}")
    made = _named(spec, "simulator")()
    if not hasattr(made, "refusal"):  # which `Simulator` has
        raise _wrong(spec, "simulator", made, "a Simulator")
    return made  # type: ignore[no-any-return]


def missing_simulator(spec: BackendSpec) -> str | None:
    """How to install the simulator of ``spec``, if that is a distribution that is missing."""
    if spec.simulator_install is None or not isinstance(spec.simulator, str):
        return None
    module = spec.simulator.partition(":")[0].partition(".")[0]
    if is_installed(module):
        return None
    return f"{module} is not installed. Install it with: {spec.simulator_install}"


def refusal_of(spec: BackendSpec, gpus: SimulatedGpus) -> str | None:
    """Why the framework of ``spec`` cannot have ``gpus``; None if it can. Imports no framework."""
    try:
        return simulator_of(spec).refusal(gpus)
    except UnsupportedOperation as error:
        return error.reason


def load_class(spec: BackendSpec) -> type[Backend]:
    """The class of the backend that ``spec`` registers; imports its framework.

    Raises:
        PluginError: `load` gives no class of a backend, or one that lacks methods.
    """
    import re

    from unidev.contract.backend import MEMORY_NUMBERS, Backend

    given = _named(spec, "load")
    cls = given if isinstance(spec.load, str) else given()
    if not (isinstance(cls, type) and issubclass(cls, Backend)):
        raise _wrong(spec, "load", cls, "a subclass of Backend")
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise PluginError(
            f"{cls.__module__}.{cls.__qualname__}, of backend {spec.name!r}, lacks methods that "
            f"the contract requires: {', '.join(missing)}. See unidev/contract/backend.py.",
            backend=spec.name,
        )
    named = {name for part in cls.out_of_memory_numbers for name in re.findall("{(.*?)}", part)}
    if not named <= set(MEMORY_NUMBERS):
        raise PluginError(
            f"out_of_memory_numbers of backend {spec.name!r} names "
            f"{', '.join(sorted(named - set(MEMORY_NUMBERS)))} in braces; there are: "
            f"{', '.join(MEMORY_NUMBERS)}.",
            backend=spec.name,
        )
    return cls


def _check_declared(backend: Backend, spec: BackendSpec) -> None:
    """Raise PluginError where a class attribute of another kind would break calls later on."""
    if not hasattr(backend, "cpu"):
        raise _wrong(spec, "load", type(backend), "a class whose constructor calls Backend's")
    for name, needed, fits in (
        ("kinds", "names", lambda each: isinstance(each, str)),
        ("tensor_types", "classes", lambda each: isinstance(each, type)),
        # Of Exception: else Ctrl-C would be an error of the framework's.
        ("framework_errors", "classes of Exception", lambda each: Exception in each.__mro__),
    ):
        given = getattr(backend, name)
        if not isinstance(given, tuple) or not all(map(fits, given)):
            raise _wrong(spec, name, given, f"a tuple of {needed}")
    from unidev.contract.optional import Unsupported

    if not spec.is_traced and not isinstance(type(backend).tracer, Unsupported):
        raise _wrong(spec, "is_traced", spec.is_traced, "True: its backend has a tracer")
    for name in ("dtypes", "containers"):
        if not hasattr(given := getattr(backend, name), "items"):
            raise _wrong(spec, name, given, "a mapping")


def _wrong(spec: BackendSpec, field: str, given: object, needed: str) -> PluginError:
    message = f"`{field}` of backend {spec.name!r} gives {shown(given)}, not {needed}."
    return PluginError(message, backend=spec.name)


def group_setting(spec: BackendSpec) -> GroupSetting | None:
    """The requirements of that backend's engine on a launcher; None if there are none.

    Does not import its framework.

    Raises:
        PluginError: it is not a `GroupSetting`.
    """
    from unidev.contract.group_engine import GroupSetting
    from unidev.contract.optional import Unsupported

    if isinstance(spec.group_setting, Unsupported):
        return None
    found = _named(spec, "group_setting")()
    if not isinstance(found, GroupSetting):
        raise _wrong(spec, "group_setting", found, "a GroupSetting")
    return found


def _named(spec: BackendSpec, field: str) -> Any:
    """``field`` of ``spec``; if it is a string, the object that it names."""
    from unidev.contract.optional import import_named

    value = getattr(spec, field)
    if not isinstance(value, str):
        return value
    return import_named(value, f"`{field}` of backend {spec.name!r}", spec.name)


registry.load_backend = load_backend
