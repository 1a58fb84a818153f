"""The plugin as unidev finds it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import unidev_torch
from unidev.contract.backend_spec import BackendSpec

if TYPE_CHECKING:
    from fresh_programs import Python

ROOT = Path(__file__).parents[3]


def test_the_spec_is_for_torch() -> None:
    spec = unidev_torch.unidev_register_backend()
    assert isinstance(spec, BackendSpec)
    assert (spec.name, spec.framework) == ("torch", "torch")


def test_finding_the_plugin_imports_no_framework(python: Python) -> None:
    done = python(
        "import sys, unidev\nprint('torch' in unidev.list_backends(), 'torch' in sys.modules)\n"
    )
    assert (done.stdout, done.stderr) == ("True False\n", "")


def test_the_simulator_is_needed_for_simulated_gpus_alone(python: Python) -> None:
    program = (
        "import sys, unidev\n"
        "sys.modules['unidev_torch_simulator'] = None\n"
        "try:\n"
        "    unidev.set_backend('torch')\n"
        "except unidev.SimulationError as error:\n"
        "    print(error)\n"
        "else:\n"
        "    print(unidev.ones(2), unidev.active_backend().simulated_count)\n"
    )
    assert python(program).stdout == "tensor([1., 1.]) 0\n"
    said = python(program, UNIDEV_SIMULATE="2").stdout
    assert said == (
        "no simulated GPUs for backend 'torch': unidev_torch_simulator is not installed. Install "
        "it with: pip install ./plugins/unidev-torch-simulator  # in unidev's repository\n"
    )
    assert (ROOT / "plugins/unidev-torch-simulator/pyproject.toml").is_file()


def test_a_torch_that_is_imported_is_the_default(python: Python) -> None:
    done = python("import torch, unidev; print(unidev.active_backend().name)", UNIDEV_BACKEND=None)
    assert done.stdout == "torch\n"
