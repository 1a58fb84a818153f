"""Two simulated GPUs for all tests here; those about other processes start their own."""

from __future__ import annotations

import os

from fresh_programs import python

os.environ["UNIDEV_SIMULATE"] = "2"
os.environ["UNIDEV_BACKEND"] = "array_api_strict"

__all__ = ["python"]  # for every test here
