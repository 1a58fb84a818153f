"""The examples, run as a user does, on the backends that are installed here."""

from __future__ import annotations

import os
import re
import shutil
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

import warm_programs
from warm_programs import run_fresh, run_program

from unidev.backends.discovery import backend_specs

if TYPE_CHECKING:
    import subprocess
    from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"
_WITH_FRAMEWORKS = {
    name: spec for name, spec in backend_specs().items() if find_spec(spec.framework) is not None
}
LEFT_OUT = {
    name: f"not installed: {module} ({spec.simulator_install})"
    for name, spec in _WITH_FRAMEWORKS.items()
    if isinstance(spec.simulator, str)
    and find_spec(module := re.split("[.:]", spec.simulator)[0]) is None
}
"""What simulates a framework's GPUs, where that is a distribution of its own."""
HERE = [name for name in _WITH_FRAMEWORKS if name not in LEFT_OUT]
FRAMEWORKS = [name for name in HERE if name != "numpy"]
ONE = [name for name in FRAMEWORKS if name == "torch"]
"""For what a program does itself, the same on each framework: options, files, Ctrl-C, times."""


def environment(backend: str = "", count: int = 0) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_")}
    # On one thread: on a machine that does other things too, PyTorch's two wait for each other, and
    # take ten times as long for such small steps.
    own["OMP_NUM_THREADS"] = "1"
    return {**own, "UNIDEV_BACKEND": backend, "UNIDEV_SIMULATE": str(count)}


def run_example(
    folder: Path, name: str, *options: object, backend: str = "", count: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a copy of ``examples/NAME.py`` in ``folder`` on ``count`` simulated GPUs."""
    return run_program(
        [copied(folder, name), *map(str, options)],
        # One warm process for all programs here, also for those that name no backend that is here.
        backend=backend if backend in HERE else [*FRAMEWORKS, "numpy"][0],
        also=warm_programs.EXAMPLES,
        environment=environment(backend, count),
        folder=folder,
    )


def run_fresh_example(
    folder: Path, name: str, *options: object, backend: str = "", count: int = 0
) -> subprocess.CompletedProcess[str]:
    """The same in a fresh interpreter, in which nothing is imported yet."""
    words = [copied(folder, name), *map(str, options)]
    return run_fresh(words, environment=environment(backend, count), folder=folder)


def copied(folder: Path, name: str) -> str:
    """The path of a copy in ``folder``, beside which there is no other file of the repository."""
    return str(shutil.copy(EXAMPLES / f"{name}.py", folder))


def imported(name: str) -> ModuleType:
    """The module of ``examples/NAME.py``, without the folder being on the path."""
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
