"""Backends that are wrong the second time: after a drop, a scope, a step, or another call alike.

Each keeps something that it should have made anew, or forgets to forget it.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

from mutants.mutant import around, in_place_of, mutant, replace, torch_mutant
from unidev.backends import scopes
from unidev.tensors import transfer
from unidev.tensors.checks import same_device
from unidev.tensors.containers import replace_tensors
from unidev.tensors.converting import convert
from unidev.tensors.creating import to_numpy
from unidev.tensors.devices import default_device

TENSORS = "sequences.of_tensors"
SMALL = 4096
"""Bytes of what small caches keep, which a count of allocated bytes does not show."""


class Kept:
    """Objects by key, as long as somebody else has them."""

    def __init__(self) -> None:
        self._found: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        """The object, or None."""
        found = self._found.get(key)
        return found and found()

    def put(self, key: Any, value: Any) -> Any:
        """``value``, which is kept."""
        self._found[key] = weakref.ref(value)
        return value


class KeptOf:
    """Something for each object, as long as that is there."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, Any]] = {}

    def get(self, x: Any) -> Any:
        """What is kept for ``x``, or None."""
        known, value = self._found.get(id(x), (lambda: None, None))
        return value if known() is x else None

    def put(self, x: Any, value: Any) -> Any:
        """``value``, which is kept."""
        self._found[id(x)] = weakref.ref(x), value
        return value


def _owner(x: Any) -> Any:

    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


@mutant(TENSORS)
def a_second_copy_is_the_first(backend):
    """What was copied to a device is there, and is not copied again while it is the same."""
    kept = Kept()

    @around(backend)
    def copy_to(copy, self, x, device, non_blocking):
        key = id(_owner(x)), x.shape, x.strides, device
        found = kept.get(key)
        if (
            found is None
            or self.device_of(x) is device
            or (found.shape, found.dtype) != (x.shape, x.dtype)
            or found.tobytes() != x.tobytes()
        ):
            return kept.put(key, copy(self, x, device, non_blocking))
        return found.view()


@mutant(TENSORS)
def coming_home_is_the_original(backend):
    """A copy that goes back to where it came from finds the bytes there: unified memory."""

    origins: dict[int, tuple[Any, Any]] = {}

    @around(backend)
    def copy_to(copy, self, x, device, non_blocking):
        made_of, origin = (ref() for ref in origins.get(id(x), (lambda: None, lambda: None)))
        if (
            made_of is x
            and origin is not None
            and self.device_of(origin) is device
            and origin.tobytes() == x.tobytes()
        ):
            return origin.view()
        made = copy(self, x, device, non_blocking)
        if type(x) in (np.ndarray, type(made)):
            origins[id(made)] = weakref.ref(made), weakref.ref(x)
        return made


@mutant(TENSORS)
def copies_in_threads_set_the_default(backend):
    """A copy made in another thread leaves its device current for all: ``paddle.set_device``."""

    copy, made_there = backend.copy_to, []

    @replace(backend)
    def copy_to(self, x, device, non_blocking):
        made = copy(self, x, device, non_blocking)
        if threading.current_thread() is not threading.main_thread() and device.kind == "gpu":
            made_there[:] = [weakref.ref(made)]
        return made

    @in_place_of(default_device)
    def default(device=None):
        found = default_device(device)
        last = made_there[0]() if device is None and made_there else None
        return found if last is None or found.kind != "cpu" else last.simulated_device


@mutant(TENSORS)
def blocks_go_back_while_views_use_them(backend):
    """A dropped tensor's memory is given to the next one, whoever has a view of it: a pool."""
    place, free = backend._on, []

    def give_back(block):
        free[:] = [*free[-3:], block]

    @replace(backend)
    def _on(self, array, device):
        if device.kind == "cpu" or array.nbytes > SMALL or array.dtype.kind in "USV":
            return place(self, array, device)
        fit = [n for n, x in enumerate(free) if (x.shape, x.dtype) == (array.shape, array.dtype)]
        block = free.pop(fit[0]) if fit else array
        block[...] = array
        made = place(self, block, device)
        weakref.finalize(made, give_back, block)
        return made


