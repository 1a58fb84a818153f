"""Two cards on which nothing is broken."""

from __future__ import annotations

from mutants.cards.hardware import cards_mutant, put_cards_into
from mutants.cards.memory import put_driver_into


@cards_mutant(
    "copy.non_blocking", "queued.read_at_once", "queued.behind_queued_work",
    "queued.source_changed_at_once", "queued.source_dropped_at_once", "queued.synchronized",
    "queued.side_stream",
    "current.device_and_stream_stay", "contexts.looking_makes_none", "contexts.fork_after_looking",
    "statistics.memory", "statistics.peak", "statistics.first_use", "scarcity.every_verb",
    "pinned.copies", "pinned.pinned_once",
    result="pass",
)  # fmt: skip
def cards_that_work(backend):
    """Nothing is broken: two GPUs with contexts, streams, and memory that comes to an end."""
    put_cards_into(backend)


@cards_mutant("reducing.current_device_stays", result="pass", profile="multi")
def cards_side_by_side(backend):
    """Nothing is broken: two cards and the host at work on one batch."""
    put_cards_into(backend)


@cards_mutant(
    "failures.full_card", "placing.current_device_stays", result="pass", profile="train"
)  # fmt: skip
def cards_that_take_models(backend):
    """Nothing is broken: a model that does not fit stays whole where it was."""
    put_cards_into(backend)


@cards_mutant(
    "cards.contexts_of_work", "cards.memory_is_the_drivers", result="pass", profile="hardware"
)  # fmt: skip
def cards_with_a_driver(backend):
    """Nothing is broken: cards whose driver counts their memory, too."""
    put_cards_into(backend)
    put_driver_into(backend)
