"""Gradients that are exchanged while backward runs."""

from __future__ import annotations

from functools import partial

from mutants.mutant import TORCH, in_place_of
from mutants.parallel import multi_mutant
from unidev.parallel.exchange import overlap


@multi_mutant("workers.overlap", plugin=TORCH)
def the_last_bucket_is_lost(backend):
    """A bucket that is never filled is never sent: each worker keeps gradients of its own."""

    sound = overlap._buckets

    @in_place_of(overlap._buckets)
    def _buckets(backend, kinds):
        return sound(backend, kinds)[:-1]


@multi_mutant("workers.overlap", plugin=TORCH, around="unidev.parallel.exchange.overlap:Step._send")
def a_bucket_is_added_twice(sound, self, running, stage, flat):
    """A hook and the end of backward both begin it."""
    sound(self, running, stage, flat * 2 if running.finishing else flat)


@multi_mutant("workers.overlap", plugin=TORCH, around="unidev.parallel.exchange.overlap:Step.learn")
def buckets_begin_as_they_come(sound, self, loss):
    """In the order of each worker's own backward: another bucket of the same length is added."""

    class Own:
        def by_the_first(self, operation, call, work):
            return work()

        def __getattr__(self, name):
            return getattr(exchange, name)

    exchange, self._overlap.exchange = self._overlap.exchange, Own()
    if exchange.rank:
        size = len(self._kinds)
        self._order = [*range(size)]
    sound(self, loss)
    self._overlap.exchange = exchange


@multi_mutant("workers.overlap", plugin=TORCH)
def hooks_are_left(backend):
    """Those of every step before see the gradients of the next."""
    import unidev_torch.autograd

    @in_place_of(unidev_torch.autograd._watch)
    def _watch(loss, leaves, made, hooks):
        for position, leaf in enumerate(leaves):
            leaf.register_hook(partial(made, position))


@multi_mutant("workers.overlap", plugin=TORCH)
def memory_of_the_last_step_is_used_again(backend):
    """Whatever the caller still has of it: ``gradient_as_bucket_view``."""
    import unidev_torch.collectives

    @in_place_of(unidev_torch.collectives._references)
    def _references(x):
        return unidev_torch.collectives._OF_ONE