@mutant(TENSORS)
def comparing_sets_the_default(backend):
    """``same_device`` looks from a tensor's device, and comes back with the next call or tensor."""

    looked_at: list[Any] = []

    @in_place_of(same_device)
    def compared(*xs):
        looked_at[:] = [weakref.ref(x) for x in xs if hasattr(x, "simulated_device")]
        return same_device(*xs)

    @in_place_of(default_device)
    def default(device=None):
        found = default_device(device)
        last = looked_at.pop()() if device is None and looked_at else None
        return found if last is None or found.kind != "cpu" else last.simulated_device


@mutant(TENSORS)
def waiting_again_copies_again(backend):
    """``synchronize`` runs the queue, and leaves it as it is: the replay of a captured graph."""

    copy, wait = backend.copy_to, backend.synchronize
    queue: list[list[Any]] = []

    @replace(backend)
    def copy_to(self, x, device, non_blocking):
        made = copy(self, x, device, non_blocking)
        if non_blocking and 0 < x.nbytes < SMALL and x.dtype.kind not in "USV":
            queue.append([weakref.ref(made), made.view(np.ndarray).copy(), False])
        return made

    @replace(backend)
    def synchronize(self, device):
        wait(self, device)
        for each in queue:
            made, values, has_run = each
            if has_run and made() is not None:
                made().view(np.ndarray)[...] = values
            each[2] = True


@mutant(TENSORS, everywhere="unidev.backends.scopes:leave_scope")
def scopes_of_one_device_are_one(leave, owner, *exc_info):
    """Leaving a scope within a scope of the same device leaves both: MXNet's ``Context`` object."""
    leave(owner, *exc_info)
    for each in scopes.stack.scopes:
        if each.owner is owner:
            each.device = None


@mutant(TENSORS, everywhere="unidev.backends.scopes:innermost_device")
def only_two_scopes_count(sound, name):
    """A third scope, within two others, is not looked at."""
    found = [each.device for each in scopes.stack.scopes if each.device is not None]
    return found[:2][-1] if found and found[0].backend == name else None


@mutant(TENSORS)
def what_was_read_is_kept(backend):
    """``to_numpy`` reads a tensor again if its first element has changed: a mirror on the host."""

    kept = KeptOf()

    @in_place_of(to_numpy)
    def read(x):
        found, now = kept.get(x), to_numpy(x)
        is_as_before = found is not None and found[:1].tobytes() == now.ravel()[:1].tobytes()
        return (found if is_as_before else kept.put(x, now.ravel())).reshape(now.shape).copy()


@mutant(TENSORS)
def the_way_back_is_remembered(backend):
    """``as_in_device`` back to where a tensor came from gives the one that it was made of."""

    move = transfer.moved
    sources = KeptOf()

    @in_place_of(move)
    def moved(operation, x, target, backend, non_blocking=False):
        source = (sources.get(x) or (lambda: None))()
        if source is not None and backend.device_of(source) is target:
            return source
        made = move(operation, x, target, backend, non_blocking)
        if made is not x:
            sources.put(made, weakref.ref(x))
        return made


@mutant(TENSORS)
def containers_share_a_memo(backend):
    """What one container's copy has copied, the next one's finds: ``deepcopy``'s memo, kept."""

    kept = KeptOf()

    @in_place_of(replace_tensors)
    def mapped(function, tree, **how):
        def once(x, backend):
            made = function(x, backend)
            found = (kept.get(x) or (lambda: None))()
            if (
                found is None
                or backend.device_of(found) is not backend.device_of(made)
                or found.tobytes() != made.tobytes()
            ):
                kept.put(x, weakref.ref(made))
                return made
            return found.view()

        return replace_tensors(once, tree, **how)


@torch_mutant(TENSORS, profile="tensor")
def a_second_conversion_is_the_first(backend):
    """What a tensor was converted to is given again, although ``copy=True``: a cache of views."""

    kept = KeptOf()

    @in_place_of(convert)
    def converted(x, /, to, *, device=None, copy=None):
        key = to, str(device)
        known = kept.get(x) or {}
        found = known.get(key, lambda: None)()
        if found is None:
            found = convert(x, to, device=device, copy=copy)
            kept.put(x, {**known, key: weakref.ref(found)})
        return found
