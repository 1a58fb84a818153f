"""``tools/training_table.py`` sees faults in workers, and only in the loops that have them."""

from __future__ import annotations

from functools import partial

import pytest
from faulty_loops import with_faults
from training_loops import in_one_process
from training_table import KINDS, Comparison, comparison

import unidev

WORKERS = 3
SHARDED = {"padded", "dropped", "loader"}
TRAINED = KINDS.keys() - {"evaluation"}


@pytest.fixture(scope="module")
def compared() -> dict[str, dict[str, Comparison]]:
    """For each fault the loops of three workers beside one process; in one run."""
    run = partial(unidev.run, backend="torch", gpus_per_worker=0)
    [whole] = run(in_one_process, [*KINDS], 0, WORKERS, workers=1)
    found = run(with_faults, [*KINDS], 0, workers=WORKERS)
    return {
        fault: {
            kind: comparison(kind, "torch", [own[fault][kind] for own in found], *whole[kind])
            for kind in KINDS
        }
        for fault in found[0]
    }


@pytest.mark.parametrize(
    ("fault", "kinds", "words"),
    [
        ("a_shard_is_read_twice", SHARDED | {"evaluation"}, "one process has other values"),
        ("a_repeated_row_counts_twice", {"padded", "loader"}, "one process has other values"),
        ("bits_differ_on_worker_1", TRAINED, "two workers have different bits"),
        ("nothing_is_exchanged", TRAINED, "two workers have different bits"),
        ("nothing_is_trained", TRAINED, "one process has other values"),
        ("workers_count_the_same_whatever_their_rows", {"uneven", "norms"}, "one process has"),
        ("accumulated_steps_count_the_same_whatever_their_rows", {"accumulate"}, "one process has"),
        ("accumulated_steps_are_forgotten", {"accumulate"}, "one process has"),
        ("padded_rows_are_counted", {"evaluation"}, "one process has"),
        ("padded_rows_are_gathered", {"evaluation"}, "one process has"),
        ("a_norm_has_the_gradient_of_its_own_rows", {"norms"}, "one process has"),
        ("gradients_of_norms_count_the_same_whatever_the_rows", {"norms"}, "one process has"),
        ("sound", set(), ""),
    ],
)
def test_a_fault_is_seen_where_it_is(
    fault: str, kinds: set[str], words: str, compared: dict[str, dict[str, Comparison]]
) -> None:
    wrong = {kind: each.wrong() for kind, each in compared[fault].items() if each.wrong()}
    assert wrong.keys() == kinds
    assert all(words in said for said in wrong.values()), wrong


def test_one_bit_on_one_worker_is_all_that_differs(
    compared: dict[str, dict[str, Comparison]],
) -> None:
    found = compared["bits_differ_on_worker_1"]
    assert all(found[kind].difference < 1e-6 for kind in TRAINED)
