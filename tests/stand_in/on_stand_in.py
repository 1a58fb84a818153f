"""torch, for the tests here; a file of tests that imports it elsewhere is skipped, visibly."""

from __future__ import annotations

import os

import pytest
from building import LIBRARY

if LIBRARY not in os.environ.get("LD_PRELOAD", ""):
    pytest.skip("run by `nox -s stand_in`", allow_module_level=True)

import torch

import unidev_torch.backend  # noqa: F401  once, for all tests

assert not torch.cuda.is_initialized()
__all__ = ["torch"]
