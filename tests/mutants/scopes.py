"""``with device:`` that does not begin, does not end, or reaches too far."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any

from mutants.mutant import in_place_of, mutant, replace_value, torch_mutant, when_restored


@mutant("create.scope_restores", "sequences.of_tensors")
def scope_never_ends(backend: Any) -> None:
    """The device stays set after the block: ``paddle.set_device``, ``torch.cuda.set_device``."""
    from unidev.registry.scopes import leave_scope

    in_place_of(leave_scope)(lambda owner, *exc_info: None)


@mutant("create.scope_restores")
def scope_does_nothing(backend: Any) -> None:
    """New tensors pay no heed to the block: JAX's committed ones, ``torch.tensor`` before 2.0."""
    from unidev.registry.scopes import innermost_device

    in_place_of(innermost_device)(lambda backend: None)


@mutant("create.scope_restores_after_exception")
def scope_leaks_on_error(backend: Any) -> None:
    """An exception leaves the device set: a context manager without ``try … finally``."""
    from unidev.registry.scopes import leave_scope

    @in_place_of(leave_scope)
    def leave(owner: object, *exc_info: Any) -> None:
        if not any(exc_info):
            leave_scope(owner, *exc_info)


def _leave_unless(kind: type[BaseException]) -> None:
    from unidev.registry.scopes import leave_scope

    @in_place_of(leave_scope)
    def leave(owner: object, *exc_info: Any) -> None:
        if not isinstance(exc_info[1] if exc_info else None, kind):
            leave_scope(owner, *exc_info)


@mutant("create.scope_restores_after_exception")
def scope_leaks_after_an_interrupt(backend: Any) -> None:
    """``except Exception`` in the place of ``finally``: Ctrl-C goes past it."""
    _leave_unless(KeyboardInterrupt)


@mutant("create.scope_restores_after_exception")
def scope_leaks_after_a_generator_closes(backend: Any) -> None:
    """A generator that is closed inside its block: GeneratorExit is no ``Exception``."""
    _leave_unless(GeneratorExit)


@torch_mutant("create.scope_is_the_frameworks_too", profile="tensor")
def native_scope_does_nothing(backend: Any) -> None:
    """unidev's own tensors follow the block, and the framework's do not."""
    replace_value(backend, "native_scope", lambda self, device: nullcontext())


@torch_mutant("create.scope_restores_after_exception", profile="tensor")
def native_scope_stays_after_a_generator(backend: Any) -> None:
    """unidev's scope ends with a generator, the framework's does not: ``except Exception``."""
    from contextlib import contextmanager

    native = backend.native_scope

    @contextmanager
    def scope(self: Any, device: Any) -> Any:
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


@mutant("create.scopes_nest")
def inner_scope_ends_the_outer(backend: Any) -> None:
    """Leaving the inner block goes back to the default: ``set_device`` of a constant on exit."""
    from unidev.registry import scopes

    leave_scope = scopes.leave_scope

    @in_place_of(leave_scope)
    def leave(owner: object, *exc_info: Any) -> None:
        if len(scopes.stack.scopes) > 1:
            leave_scope(owner, *exc_info)
            scopes.stack.scopes[-1].device = None
        else:
            leave_scope(owner, *exc_info)


@mutant("threads.scope_stays_in_its_thread")
def scope_leaks_between_threads(backend: Any) -> None:
    """One stack for all threads: Paddle's place is a global of its module."""
    from unidev.registry import scopes

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
def tasks_share_their_scopes(backend: Any) -> None:
    """One stack for all tasks of a thread, as ``threading.local`` has it."""
    from unidev.registry import scopes

    in_place_of(scopes.context)(_OfThread())


class _OfThread(_OfProcess, threading.local):
    """The same for each thread."""


@torch_mutant("create.scopes_of_tasks", profile="tensor")
def torchs_default_is_the_threads(backend: Any) -> None:
    """``torch.device``'s mode stays for the other tasks, which unidev believes to be apart."""
    from torch.utils._device import DeviceContext

    from unidev_torch import scopes

    replace_value(scopes, "_OfTask", DeviceContext)


@mutant("many.scope_per_device", simulated_count=4)
def scope_of_a_later_gpu_is_the_second(backend: Any) -> None:
    """Blocks know two GPUs: a table of streams or generators that was made too short."""
    from unidev.registry.scopes import innermost_device

    @in_place_of(innermost_device)
    def innermost(name: str) -> Any:
        from unidev.contract.device import Device

        found = innermost_device(name)
        return Device(name, "gpu", 1) if found is not None and found.index > 1 else found


@mutant("create.scopes_end_in_any_order")
def innermost_scope_ends(backend: Any) -> None:
    """Whichever block ends, the innermost scope goes: ``torch.device.__exit__``."""
    from unidev.registry.scopes import leave_scope, stack

    @in_place_of(leave_scope)
    def leave(owner: object, *exc_info: Any) -> None:
        stack.scopes[-1].leave(*exc_info)


@torch_mutant("create.scopes_end_in_any_order", profile="tensor")
def scopes_above_stay_entered(backend: Any) -> None:
    """A scope ends beneath others, and restores its device for them: MXNet's contexts."""
    import torch

    from unidev.registry.scopes import leave_scope, stack

    replace_value(backend, "native_scope", lambda self, device: torch.device(device.native))

    @in_place_of(leave_scope)
    def leave(owner: object, *exc_info: Any) -> None:
        for scope in stack.scopes:
            if scope.owner is owner:
                scope.leave(*exc_info)
                return
