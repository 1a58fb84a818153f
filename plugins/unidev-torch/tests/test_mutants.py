"""Every mutant of PyTorch's backend is caught by the checks that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mutants.mutant import TORCH
from mutants_in_workers import is_of_workers
from plugin_mutants import Judge, check_caught, check_passed, judging, mutants_of, sound_variants_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS, _SOUND = mutants_of(TORCH), sound_variants_of(TORCH)
_IN_ORDER = sorted(_OURS, key=is_of_workers, reverse=True)
"""Those of workers come from one run, so all of them go to one process of pytest's."""
UNSUPPORTED = frozenset({"placing.spread_is_refused", "moving.while_it_trains"})
"""PyTorch's probe has no such model; ``has_a_sharded_model`` gives it one. No GPU here is real."""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with judging("torch", tmp_path_factory.mktemp("mutants"), unsupported=UNSUPPORTED) as made:
        yield made


@pytest.mark.parametrize("name", _IN_ORDER)
def test_a_mutant_fails_each_check_that_it_names(name: str, judge: Judge) -> None:
    check_caught(name, judge)


@pytest.mark.parametrize("name", _SOUND)
def test_a_sound_variant_passes_what_its_broken_twins_fail(name: str, judge: Judge) -> None:
    check_passed(name, judge)
