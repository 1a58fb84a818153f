"""Four simulated GPUs for all tests here; those about other processes start their own."""

from __future__ import annotations

import os
import subprocess
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fresh_programs import Python, python, warm_python
from once import once

os.environ["UNIDEV_SIMULATE"] = "4"
os.environ["UNIDEV_BACKEND"] = "tensorflow"

import unidev

__all__ = ["python", "warm_python"]  # for every test here

unidev.active_backend()  # before a test file's first tensor starts TensorFlow's runtime

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="session")
def accelerator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in for a GPU, built for the installed TensorFlow."""
    return Path(once(tmp_path_factory, "stand_in", _built))


def _built(folder: Path) -> str:
    import tensorflow as tf

    built = folder / "accelerator.so"
    done = subprocess.run(
        [
            "g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden",
            str(_STAND_IN / "accelerator.cc"), f"-I{tf.sysconfig.get_include()}",
            *tf.sysconfig.get_link_flags(), "-o", str(built),
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return str(built)


@pytest.fixture
def on_stand_in(accelerator: Path, warm_python: Python) -> Callable[..., str]:
    """Runs a program in a process that has GPUs: the stand-in's; returns what it prints."""

    def run(program: str, **environment: str) -> str:
        done = warm_python(
            _LOADED + textwrap.dedent(program),
            TF_PLUGGABLE_DEVICE_LIBRARY_PATH=str(accelerator),
            **environment,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


_STAND_IN = Path(__file__).parent / "stand_in"
_LOADED = f"""
import os, sys
sys.path.insert(0, {str(_STAND_IN)!r})
# What TensorFlow's import does at its end where the variable is set.
from tensorflow.python.framework.load_library import load_pluggable_device_library
load_pluggable_device_library(os.environ["TF_PLUGGABLE_DEVICE_LIBRARY_PATH"])
"""
