"""Every mutant of JAX's backend is caught by the checks that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mutants.mutant import JAX
from plugin_mutants import Judge, check_caught, check_passed, judging, mutants_of, sound_variants_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with judging("jax", tmp_path_factory.mktemp("mutants"), unsupported=frozenset()) as made:
        yield made


@pytest.mark.parametrize("name", mutants_of(JAX))
def test_a_mutant_fails_each_check_that_it_names(name: str, judge: Judge) -> None:
    check_caught(name, judge)


@pytest.mark.parametrize("name", sound_variants_of(JAX))
def test_a_sound_variant_passes_the_checks_that_it_names(name: str, judge: Judge) -> None:
    check_passed(name, judge)
