"""``with device:`` that does not begin, does not end, or reaches too far."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any

from mutants.mutant import in_place_of, mutant, replace_value, torch_mutant, when_restored
from unidev.backends import scopes
from unidev.backends.scopes import innermost_device, leave_scope, stack


@mutant("create.scope_restores", "sequences.of_tensors")
def scope_never_ends(backend):
    """The device stays set after the block: ``paddle.set_device``, ``torch.cuda.set_device``."""

    in_place_of(leave_scope)(lambda owner, *exc_info: None)


@mutant("create.scope_restores")
def scope_does_nothing(backend):
    """New tensors pay no heed to the block: JAX's committed ones, ``torch.tensor`` before 2.0."""

    in_place_of(innermost_device)(lambda backend: None)


def _leave_unless(kind: type[BaseException]) -> None:

    @in_place_of(leave_scope)
    def leave(owner: object, *exc_info: Any) -> None:
        if not isinstance(exc_info[1] if exc_info else None, kind):
            leave_scope(owner, *exc_info)


@mutant("create.scope_restores_after_exception")
def scope_leaks_after_an_interrupt(backend):
    """``except Exception`` in the place of ``finally``: Ctrl-C goes past it."""
    _leave_unless(KeyboardInterrupt)


@torch_mutant("create.scope_is_the_frameworks_too", profile="tensor")
def native_scope_does_nothing(backend):
    """unidev's own tensors follow the block, and the framework's do not."""
    replace_value(backend, "native_scope", lambda self, device: nullcontext())


@torch_mutant("create.scope_restores_after_exception", profile="tensor")
def native_scope_stays_after_a_generator(backend):
    """unidev's scope ends with a generator, the framework's does not: ``except Exception``."""
    from contextlib import contextmanager

    native = backend.native_scope

    @contextmanager
    def scope(self, device):
        entered = native(self, device)
        entered.__enter__()
        try:
            yield
        except GeneratorExit:
            when_restored(lambda: entered.__exit__(None, None, None))
            raise
        except BaseException:
            entered.__exit__(None, None, None)
            raise
        else:
            entered.__exit__(None, None, None)

    replace_value(backend, "native_scope", scope)


@mutant("create.scopes_nest", everywhere="unidev.backends.scopes:leave_scope")
def inner_scope_ends_the_outer(leave_scope, owner, *exc_info):
    """Leaving the inner block goes back to the default: ``set_device`` of a constant on exit."""
    if len(scopes.stack.scopes) > 1:
        leave_scope(owner, *exc_info)
        scopes.stack.scopes[-1].device = None
    else:
        leave_scope(owner, *exc_info)


@mutant("threads.scope_stays_in_its_thread")
def scope_leaks_between_threads(backend):
    """One stack for all threads: Paddle's place is a global of its module."""

    replace_value(scopes, "get_ident", lambda: 1)
    in_place_of(scopes.context)(_OfProcess())


class _OfProcess:
    """A context variable that all contexts share."""

    value: Any = (1, ())

    def get(self) -> Any:
        return self.value

    def set(self, value: Any) -> None:
        self.value = value


@mutant("create.scopes_of_tasks")
def tasks_share_their_scopes(backend):
    """One stack for all tasks of a thread, as ``threading.local`` has it."""

    in_place_of(scopes.context)(_OfThread())


class _OfThread(_OfProcess, threading.local):
    """The same for each thread."""


@torch_mutant("create.scopes_of_tasks", profile="tensor")
def torchs_default_is_the_threads(backend):
    """``torch.device``'s mode stays for the other tasks, which unidev believes to be apart."""
    from torch.utils._device import DeviceContext

    from unidev_torch import scopes

    replace_value(scopes, "_OfTask", DeviceContext)


@mutant(
    "many.scope_per_device", simulated_count=4, everywhere="unidev.backends.scopes:innermost_device"
)
def scope_of_a_later_gpu_is_the_second(innermost_device, name):
    """Blocks know two GPUs: a table of streams or generators that was made too short."""
    from unidev.device import Device

    found = innermost_device(name)
    return Device(name, "gpu", 1) if found is not None and found.index > 1 else found


@mutant("create.scopes_end_in_any_order", everywhere="unidev.backends.scopes:leave_scope")
def innermost_scope_ends(sound, owner, *exc_info):
    """Whichever block ends, the innermost scope goes: ``torch.device.__exit__``."""
    stack.scopes[-1].leave(*exc_info)


@torch_mutant("create.scopes_end_in_any_order", profile="tensor")
def scopes_above_stay_entered(backend):
    """A scope ends beneath others, and restores its device for them: MXNet's contexts."""
    import torch

    replace_value(backend, "native_scope", lambda self, device: torch.device(device.native))

    @in_place_of(leave_scope)
    def leave(owner, *exc_info):
        for scope in stack.scopes:
            if scope.owner is owner:
                scope.leave(*exc_info)
                return
