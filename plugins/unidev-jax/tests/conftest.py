"""Four simulated GPUs, and Keras on JAX; tests about other processes start their own."""

from __future__ import annotations

import os

from fresh_programs import python

os.environ["UNIDEV_SIMULATE"] = "4"
os.environ["UNIDEV_BACKEND"] = "jax"
os.environ["KERAS_BACKEND"] = "jax"

import unidev

__all__ = ["python"]  # for every test here

unidev.active_backend()  # before a test file's first array starts JAX's runtime
