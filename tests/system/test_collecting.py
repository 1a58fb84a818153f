"""Garbage collection while a framework is imported."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from unidev.system.collecting import collection_paused

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    assert gc.isenabled()
    yield
    assert gc.isenabled()


def test_nothing_is_collected_in_the_block() -> None:
    with collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    with pytest.raises(KeyError), collection_paused():
        raise KeyError
    assert gc.isenabled()


def test_who_has_switched_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        with collection_paused(), collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
