"""Four simulated GPUs for all tests here; those about other processes start their own."""

from __future__ import annotations

import os

from fresh_programs import python, warm_python

os.environ["UNIDEV_SIMULATE"] = "4"
os.environ["UNIDEV_BACKEND"] = "torch"

import unidev

__all__ = ["python", "warm_python"]  # for every test here

unidev.active_backend()  # so that torch knows `sim` when test files name it
