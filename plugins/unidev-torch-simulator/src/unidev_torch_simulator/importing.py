"""The import of torch: with devices named ``cuda``, and threads that neither spin nor linger."""

from __future__ import annotations

import atexit
import importlib.abc
import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_SPINS = "GOMP_SPINCOUNT"


@contextmanager
def short_spins() -> Iterator[None]:
    """Threads of GNU's OpenMP, if it is loaded in the block, do not wait in a loop.

    One team on as many cores spins, and starves what else runs there: a step took 15 times as long
    on two busy cores. Beside a second team, that of the thread in which torch runs backward on a
    GPU, OpenMP spins as briefly as here; under a trace, backward runs in the calling thread.
    """
    if not {_SPINS, "OMP_WAIT_POLICY"}.isdisjoint(os.environ):  # the user's own choice
        yield
        return
    os.environ[_SPINS] = "1000"  # OpenMP's own number where it has more threads than cores
    try:
        yield
    finally:
        del os.environ[_SPINS]


def settle_at_exit(ops: Any) -> None:
    """Let autograd's threads come to rest before Python ends, since it may kill them (engine.h).

    Args:
        ops: ``torch.ops.unidev_sim``.
    """
    process = os.getpid()

    def settle() -> None:
        if os.getpid() == process:  # a forked child has none of these threads
            ops.settle_engine()

    atexit.register(settle)


class _Asking(threading.local):
    """Whether the finder asks the others, in this thread."""

    is_active = False


class Finder(importlib.abc.MetaPathFinder):
    """Finds modules as Python does, and calls a function before and one after the import of each.

    Args:
        calls: for each module's name, a function called before the module is executed, whose
            error the import raises, and one called with the complete module.
    """

    def __init__(
        self, calls: Mapping[str, tuple[Callable[[], None], Callable[[Any], None]]]
    ) -> None:
        self._asking = _Asking()
        self._calls = calls

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of one of them, with a loader that makes the calls; None for all others."""
        if name not in self._calls or self._asking.is_active:
            return None
        self._asking.is_active = True  # others ask all finders as well, this one among them
        try:
            found = (
                finder.find_spec(name, path, target)
                for finder in sys.meta_path.copy()
                if finder is not self and hasattr(finder, "find_spec")
            )
            spec = next(filter(None, found), None)
        finally:
            self._asking.is_active = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, *self._calls[name])
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(
        self, loader: Any, before: Callable[[], None], after: Callable[[Any], None]
    ) -> None:
        self._loader = loader
        self._before = before
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._before()
        with short_spins():
            self._loader.exec_module(module)
        self._after(module)
