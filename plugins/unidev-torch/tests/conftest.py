"""Four simulated GPUs for all tests here; those about other processes start their own."""

from __future__ import annotations

import os
import signal

from fresh_programs import python, warm_python

os.environ["UNIDEV_SIMULATE"] = "4"
os.environ["UNIDEV_BACKEND"] = "torch"

import unidev

__all__ = ["python", "warm_python"]  # for every test here

unidev.active_backend()  # so that torch knows `sim` when test files name it


def pytest_configure() -> None:
    """Ctrl-C reaches the tests, though a shell lets what it starts with `&` ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
