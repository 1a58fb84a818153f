"""Simulated GPUs for PyTorch, in host memory: ``sim:0``, ``sim:1``, … or ``cuda:0``, ….

A backend of torch in C++ (``cpp/``), built against the installed torch on first use. By default
it is named ``sim``, so that a reader of an error message or a checkpoint does not take it for
hardware; torch's own name for such a backend is ``privateuseone``. In torch's CPU build, which has
no kernels for CUDA, the same backend can answer to ``cuda``, for programs that say so (``cuda/``).
"""

from __future__ import annotations

import ctypes

from unidev.contract import Race, SimulatedGpus, Simulator, checked_file
from unidev.errors import SimulationError
from unidev_torch_simulator import cuda, late
from unidev_torch_simulator.building import built_library, check_system, installed_torch
from unidev_torch_simulator.importing import settle_at_exit, short_spins
from unidev_torch_simulator.models import MODELS, memory_of

DEVICE_TYPE = "sim"
COMPILERS = ("eager", "aot_eager")
"""Backends of ``torch.compile`` that may replace Inductor."""
_COMPILES_FOR_CUDA = (
    "Inductor is replaced for GPUs named cuda only: set UNIDEV_SIMULATE_AS=cuda, or unset "
    "UNIDEV_SIMULATE_COMPILE"
)


class TorchSimulator(Simulator):
    """Builds and loads the C++ backend, and registers it with torch."""

    def start(self, count: int) -> None:
        """Register ``count`` devices named ``sim`` with torch, for the lifetime of the process.

        Raises:
            SimulationError: there is no compiler; torch is too old, has run a backward pass
            already, or has another PrivateUse1 backend.
        """
        self.start_as(SimulatedGpus(count=count))

    def start_as(self, gpus: SimulatedGpus) -> None:
        """As ``start``; or import torch with devices named ``cuda``, unless it is there already.

        Raises:
            SimulationError: as ``start`` does; or torch was imported without them.
        """
        if gpus.name is not None:
            cuda.before_import(gpus)
            import torch  # noqa: F401  with the devices
        else:
            _start_sim(gpus)

    def refusal(self, gpus: SimulatedGpus) -> str | None:
        """Only ``cuda``, only on torch's CPU build; the models in ``MODELS``, the ``COMPILERS``."""
        can_lack = gpus.lacks and gpus.name is None  # CUDA has every dtype
        if gpus.like is not None and gpus.like.upper() not in MODELS and not can_lack:
            return f"UNIDEV_SIMULATE_LIKE={gpus.like} is none of {', '.join(MODELS)}"
        if gpus.compile not in (None, *COMPILERS):
            return f"UNIDEV_SIMULATE_COMPILE={gpus.compile} is none of {', '.join(COMPILERS)}"
        if gpus.name is None:
            return None if gpus.compile is None else _COMPILES_FOR_CUDA
        if gpus.name != "cuda":
            return f"torch's simulated GPUs answer to cuda, not to {gpus.name!r}"
        torch = installed_torch()
        if torch.accelerator is not None:
            return (
                f"this torch {torch.version} was built for {torch.accelerator}, and its kernels "
                "for `cuda` call the driver; the CPU build has none: pip install --force-reinstall "
                "torch --index-url https://download.pytorch.org/whl/cpu"
            )
        return None

    def before_import(self, gpus: SimulatedGpus) -> None:
        """Arrange that ``import torch`` gives a torch with these devices."""
        cuda.before_import(gpus)

    def races(self) -> list[Race]:
        """By both lines."""
        return late.races()

    def new_races(self) -> list[str]:
        """By both lines."""
        return late.new_races()

    def free_and_total(self, index: int) -> tuple[int, int]:
        """By the count in C++; ``torch.cuda.mem_get_info`` would initialise CUDA."""
        import torch

        free, total = torch.ops.unidev_sim.memory_info(index)
        return int(free), int(total)


def _start_sim(gpus: SimulatedGpus) -> None:
    check_system(installed_torch().version)
    if cuda.is_started():
        raise SimulationError(
            "this process simulates GPUs named `cuda` already, and torch's backward pass allows "
            "one name: start a process without UNIDEV_SIMULATE_AS."
        )
    with short_spins():
        import torch

    name = torch._C._get_privateuse1_backend_name()
    if name != "privateuseone":
        raise SimulationError(
            f"torch takes one PrivateUse1 backend, and {name!r} is registered already: start a "
            "process that does not import that one."
        )
    library = ctypes.CDLL(
        checked_file(built_library(as_cuda=False))
    )  # `torch.ops` would look it up anew
    if torch.ops.unidev_sim.engine_has_started():
        raise SimulationError(
            "torch has run a backward pass in this process already, and starts no autograd thread "
            f"for devices added later: with UNIDEV_SIMULATE={gpus.count} (or after "
            f"unidev.simulate({gpus.count})), call unidev.set_backend('torch') before it."
        )
    torch.ops.unidev_sim.start(gpus.count, memory_of(gpus))
    late.start(library, gpus.late)
    for name in gpus.lacks:
        torch.ops.unidev_sim.lack(getattr(torch, name))
    if "float64" in gpus.lacks:  # torch prints by it, except on MPS and XPU (2.13)
        torch._tensor_str.tensor_totype = torch.Tensor.float

    from torch.utils import backend_registration

    from unidev_torch_simulator import batch_norm, device_module, distributed, sending

    backend_registration.rename_privateuse1_backend(DEVICE_TYPE)
    device_module.model = None if gpus.lacks else gpus.like
    torch._register_device_module(DEVICE_TYPE, device_module)  # type: ignore[no-untyped-call]
    backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    batch_norm.register("PrivateUse1")
    sending.let_workers_send(torch, DEVICE_TYPE)
    late.watch(torch)
    distributed.add_simccl(gpus.first)
    settle_at_exit(torch.ops.unidev_sim)
