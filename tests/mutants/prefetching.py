"""Batches that come in another order, too early, or not at all."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from mutants.mutant import around, mutant, replace, replace_value, torch_mutant, when_restored
from unidev.parallel.batches import prefetch_thread, uploads
from unidev.parallel.batches.uploads import Uploads
from unidev.tensors.transfer import moved


@mutant("prefetch.in_order_on_the_device")
def batches_out_of_order(backend):
    """Each second batch comes before the first: workers that hand in whatever is ready."""

    held: list[Any] = []

    @around(prefetch_thread._Queue)
    def put(put_next, self, found):
        is_batch = not isinstance(found, BaseException)
        if is_batch and not held:
            held.append(found)
            return
        for each in (found, *held) if is_batch else (*held, found):
            put_next(self, each)
        held.clear()


@mutant("prefetch.in_order_on_the_device")
def tensors_that_are_there_are_passed_on(backend):
    """A tensor on the device is handed out as it is, while the loader may overwrite it."""

    replace_value(uploads, "copied", moved)


@mutant("prefetch.overwritten_buffers")
def buffer_read_when_it_is_used(backend):
    """The host's array is read once the batch is used: a copy that did not wait for its bytes."""

    put_now = Uploads.put

    class Later:
        def __init__(self, uploads, batch):
            self.arguments = uploads, batch

        def handed_out(self):
            return put_now(*self.arguments).handed_out()

    @replace(Uploads)
    def put(self, batch):
        return Later(self, batch)


@mutant(
    "prefetch.errors_and_early_ends", around="unidev.parallel.batches.prefetch_thread:_Queue.put"
)
def loader_errors_end_the_batches(put_next, self, found):
    """An error in the thread ends the iteration as if there were no more batches."""
    put_next(self, StopIteration() if isinstance(found, BaseException) else found)


@mutant("prefetch.errors_and_early_ends")
def thread_left_behind(backend):
    """After ``break`` the thread waits for ever for room."""

    @replace(prefetch_thread._Ending)
    def end(self, interrupts): ...


@torch_mutant("prefetch.autograd_mode", profile="tensor")
def batches_are_recorded_inside_no_grad(backend):
    """A new thread records, whatever the loop's does: autograd's mode is kept for each thread."""
    replace_value(backend, "thread_settings", lambda self: nullcontext())


@torch_mutant("prefetch.autograd_mode", profile="tensor")
def loaders_that_are_left_end_their_scopes_here(backend):
    """``torch.no_grad`` of a loader's generator sets the mode of the thread that drops it."""
    import torch

    @replace(prefetch_thread._Queue)
    def forget_batches(self):
        self.batches = None

    when_restored(lambda: torch.set_grad_enabled(True))


@mutant("sequences.of_tensors", around="unidev.parallel.batches.prefetching:Prefetched.__iter__")
def the_second_epoch_is_shorter(sound, self):
    """The batch at which the first was left is not read again: one iterator for all."""
    if vars(self).setdefault("begun", []):
        self.batches = list(self.batches)[1:] or self.batches
    self.begun.append(1)
    return sound(self)


@mutant("prefetch.in_order_on_the_device")
def loaders_run_outside_of_scopes(backend):
    """A loader's tensors are on the default device: a new thread has no scopes."""
    replace_value(prefetch_thread, "inherited", nullcontext)


@torch_mutant("prefetch.in_order_on_the_device", profile="tensor", around="batch_iterator")
def a_loader_is_read_inside_the_scope(sound, self, batches):
    """Its sampler draws on the scope's device, where its generator is not."""
    return iter(batches)
