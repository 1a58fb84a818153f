"""Four simulated GPUs for all tests here; those about other processes start their own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from fresh_programs import python

os.environ["UNIDEV_SIMULATE"] = "4"
os.environ["UNIDEV_BACKEND"] = "mxnet"

import unidev

__all__ = ["python"]  # for every test here

unidev.active_backend()  # imports MXNet as the plugin does, before test files name it

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_configure(config: pytest.Config) -> None:
    # Where SciPy is installed, mx.nd.array and tostype ask it for a name that it deprecates.
    config.addinivalue_line(
        "filterwarnings", "ignore:Please import `csr_matrix`:DeprecationWarning"
    )


@pytest.fixture
def clean_library() -> Iterator[None]:
    """MXNet's library has its own functions again when the test is over."""
    from traced import clean

    with clean():
        yield
