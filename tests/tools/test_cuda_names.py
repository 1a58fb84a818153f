"""The tool that looks for names of ``torch._C`` reads Python as it is written there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cuda_names

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "cuda/__init__.py": (
        "import torch\n"
        "from torch._C import _cuda_init, _add_docstr\n"
        "torch._C._cuda_getDevice()\n"
        "def cudart(): return torch._C._cudart\n"
        "cudart().cudaMemGetInfo(0)\n"
        "if hasattr(torch._C, '_CUDAGreenContext'): torch._C._CUDAGreenContext\n"
        "'torch._C._cuda_in_a_string'\n"
    ),
    "cuda/graphs.py": "from torch import _C\n_C._CUDAGraph\n_C._get_tracing_state()\n",
    "testing/part.py": "import torch\ntorch._C._cuda_tested()\n",
}


def test_names_are_found_where_they_are_used(tmp_path: Path) -> None:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    used = cuda_names.names_in(tmp_path)
    assert {name: (use.place, use.is_optional) for name, use in used.items()} == {
        "_cuda_init": ("cuda/__init__.py:2", False),
        "_cuda_getDevice": ("cuda/__init__.py:3", False),
        "_cudart": ("cuda/__init__.py:4", False),
        "_cudart.cudaMemGetInfo": ("cuda/__init__.py:5", False),
        "_CUDAGreenContext": ("cuda/__init__.py:6", True),
        "_CUDAGraph": ("cuda/graphs.py:2", False),
    }
