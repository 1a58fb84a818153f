"""Simulated GPUs for PyTorch: ``sim:0``, ``sim:1``, … in host memory.

A PrivateUse1 backend in C++ (``cpp/simulator.cpp``), built against the installed torch on first
use. It is named ``sim``, so that a reader of an error message or a checkpoint does not take it for
hardware; torch's own name for such a backend is ``privateuseone``.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
from contextlib import contextmanager
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from unidev.contract import Simulator, build_once
from unidev.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Iterator

DEVICE_TYPE = "sim"
_SPINS = "GOMP_SPINCOUNT"
LIBRARY = "libunidev_torch_simulator.so"
OLDEST_TORCH = (2, 9)
"""The oldest torch with which the C++ file was built and tested."""


class TorchSimulator(Simulator):
    """Builds and loads the C++ backend, and registers it with torch."""

    def start(self, count: int) -> None:
        """Register ``count`` devices named ``sim`` with torch, for the lifetime of the process.

        Raises:
            SimulationError: there is no compiler; torch is too old, has run a backward pass
            already, or has another PrivateUse1 backend.
        """
        with _short_spins():
            import torch

        _check_torch(torch.__version__, torch._C._get_privateuse1_backend_name())
        compiler = _compiler()
        flags = _flags(Path(torch.__file__).parent, torch.__version__)
        library = build_once(
            "torch",
            _key(torch.__version__, compiler, flags),
            LIBRARY,
            lambda path: _build(compiler, flags, path),
        )
        _load(library, count)


@contextmanager
def _short_spins() -> Iterator[None]:
    """Threads of GNU's OpenMP, if it is loaded in the block, do not wait in a loop.

    One team on as many cores spins, and starves what else runs there: a step took 15 times as long
    on two busy cores. Beside a second team, that of the thread in which torch runs backward on a
    GPU, OpenMP spins as briefly as here; under a trace, backward runs in the calling thread.
    """
    if not {_SPINS, "OMP_WAIT_POLICY"}.isdisjoint(os.environ):  # the user's own choice
        yield
        return
    os.environ[_SPINS] = "1000"  # OpenMP's own number where it has more threads than cores
    try:
        yield
    finally:
        del os.environ[_SPINS]


def _check_torch(version: str, privateuse1_name: str) -> None:
    if os.name == "nt":
        raise SimulationError(
            "PyTorch's simulated devices are built with g++ or clang++ and run on Linux and macOS; "
            "on Windows use WSL, or UNIDEV_BACKEND=numpy."
        )
    if _major_minor(version) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise SimulationError(
            f"simulated devices need torch {oldest} or newer, and this is torch {version}: "
            f"pip install 'torch>={oldest}'."
        )
    if privateuse1_name != "privateuseone":
        raise SimulationError(
            f"torch takes one PrivateUse1 backend, and {privateuse1_name!r} is registered already: "
            "start a process that does not import that one."
        )


def _compiler() -> list[str]:
    """The compiler command to start with: ``CXX``, else g++, else clang++."""
    given = os.environ.get("CXX", "")
    try:
        asked = shlex.split(given)
    except ValueError as error:
        raise SimulationError(f"CXX={given} names no compiler: {error}.") from error
    if asked:
        if shutil.which(asked[0]) is None:
            raise SimulationError(
                f"the compiler {asked[0]!r} named by CXX was not found: unset CXX, or install it."
            )
        return asked
    for name in ("g++", "clang++", "c++"):
        if shutil.which(name):
            return [name]
    raise SimulationError(
        "PyTorch's simulated devices are built with a C++ compiler the first time, and none was "
        "found: install one (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; macOS: "
        "xcode-select --install), or name yours in CXX."
    )


def _major_minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _flags(torch_folder: Path, version: str) -> list[str]:
    # Not torch.utils.cpp_extension: it imports setuptools, which torch does not always install, and
    # its build needs ninja. This file uses neither Python nor pybind.
    import torch

    major, minor = _major_minor(version)
    include = torch_folder / "include"
    return [
        "-std=c++20",  # torch 2.13's headers require it, and 2.9's accept it
        *("-O1", "-fPIC", "-shared"),
        *("-isystem", str(include)),
        *("-isystem", str(include / "torch" / "csrc" / "api" / "include")),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-DUNIDEV_TORCH_VERSION={major * 1000 + minor}",
        f"-L{torch_folder / 'lib'}",
    ]


def _sources() -> dict[str, str]:
    folder = files(__package__) / "cpp"
    return {
        item.name: item.read_text()
        for item in sorted(folder.iterdir(), key=lambda item: item.name)
        if item.name.endswith((".cpp", ".h"))
    }


def _key(version: str, compiler: list[str], flags: list[str]) -> str:
    sources = hashlib.sha256(repr(_sources()).encode()).hexdigest()
    # Two wheels of one version (CPU, CUDA) have different headers.
    build = metadata.version("torch")
    parts = (version, build, platform.machine(), platform.libc_ver()[0], sources, *compiler, *flags)
    return "\n".join(parts)


def _build(compiler: list[str], flags: list[str], path: Path) -> None:
    work = path.parent / "source"
    work.mkdir()
    try:
        for name, text in _sources().items():
            (work / name).write_text(text)
        command = [*compiler, *flags, "simulator.cpp", "-o", str(path), "-lc10", "-ltorch_cpu"]
        done = subprocess.run(  # noqa: S603  the user's own compiler, our own arguments
            command, cwd=work, capture_output=True, text=True, check=False
        )
    finally:
        shutil.rmtree(work)
    if done.returncode != 0:
        raise SimulationError(
            f"the C++ file of PyTorch's simulated devices did not compile.\n"
            f"{shlex.join(command)}\n{done.stderr[-4000:]}"
        )


def _load(library: Path, count: int) -> None:
    import torch

    torch.ops.load_library(library)  # type: ignore[no-untyped-call]
    if torch.ops.unidev_sim.engine_has_started():
        raise SimulationError(
            "torch has run a backward pass in this process already, and starts no autograd thread "
            "for devices added later: call unidev.simulate before the first backward pass, or "
            f"start Python with UNIDEV_SIMULATE={count}."
        )
    torch.ops.unidev_sim.start(count)

    from torch.utils import backend_registration

    from unidev_torch.simulator import device_module as simulator_module

    backend_registration.rename_privateuse1_backend(DEVICE_TYPE)
    torch._register_device_module(DEVICE_TYPE, simulator_module)  # type: ignore[no-untyped-call]
    backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
