"""Tracers that miss transfers, report them twice or too late, or leave something behind."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from mutants.mutant import mutant, replace, replace_value, torch_mutant, when_restored

_ALL_OF_SCOPES = (
    "tracer.read_is_reported_once",
    "tracer.begin_that_raises",
    "tracer.scopes_nest",
    "tracer.scopes_left_in_any_order",
    "tracer.threads_hear_their_own",
)


@mutant(*_ALL_OF_SCOPES, "tracer.begin_comes_before_the_bytes_move")
def tracer_hears_nothing(backend: Any) -> None:
    """No transfer is reported: a method that the tracer replaces was renamed by the framework."""
    from unidev.numpy_backend import tracer

    replace_value(tracer, "_read", lambda *arguments: ())


@mutant(*_ALL_OF_SCOPES)
def transfer_is_reported_twice(backend: Any) -> None:
    """A read is reported again by the call that it is made of: ``tolist`` that calls ``numpy``."""
    from unidev.contract.tracer import Recording

    original = Recording.call

    @replace(Recording)
    def call(self: Any, transfers: Any, function: Any, *arguments: Any, **options: Any) -> Any:
        return original(self, [*transfers, *transfers], function, *arguments, **options)


@mutant("tracer.read_is_reported_once", "tracer.threads_hear_their_own")
def transfer_counts_elements(backend: Any) -> None:
    """The bytes of a transfer are its elements: ``size`` in place of ``nbytes``."""
    from unidev.numpy_backend import tracer

    read = tracer._read

    @replace(tracer)
    def _read(array: Any, operation: str, nbytes: int, shape: Any) -> Any:
        return read(array, operation, array.size, shape)


@mutant("tracer.begin_comes_before_the_bytes_move")
def transfer_is_reported_afterwards(backend: Any) -> None:
    """``begin`` and ``end`` are both called when the bytes are there: a profiler's callback."""
    from unidev.contract.tracer import Recording

    original = Recording.call

    @replace(Recording)
    def call(self: Any, transfers: Any, function: Any, *arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        return original(self, transfers, lambda: result)


@mutant("tracer.read_is_reported_once", "tracer.begin_that_raises")
def end_is_not_given_its_token(backend: Any) -> None:
    """``end`` is called with None: a callback that has no place for what ``begin`` returned."""
    from unidev.contract.tracer import Recording

    @replace(Recording)
    def _end(self: Any, begun: Any) -> None:
        for end, _ in reversed(begun):
            end(None)


@mutant("tracer.scopes_nest")
def ends_come_in_the_order_of_begins(backend: Any) -> None:
    """The scope that began first ends first: a loop over the list in place of a stack."""
    from unidev.contract.tracer import Recording

    @replace(Recording)
    def _end(self: Any, begun: Any) -> None:
        for end, token in begun:
            end(token)


@mutant("tracer.begin_that_raises")
def refused_transfer_leaves_the_outer_open(backend: Any) -> None:
    """Begins stand before the ``try``: when a later one raises, those before it never end."""
    from unidev.contract.tracer import Recording

    @replace(Recording)
    def call(self: Any, transfers: Any, function: Any, *arguments: Any, **options: Any) -> Any:
        if not self.is_on:
            return function(*arguments, **options)
        begun = [(scope.end, scope.begin(each)) for scope in self.scopes for each in transfers]
        try:
            return self.muted(function, *arguments, **options)
        finally:
            self._end(begun)


@mutant("tracer.begin_that_raises")
def muted_for_ever_after_an_error(backend: Any) -> None:
    """A flag that is set during the call is not reset when ``begin`` raises."""
    from unidev.contract.tracer import Recording

    @replace(Recording)
    def call(self: Any, transfers: Any, function: Any, *arguments: Any, **options: Any) -> Any:
        if not self.is_on:
            return function(*arguments, **options)
        begun: list[Any] = []
        self.is_muted = True
        try:
            for scope in self.scopes:
                begun.extend((scope.end, scope.begin(each)) for each in transfers)
        except BaseException:
            self._end(begun)
            raise
        try:
            return function(*arguments, **options)
        finally:
            self._end(begun)
            self.is_muted = False


@mutant("tracer.begin_that_raises")
def refusal_becomes_another_error(backend: Any) -> None:
    """What ``begin`` raises reaches the caller as an ``OSError``: Paddle's engine, TensorFlow's."""
    from unidev.contract.tracer import Recording

    @replace(Recording)
    def refused(self: Any, error: BaseException) -> None:
        raise OSError(f"(External) {error}") from error


@mutant("tracer.scopes_nest", "tracer.scopes_left_in_any_order")
def inner_scope_ends_the_outer_tracing(backend: Any) -> None:
    """When the inner scope is left, the outer hears nothing: a thread has one slot, set to None."""
    from unidev.contract.tracer import Recording, Scope

    @replace(Recording)
    @contextmanager
    def scope(self: Any, begin: Any, end: Any) -> Any:
        self.scopes.append(Scope(begin, end))
        try:
            yield
        finally:
            self.scopes.clear()


@mutant("tracer.scopes_left_in_any_order")
def scope_that_is_left_takes_out_the_last(backend: Any) -> None:
    """Scopes are popped: one that is left early takes the place of another."""
    from unidev.contract.tracer import Recording, Scope

    @replace(Recording)
    @contextmanager
    def scope(self: Any, begin: Any, end: Any) -> Any:
        self.scopes.append(Scope(begin, end))
        try:
            yield
        finally:
            self.scopes.pop()


@mutant("tracer.threads_hear_their_own")
def threads_share_their_scopes(backend: Any) -> None:
    """Scopes are the process's: what one thread moves is reported in all."""
    from unidev.contract.tracer import Recording

    shared: list[Any] = []
    scopes = property(lambda self: shared, lambda self, own: None)
    setattr(Recording, "scopes", scopes)  # noqa: B010  mypy knows it as a list


@mutant("tracer.framework_is_as_it_was")
def replacements_stay_after_an_exception(backend: Any) -> None:
    """An exception leaves the framework patched: a context manager without ``try … finally``."""
    from unidev.contract.tracer import Patches

    leave = Patches.__exit__

    @replace(Patches)
    def __exit__(self: Any, *error: Any) -> None:
        if not any(error):
            leave(self, *error)


def _replace_item(table: dict[Any, Any], key: Any, value: Any) -> None:
    before = table.get(key)
    table[key] = value
    when_restored(lambda: table.__setitem__(key, before))


_CALLS = "tracer.each_call_of_the_framework"


@mutant(_CALLS)
def files_are_written_unseen(backend: Any) -> None:
    """Some of NumPy's functions that read are not listed: those that write files."""
    from unidev.numpy_backend import tracer

    listed = tuple(name for name in tracer._READERS if not name.startswith("save"))
    replace_value(tracer, "_READERS", listed)


@torch_mutant(_CALLS, profile="tensor")
def masks_move_as_they_are(backend: Any) -> None:
    """A mask on the CPU is counted by its own bytes, not by the positions that it becomes."""
    from unidev_torch.tracer import transfers

    replace_value(transfers, "_is_mask", lambda index: False)


@torch_mutant(_CALLS, profile="tensor")
def numbers_of_the_host_are_operands(backend: Any) -> None:
    """A number on the CPU is reported as an operand that moves, though it travels with the call."""
    import torch

    from unidev_torch.tracer import transfers

    def operands(x: Any, y: Any, **_: Any) -> Any:
        device = getattr(y, "device", x.device)
        return [transfers.Move(device, x.device, 4, ())] if device != x.device else ()

    _replace_item(transfers.readers, torch.ops.aten.add.Tensor, operands)


@torch_mutant(_CALLS, profile="tensor")
def lengths_are_not_read(backend: Any) -> None:
    """``unique`` has a result as long as its values decide; the read of the length is forgotten."""
    import torch

    from unidev_torch.tracer import transfers

    _replace_item(transfers.readers, torch.ops.aten._unique2.default, None)


@torch_mutant(_CALLS, profile="tensor")
def names_are_those_of_the_operators(backend: Any) -> None:
    """A read is named by torch's operator, not by the call that the user made."""
    from unidev_torch.tracer import names

    replace_value(names, "call_name", lambda function: None)
