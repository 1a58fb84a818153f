"""Work that is done later than it seems, and sources that are kept for longer."""

from __future__ import annotations

from typing import Any

import numpy as np

from mutants.mutant import mutant, replace, replace_value
from unidev.backends.numpy_backend import simulated_array
from unidev.backends.numpy_backend.probe import NumpyProbe
from unidev.backends.numpy_backend.simulated_array import SimulatedArray
from unidev.contract import unsupported


def _queue_copies(backend: Any, *, waits: bool, also_blocking: bool = False) -> None:
    """Fill a copy when it is read, or, if ``synchronize`` waits, when that is called."""

    copy, read_now, wait = backend.copy_to, NumpyProbe.read, backend.synchronize
    queue: list[Any] = []

    def run(which: Any = None) -> None:
        for made, source in [each for each in queue if which is None or each[0] is which]:
            made.view(np.ndarray)[...] = source.view(np.ndarray)
        queue[:] = [each for each in queue if which is not None and each[0] is not which]

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        source = copy(self, x, device, non_blocking)
        if not (non_blocking or also_blocking) or source.dtype.kind in "USV":
            return source
        made = copy(self, source, device, False)
        made.view(np.ndarray)[...] = 0
        queue.append((made, source))
        return made

    @replace(NumpyProbe)
    def read(self: Any, x: Any) -> bytes:
        run(x)
        return read_now(self, x)

    @replace(backend)
    def synchronize(self: Any, device: Any) -> None:
        wait(self, device)
        if waits:
            run()


@mutant("copy.arrived")
def no_copy_is_waited_for(backend):
    """A copy is queued also without ``non_blocking``: JAX's ``device_put``."""
    _queue_copies(backend, waits=True, also_blocking=True)


@mutant("copy.non_blocking")
def synchronize_does_nothing(backend):
    """The queue goes on: ``synchronize`` of another stream, or of the current device alone."""
    _queue_copies(backend, waits=False)


@mutant("copy.non_blocking", result="pass")
def copies_are_queued(backend):
    """Nothing is broken: copies arrive later, ``synchronize`` waits, and sources are read first."""
    _queue_copies(backend, waits=True)


@mutant("copy.non_blocking", around="copy_to")
def non_blocking_copies_are_shared(copy, self, x, device, non_blocking):
    """``non_blocking`` saves the copy: ``x.to(device, non_blocking=True)`` on the same device."""
    if non_blocking and self.device_of(x) is device:
        return x.view()
    return copy(self, x, device, non_blocking)


@mutant("create.from_numpy_without_aliasing")
def uploads_read_the_array_later(backend):
    """``array`` returns before it has copied: the array may have changed by then."""

    make, read_now = backend.from_numpy, NumpyProbe.read
    queue: list[tuple[Any, Any]] = []

    @replace(backend)
    def from_numpy(self, array, dtype, device):
        made = make(self, array, dtype, device)
        queue.append((made, array))
        return made

    @replace(NumpyProbe)
    def read(self, x):
        for made, array in queue:
            if made is x:
                made.view(np.ndarray)[...] = array
        queue[:] = [each for each in queue if each[0] is not x]
        return read_now(self, x)


@mutant("memory.source_is_released", around="copy_to")
def sources_are_kept_alive(copy, self, x, device, non_blocking):
    """Each copy holds what it was copied from, as a graph does that was not detached."""
    made = copy(self, x, device, non_blocking)
    if isinstance(made, SimulatedArray):
        made.copied_from = x  # type: ignore[attr-defined]
    return made


@mutant("memory.source_is_released")
def sources_of_integers_are_kept_alive(backend):
    """Copies are declared to keep sources for their gradients, and keep also those without any."""
    replace_value(backend, "releases_source", unsupported("a gradient may be asked for"))
    sources_are_kept_alive.breaks(backend)


@mutant("queued.behind_queued_work")
def results_wait_for_nothing(backend):
    """What is computed is there when it is read, and not when it is copied: two queues."""

    compute, copy = simulated_array._on_one_device, backend.copy_to
    results: list[Any] = []

    def remember(function, args, options, name):
        results.append(compute(function, args, options, name))
        return results[-1]

    @replace(backend)
    def copy_to(self, x, device, non_blocking):
        made = copy(self, x, device, non_blocking)
        if non_blocking and any(x is each for each in results):
            made.view(np.ndarray)[...] = 0
        return made

    replace_value(simulated_array, "_on_one_device", remember)
