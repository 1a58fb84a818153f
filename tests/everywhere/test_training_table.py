"""A drawn part of ``tools/training_table.py``, on every framework that is installed here."""

from __future__ import annotations

import random

import pytest
from running_examples import FRAMEWORKS
from session_seed import session_seed
from training_table import KINDS, SIZES, compared

SEED = session_seed("TRAINING_SEED")
LEFT_OUT = {"jax": ("loader",)}
"""JAX has no loader of its own."""


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_workers_train_as_one_process_does(framework: str) -> None:
    workers = random.Random(SEED).choice(SIZES[1:])
    kinds = [kind for kind in KINDS if kind not in LEFT_OUT.get(framework, ())]
    wrong = [each.wrong() for each in compared(framework, kinds, SEED, workers)]
    assert not any(wrong), f"TRAINING_SEED={SEED}: {'; '.join(filter(None, wrong))}"
