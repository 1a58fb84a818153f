"""Gradients that are exchanged while backward runs."""

from __future__ import annotations

from functools import partial
from typing import Any

from mutants.mutant import TORCH, in_place_of, replace
from mutants.parallel import multi_mutant


@multi_mutant("workers.overlap", plugin=TORCH)
def the_last_bucket_is_lost(backend: Any) -> None:
    """A bucket that is never filled is never sent: each worker keeps gradients of its own."""
    from unidev.distributed.exchange import overlap

    sound = overlap._buckets

    @in_place_of(overlap._buckets)
    def _buckets(backend: Any, kinds: Any) -> Any:
        return sound(backend, kinds)[:-1]


@multi_mutant("workers.overlap", plugin=TORCH)
def a_bucket_is_added_twice(backend: Any) -> None:
    """A hook and the end of backward both begin it."""
    from unidev.distributed.exchange.overlap import Step

    sound = Step._send

    @replace(Step)
    def _send(self: Any, running: Any, stage: Any, flat: Any) -> None:
        sound(self, running, stage, flat * 2 if running.finishing else flat)


@multi_mutant("workers.overlap", plugin=TORCH)
def buckets_begin_as_they_come(backend: Any) -> None:
    """In the order of each worker's own backward: another bucket of the same length is added."""
    from unidev.distributed.exchange import overlap

    sound = overlap.Step.learn

    @replace(overlap.Step)
    def learn(self: Any, loss: Any) -> None:
        class Own:
            def by_the_first(self, operation: str, call: str, work: Any) -> Any:
                return work()

            def __getattr__(self, name: str) -> Any:
                return getattr(exchange, name)

        exchange, self._overlap.exchange = self._overlap.exchange, Own()
        if exchange.rank:
            size = len(self._kinds)
            self._order = [*range(size)]
        sound(self, loss)
        self._overlap.exchange = exchange


@multi_mutant("workers.overlap", plugin=TORCH)
def hooks_are_left(backend: Any) -> None:
    """Those of every step before see the gradients of the next."""
    import unidev_torch.autograd

    @in_place_of(unidev_torch.autograd._watch)
    def _watch(loss: Any, leaves: Any, made: Any, hooks: Any) -> None:
        for position, leaf in enumerate(leaves):
            leaf.register_hook(partial(made, position))


@multi_mutant("workers.overlap", plugin=TORCH)
def memory_of_the_last_step_is_used_again(backend: Any) -> None:
    """Whatever the caller still has of it: ``gradient_as_bucket_view``."""
    import unidev_torch.collectives

    @in_place_of(unidev_torch.collectives._references)
    def _references(x: Any) -> tuple[int, int]:
        return unidev_torch.collectives._OF_ONE
