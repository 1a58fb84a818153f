"""Tracers that miss transfers, report them twice or too late, or leave something behind."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from mutants.mutant import mutant, replace, replace_value, torch_mutant, when_restored
from unidev.backends.numpy_backend import tracer
from unidev.contract.tracer import Recording, Scope
from unidev.tracing.transfer_guard import transfer_guard

_ALL_OF_SCOPES = (
    "tracer.read_is_reported_once",
    "tracer.begin_that_raises",
    "tracer.scopes_nest",
    "tracer.scopes_left_in_any_order",
    "tracer.threads_hear_their_own",
)


@mutant(*_ALL_OF_SCOPES, "tracer.begin_comes_before_the_bytes_move")
def tracer_hears_nothing(backend):
    """No transfer is reported: a method that the tracer replaces was renamed by the framework."""

    replace_value(tracer, "_read", lambda *arguments: ())


@mutant(*_ALL_OF_SCOPES, around="unidev.contract.tracer:Recording.call")
def transfer_is_reported_twice(original, self, transfers, function, *arguments, **options):
    """A read is reported again by the call that it is made of: ``tolist`` that calls ``numpy``."""
    return original(self, [*transfers, *transfers], function, *arguments, **options)


@mutant("tracer.read_is_reported_once", "tracer.threads_hear_their_own", around=".tracer:_read")
def transfer_counts_elements(read, array, operation, nbytes, shape):
    """The bytes of a transfer are its elements: ``size`` in place of ``nbytes``."""
    return read(array, operation, array.size, shape)


@mutant("tracer.begin_comes_before_the_bytes_move", around="unidev.contract.tracer:Recording.call")
def transfer_is_reported_afterwards(original, self, transfers, function, *arguments, **options):
    """``begin`` and ``end`` are both called when the bytes are there: a profiler's callback."""
    result = function(*arguments, **options)
    return original(self, transfers, lambda: result)


@mutant("tracer.scopes_nest", around="unidev.contract.tracer:Recording._end")
def ends_come_in_the_order_of_begins(sound, self, begun):
    """The scope that began first ends first: a loop over the list in place of a stack."""
    for end, token in begun:
        end(token)


@mutant("tracer.begin_that_raises", around="unidev.contract.tracer:Recording.call")
def muted_for_ever_after_an_error(sound, self, transfers, function, *arguments, **options):
    """A flag that is set during the call is not reset when ``begin`` raises."""
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


@mutant("tracer.begin_that_raises", around="unidev.contract.tracer:Recording.refused")
def refusal_becomes_another_error(sound, self, error):
    """What ``begin`` raises reaches the caller as an ``OSError``: Paddle's engine, TensorFlow's."""
    raise OSError(f"(External) {error}") from error


@mutant("tracer.scopes_nest", "tracer.scopes_left_in_any_order")
def inner_scope_ends_the_outer_tracing(backend):
    """When the inner scope is left, the outer hears nothing: a thread has one slot, set to None."""
    _end_scopes_by("clear")


@mutant("tracer.scopes_left_in_any_order")
def scope_that_is_left_takes_out_the_last(backend):
    """Scopes are popped: one that is left early takes the place of another."""
    _end_scopes_by("pop")


def _end_scopes_by(method):
    @replace(Recording)
    @contextmanager
    def scope(self, begin, end):
        self.scopes.append(Scope(begin, end))
        try:
            yield
        finally:
            getattr(self.scopes, method)()


@mutant("tracer.threads_hear_their_own")
def threads_share_their_scopes(backend):
    """Scopes are the process's: what one thread moves is reported in all."""

    shared: list[Any] = []
    scopes = property(lambda self: shared, lambda self, own: None)
    setattr(Recording, "scopes", scopes)  # noqa: B010  mypy knows it as a list


@mutant("tracer.framework_is_as_it_was", around="unidev.contract.tracer:Patches.__exit__")
def replacements_stay_after_an_exception(leave, self, *error):
    """An exception leaves the framework patched: a context manager without ``try … finally``."""
    if not any(error):
        leave(self, *error)


def _replace_item(table: dict[Any, Any], key: Any, value: Any) -> None:
    before = table.get(key)
    table[key] = value
    when_restored(lambda: table.__setitem__(key, before))


_CALLS = "tracer.each_call_of_the_framework"


@mutant(_CALLS)
def files_are_written_unseen(backend):
    """Some of NumPy's functions that read are not listed: those that write files."""

    listed = tuple(name for name in tracer._READERS if not name.startswith("save"))
    replace_value(tracer, "_READERS", listed)


@torch_mutant(_CALLS, profile="tensor")
def lengths_are_not_read(backend):
    """``unique`` has a result as long as its values decide; the read of the length is forgotten."""
    import torch

    from unidev_torch.tracer import transfers

    _replace_item(transfers.readers, torch.ops.aten._unique2.default, None)


@torch_mutant(_CALLS, profile="tensor")
def names_are_those_of_the_operators(backend):
    """A read is named by torch's operator, not by the call that the user made."""
    from unidev_torch.tracer import names

    replace_value(names, "call_name", lambda function: None)


@torch_mutant("tracer.read_is_reported_once", profile="tensor")
def guards_allow_everything(backend):
    """``forbid`` is as ``allow``."""
    replace_value(transfer_guard, "__enter__", lambda self: self)
    replace_value(transfer_guard, "__exit__", lambda self, *_: None)
