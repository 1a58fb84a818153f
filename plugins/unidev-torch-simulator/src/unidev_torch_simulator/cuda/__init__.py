"""``cuda`` on torch's CPU build: what torch's own Python files expect of a build for CUDA.

``torch._C`` there lacks some 120 functions, on which ``torch.cuda`` rests. They are added between
the import of ``torch._C`` and that of ``torch.cuda``: torch's Python then takes itself for a build
for CUDA, and runs unchanged. The functions bear torch's names.
"""

from __future__ import annotations

import ctypes
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from unidev.contract import checked_file
from unidev.errors import SimulationError
from unidev_torch_simulator import late
from unidev_torch_simulator.building import built_library
from unidev_torch_simulator.importing import Finder
from unidev_torch_simulator.models import memory_of

if TYPE_CHECKING:
    from unidev.contract import SimulatedGpus

_finder: Finder | None = None
_LATER = (
    "torch._inductor.compile_fx",
    "torch.utils.cpp_extension",
    "triton.backends.nvidia.driver",
)
"""What compiles for CUDA, patched by ``compilers`` if a program imports it."""


def before_import(gpus: SimulatedGpus) -> None:
    """Have ``import torch`` load the devices; nothing if it has, or will, already.

    Raises:
        SimulationError: torch is imported, without them.
    """
    global _finder  # noqa: PLW0603  a process has one, as it has one torch
    if _finder is not None:
        return
    if "torch" in sys.modules:
        raise SimulationError(
            "torch is imported already, and looks for CUDA only while it is imported: import "
            "unidev first, or run the program with `unidev simulate --as cuda --gpus "
            f"{gpus.count} -- python …`."
        )
    _finder = Finder(
        {
            "torch": (_build, _finish),
            "torch._C": (_nothing, partial(_bind, gpus)),
            # The first of torch's Python files that looks for NCCL in its bindings (2.13).
            "torch.distributed.constants": (_before_distributed, _nothing),
            **{name: (_nothing, partial(_patch, name)) for name in _LATER},
        }
    )
    sys.meta_path.insert(0, _finder)


def is_started() -> bool:
    """Whether torch was imported with devices named ``cuda``, or is to be."""
    return _finder is not None


def _build() -> None:
    # First, since `import torch` cannot be tried again once torch._C is loaded.
    built_library(as_cuda=True)


def _bind(gpus: SimulatedGpus, bindings: Any) -> None:
    from unidev_torch_simulator.cuda import comm, devices, memory, refused, streams

    library = ctypes.CDLL(checked_file(built_library(as_cuda=True)))
    library.unidev_start(ctypes.c_int(gpus.count), ctypes.c_int64(memory_of(gpus)))
    late.start(library, gpus.late)
    library.unidev_is_forked.restype = ctypes.c_bool
    devices.add_to(bindings, gpus, library)
    for each in (streams, memory, comm, refused):
        each.add_to(bindings)


def _before_distributed() -> None:
    from unidev_torch_simulator import distributed

    distributed.before_distributed()


def _nothing(*_: Any) -> None:
    """Before or after the import of a module that needs no more."""


def _patch(name: str, module: Any) -> None:
    from unidev_torch_simulator.cuda import compilers

    compilers.PATCHES[name](module)


def _finish(torch: Any) -> None:
    from unidev_torch_simulator import batch_norm, distributed
    from unidev_torch_simulator.cuda import patches

    patches.apply(torch)
    batch_norm.register("CUDA")
    late.watch(torch)
    distributed.finish()
