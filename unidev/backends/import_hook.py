"""Imports frameworks through their backends, and so with simulated devices.

``FrameworkFinder`` does so while it is in ``sys.meta_path``: ``unidev trace`` has one. ``activate``
prepares a process for programs that know nothing of unidev: that of ``unidev simulate``, and any
with ``UNIDEV_SIMULATE_AS``.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from unidev.backends import simulation
from unidev.backends.discovery import EMBEDDED, backend_specs, is_being_imported, is_complete
from unidev.backends.loading import (
    being_loaded,
    is_installed,
    load_backend,
    loading_lock,
    refusal_of,
    simulator_of,
)
from unidev.errors import SimulationError, UnidevError, UnsupportedOperation
from unidev.system.printing import say_if_possible
from unidev.system.settings import SIMULATE_AS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from unidev.contract.backend_spec import BackendSpec, SimulatedGpus


class _Asking(threading.local):
    """Whether a finder asks the others, in this thread."""

    is_active = False


class FrameworkFinder:
    """Delegates to the other finders, and wraps the loaders of frameworks."""

    def __init__(self) -> None:
        self._asking = _Asking()

    def is_wanted(self) -> bool:
        """Whether a framework imported now, in this thread, is loaded through its backend."""
        return True

    def could_not_load(self, backend: str, error: UnidevError) -> None:
        """Handle the error of a backend; unless this raises, the framework is imported as usual."""
        raise NotImplementedError

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a framework, with a loader that loads its backend."""
        if path is not None or name in sys.modules or self._asking.is_active:
            return None
        if not self.is_wanted():
            return None
        backend = next((each for each in _specs() if each.framework == name), None)
        if backend is None or _is_imported_by(backend):
            return None
        spec = self.spec_of_others(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(self, backend.name, spec.loader)  # type: ignore[assignment]
        return spec

    def spec_of_others(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        """The spec that the first of the other finders has."""
        self._asking.is_active = True  # others ask all finders as well, this one among them
        try:
            for finder in sys.meta_path.copy():
                if finder is not self and hasattr(finder, "find_spec"):
                    spec = finder.find_spec(name, path, target)
                    if spec is not None:
                        return spec
            return None
        finally:
            self._asking.is_active = False

    def load(self, backend: str) -> bool:
        """Load ``backend``, unless another thread is loading one; returns whether it tried."""
        # That one may wait for this import; waiting for it would deadlock.
        if not loading_lock.acquire(blocking=False):
            return False
        try:
            load_backend(backend)
        except UnidevError as error:
            self.could_not_load(backend, error)
        finally:
            loading_lock.release()
        return True


class _Loader:
    """Loads a framework through its backend; if that fails, with its usual loader."""

    def __init__(self, finder: FrameworkFinder, backend: str, loader: Any) -> None:
        self._finder = finder
        self._backend = backend
        self._loader = loader
        self._loaded: ModuleType | None = None
        self._spec: ModuleSpec | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The framework, if loading its backend has imported it; else an empty module."""
        self._finder.load(self._backend)
        self._loaded = sys.modules.get(spec.name)
        if self._loaded is not None:
            self._spec = self._loaded.__spec__
            return self._loaded
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module if necessary, and restore its own loader and spec."""
        if self._loaded is not None:
            module.__spec__ = self._spec
            return
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)


def activate() -> None:
    """Give this process the simulated GPUs that its environment requests, before any import.

    With ``UNIDEV_SIMULATE_AS`` as ``activate_name``; without it, each framework is imported through
    its backend, and so with simulated devices. Once is enough.

    Raises:
        SimulationError: too late for a framework that is imported already; says what to do.
    """
    if os.environ.get(SIMULATE_AS, "").strip():
        activate_name()
    elif _unnamed not in sys.meta_path:
        _specs()  # first: an import that it makes must not ask a finder that needs its answer
        sys.meta_path.insert(0, _unnamed)
        _unnamed.catch_up()


def activate_name() -> None:
    """Have each framework that can bear ``UNIDEV_SIMULATE_AS`` prepare its import.

    Another is imported as it is, and a line on stderr says why it has no simulated GPUs. A wrong
    value of a variable is raised when a framework is imported, or a backend loaded: a Python that
    uses neither, such as the ``pip`` of a script, runs as ever.

    Raises:
        SimulationError: as ``activate``; or this process was prepared for other GPUs.
    """
    if not os.environ.get(SIMULATE_AS, "").strip():
        return
    if _named in sys.meta_path:
        _named.check_same()
    else:
        sys.meta_path.insert(0, _named)
        _named.prepare()


def deactivate() -> None:
    """Undo ``activate_name`` in a process that only starts the one with the simulated GPUs."""
    if _named in sys.meta_path:
        sys.meta_path.remove(_named)


def check_possible(gpus: SimulatedGpus) -> None:
    """Raise SimulationError if no installed framework can have them; imports none."""
    reasons = []
    for backend, spec in sorted(backend_specs().items()):
        if gpus.name is not None and backend == EMBEDDED:
            continue  # NumPy bears no name, so it has no objection to any
        if is_installed(spec.framework):
            try:
                reason = refusal_of(spec, gpus)
            except UnidevError as error:
                reason = str(error)
        else:
            reason = f"{spec.framework} is not installed; install it with: {spec.install}"
        if reason is None:
            return
        reasons.append(f"\n  {backend}: {reason.rstrip('.')}.")
    what = "no installed framework can have these simulated GPUs."
    none = "\n  no framework is installed with its plugin: see `unidev info`."
    raise SimulationError(what + ("".join(reasons) or none))


class _UnnamedFinder(FrameworkFinder):
    """Simulated devices, called what they are called, for a program that imports a framework."""

    def catch_up(self) -> None:
        """Load the backends of frameworks that are imported already."""
        for spec in _specs() if self.is_wanted() else ():
            if sys.modules.get(spec.framework) is not None:
                self.load(spec.name)

    def load(self, backend: str) -> bool:
        """Load ``backend``; say so if that is not possible at the moment."""
        is_tried = super().load(backend)
        if not is_tried:
            _say_without(backend, "another thread is loading a backend at the same time")
        return is_tried

    def is_wanted(self) -> bool:
        """Not with ``UNIDEV_SIMULATE=0``, which a program may set for its children."""
        try:
            return simulation.simulated_count() > 0
        except SimulationError:  # the backend raises it
            return True

    def could_not_load(self, backend: str, error: UnidevError) -> None:
        """Raise what keeps the user from simulated GPUs; of the rest, say why there are none."""
        if isinstance(error, SimulationError):
            raise error
        reason = error.reason if isinstance(error, UnsupportedOperation) else str(error)
        _say_without(backend, reason)


class _NamedFinder(FrameworkFinder):
    """Has frameworks prepare the name that the user gives to simulated GPUs."""

    def __init__(self) -> None:
        super().__init__()
        self._gpus: SimulatedGpus | None = None
        """What was prepared; None until then."""
        self._is_preparing = False
        self._wrong: dict[str, str] = {}
        """By framework: why importing it raises an error."""
        self._refused: dict[str, tuple[str, str]] = {}
        """By framework: its backend, and why it has no simulated GPUs."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None, after what is to be said about a framework has been said."""
        if path is not None or name in sys.modules or self._is_preparing or self._asking.is_active:
            return None
        was_prepared = self._gpus is not None
        if not was_prepared:
            self.prepare()
        if name in self._wrong:
            raise SimulationError(self._wrong[name])
        if name in self._refused:
            backend, reason = self._refused.pop(name)
            _say_without(backend, reason)
        # Finders that were added meanwhile come before this one: Python has passed them.
        return None if was_prepared else self.spec_of_others(name, path, target)

    def prepare(self) -> None:
        """Ask each simulator for its refusal, and have the others prepare.

        The next import tries again where a plugin is half imported, since it was the plugin that
        imported unidev, and after a wrong value, which ``unidev.simulate`` may correct.
        """
        if self._is_preparing:
            return
        self._is_preparing = True
        self._wrong.clear()
        try:
            specs = _specs()
            try:
                gpus = simulation.simulated_gpus()
            except SimulationError as error:
                self._wrong = {spec.framework: str(error) for spec in specs}
                return
            if gpus is not None and is_complete():  # None: the program has removed the variables
                self._gpus = simulation.prepared = gpus
                for spec in specs:
                    self._prepare_one(spec, gpus)
        finally:
            self._is_preparing = False

    def _prepare_one(self, spec: BackendSpec, gpus: SimulatedGpus) -> None:
        is_imported = sys.modules.get(spec.framework) is not None
        try:
            reason = refusal_of(spec, gpus)
            if reason is None:
                simulator_of(spec).before_import(gpus)
        except SimulationError as error:
            if is_imported:  # no import will raise it later
                self._gpus = simulation.prepared = None
                sys.meta_path.remove(self)
                raise
            self._wrong[spec.framework] = str(error)
            return
        except Exception as error:  # noqa: BLE001  a plugin may raise anything; others still work
            reason = f"its plugin fails: {error!r}"
        if reason is not None and is_imported:
            _say_without(spec.name, reason)
        elif reason is not None:
            self._refused[spec.framework] = spec.name, reason

    def check_same(self) -> None:
        """Raise SimulationError if other GPUs are requested now than were prepared."""
        if self._gpus is None or simulation.simulated_gpus() == self._gpus:
            return
        settings = " ".join(f"{k}={v}" for k, v in simulation.settings_of(self._gpus).items())
        raise SimulationError(
            f"this process was started with {settings}, which it keeps: start Python with the "
            "settings that you want, or request the same."
        )


_unnamed = _UnnamedFinder()
_named = _NamedFinder()


def _specs() -> list[BackendSpec]:
    return list(backend_specs().values())


def _is_imported_by(backend: BackendSpec) -> bool:
    """Whether it is the backend itself that imports its framework now."""
    if backend.name in being_loaded:
        return True
    return isinstance(backend.load, str) and is_being_imported(backend.load.partition(":")[0])


def _say_without(backend: str, reason: str) -> None:
    say_if_possible(f"{backend} is imported without simulated GPUs: {reason.rstrip('.')}.")
