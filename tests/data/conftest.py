"""For tests of ``prefetch``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from reading import reading_threads

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def no_thread_is_left() -> Iterator[None]:
    """No thread reads ahead when the test has ended."""
    yield
    assert reading_threads() == []
