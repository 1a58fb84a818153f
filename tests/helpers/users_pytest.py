"""What a user's pytest runs, and what it printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

TWO = """
    import unidev

    def test_two(unidev_backend, unidev_gpus):
        a, b = unidev_gpus(2)
        assert (str(a), str(b)) == ("gpu:0", "gpu:1")
        assert a.backend == b.backend == unidev_backend.name == unidev.active_backend().name
        assert unidev.device_of(unidev.ones(2, device=b)) is b
"""


def said(result: pytest.RunResult) -> str:
    """All output, in one line."""
    return " ".join([*result.outlines, *result.errlines])
