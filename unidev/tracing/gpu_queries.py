"""Records functions that see only real GPUs, called by a program while GPUs are simulated."""

from __future__ import annotations

import sys
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

from unidev.contract.tracer import Patches
from unidev.registry.observer import thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.contract.backend import Backend


@cache
def queries_of(backend: Backend) -> GpuQueries:
    """The one of ``backend``, which all threads share."""
    return GpuQueries(backend)


class GpuQueries(Patches):
    """The functions that ``Tracer.gpu_queries`` lists, replaced while a thread records."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self._backend = backend

    def replacements(self) -> Iterator[tuple[Any, str, Any]]:
        """Each as it is, but for the note."""
        for name, owner in self._backend.tracer.gpu_queries.items():
            attribute = name.rpartition(".")[2]
            if hasattr(owner, attribute):  # not in every version
                yield owner, attribute, self._noting(getattr(owner, attribute), name)

    def _noting(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        @wraps(function)
        def asked(*arguments: Any, **options: Any) -> Any:
            answer = function(*arguments, **options)
            recorder = thread.recorder
            if recorder is not None and not answer:
                recorder.note_gpu_query(name, self._backend, sys._getframe(1))
            return answer

        return asked
