"""Records frameworks from the moment that they are imported in a recording thread.

While any thread records, a finder is installed in ``sys.meta_path``. In such a thread, a framework
is imported through its backend, with simulated devices if configured, and recorded by the time the
import statement returns. Nothing can have moved before that.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from unidev.errors import UnidevError
from unidev.registry.discovery import backend_specs
from unidev.registry.loading import being_loaded, load_backend, loading_lock
from unidev.registry.observer import thread
from unidev.support.forking import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_lock = fork_safe_lock()
_users = 0


def start() -> None:
    """Install the finder until every ``start`` has been matched by a ``stop``."""
    global _users  # noqa: PLW0603  sys.meta_path is global, too
    backend_specs()  # first: an import that it makes must not ask a finder that needs its answer
    with _lock:
        _users += 1
        if _users == 1:
            sys.meta_path.insert(0, _finder)


def stop() -> None:
    """Undo one ``start``; the last one removes the finder."""
    global _users  # noqa: PLW0603  as above
    with _lock:
        _users -= 1
        if _users == 0:
            sys.meta_path.remove(_finder)


class _Finder:
    """Delegates to the other finders, and wraps the loaders of frameworks."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if thread.recorder is None or path is not None or name in sys.modules:
            return None
        backend = _backend_of(name)
        if backend is None or backend in being_loaded:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    if spec.loader is not None:
                        spec.loader = _Loader(backend, spec.loader)  # type: ignore[assignment]
                    return spec
        return None


class _Loader:
    """Loads a framework through its backend; if that fails, with its usual loader."""

    def __init__(self, backend: str, loader: Any) -> None:
        self._backend = backend
        self._loader = loader
        self._loaded: ModuleType | None = None
        self._spec: ModuleSpec | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The framework, if loading its backend has imported it; else an empty module."""
        _load(self._backend)
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


_finder = _Finder()


def _backend_of(module: str) -> str | None:
    for name, spec in backend_specs().items():
        if spec.framework == module:
            return name
    return None


def _load(backend: str) -> None:
    # Another thread that is loading a backend may wait for this import; waiting would deadlock.
    if not loading_lock.acquire(blocking=False):
        return
    try:
        load_backend(backend)
    except UnidevError as error:
        if thread.recorder is not None:
            thread.recorder.not_seen[backend] = str(error)
    finally:
        loading_lock.release()
