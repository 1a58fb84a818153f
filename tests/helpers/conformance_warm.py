"""Imports what every child of the suite needs. Children are forked from a process that has done so.

The checks are among it. No backend is left loaded.
"""

import contextlib
import gc
import io
import os
import tempfile

import mutants  # noqa: F401  for what importing them does, as the next two
import pytest
import safetensors.numpy  # noqa: F401

import unidev_conformance.running.session  # noqa: F401
from unidev import device
from unidev.backends import discovery, loading
from unidev_conformance.running.catalog import every_check

every_check()
with tempfile.TemporaryDirectory() as empty, contextlib.redirect_stdout(io.StringIO()):
    # For what it imports.
    status = pytest.main(["-c", os.devnull, "--rootdir", empty, "--noconftest", empty])
assert status == pytest.ExitCode.NO_TESTS_COLLECTED, status

# One of the checks' modules looks for the backend of a class of its own, and so loads NumPy's.
for table in (
    loading.loaded_backends, loading.backends_by_type, loading.device_getters, loading.copiers,
    loading._types_of_no_tensor, loading._backends_by_model_type, loading.simulators,
    device._devices,
):  # fmt: skip
    table.clear()
discovery._found = None
gc.freeze()  # a child that collected what stands here would copy the memory of all of it
