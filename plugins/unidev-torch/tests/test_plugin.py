"""The plugin as unidev finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import unidev_torch
from unidev.contract.backend_spec import BackendSpec

if TYPE_CHECKING:
    from fresh_programs import Python


def test_the_spec_is_for_torch() -> None:
    spec = unidev_torch.unidev_register_backend()
    assert isinstance(spec, BackendSpec)
    assert (spec.name, spec.framework) == ("torch", "torch")


def test_finding_the_plugin_imports_no_framework(python: Python) -> None:
    done = python(
        "import sys, unidev, unidev.backends.discovery\n"
        "import unidev_torch_simulator\n"
        "unidev_torch_simulator.TorchSimulator()\n"
        "print('torch' in unidev.list_backends(), 'torch' in sys.modules)\n"
    )
    assert (done.stdout, done.stderr) == ("True False\n", "")


def test_a_torch_that_is_imported_is_the_default(python: Python) -> None:
    done = python("import torch, unidev; print(unidev.active_backend().name)", UNIDEV_BACKEND=None)
    assert done.stdout == "torch\n"
