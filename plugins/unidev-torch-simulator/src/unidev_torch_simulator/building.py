"""Building the C++ library of the simulated GPUs, once for each torch and compiler."""

from __future__ import annotations

import hashlib
import os
import platform
import runpy
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from unidev.contract import build_once
from unidev.errors import SimulationError
from unidev_torch_simulator.device_checks import checked_operators

if TYPE_CHECKING:
    from collections.abc import Mapping

LIBRARY = "libunidev_torch_simulator.so"
OLDEST_TORCH = (2, 9)
"""The oldest torch with which the C++ file was built and tested."""


def built_library(*, as_cuda: bool) -> Path:
    """The library whose devices answer to ``cuda``, or to ``sim``; torch need not be imported.

    Raises:
        SimulationError: there is no compiler, the system is Windows, or torch is too old.
    """
    torch = installed_torch()
    check_system(torch.version)
    compiler = _compiler()
    flags = _flags(torch, as_cuda=as_cuda)
    return build_once(
        "torch", _key(torch, compiler, flags), LIBRARY,
        lambda path: _build(compiler, flags, path), about="20 to 40 s",
    )  # fmt: skip


@dataclass(frozen=True)
class InstalledTorch:
    """The torch that ``import torch`` would give."""

    folder: Path
    version: str
    """With the local part that tells builds apart, such as ``2.13.0+cpu``."""
    accelerator: str | None
    """``cuda 13.0``, ``hip 7.2`` or ``xpu …``, where it was compiled for one."""


def installed_torch() -> InstalledTorch:
    """Read from its file ``version.py``, which imports nothing of torch.

    Raises:
        SimulationError: torch is not installed as a package with files of its own.
    """
    found = find_spec("torch")
    if found is None or found.origin is None:
        raise SimulationError("torch is not installed as a package with files of its own.")
    folder = Path(found.origin).parent
    facts = runpy.run_path(str(folder / "version.py"))
    named = (f"{name} {facts[name]}" for name in ("cuda", "hip", "xpu") if facts.get(name))
    return InstalledTorch(folder, str(facts["__version__"]), next(named, None))


def check_system(version: str) -> None:
    """Raise ``SimulationError`` where the library cannot be built."""
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


def _flags(torch: InstalledTorch, *, as_cuda: bool) -> list[str]:
    # Not torch.utils.cpp_extension: it imports torch, and setuptools, which torch does not always
    # install; its build needs ninja. This file uses neither Python nor pybind.
    include = torch.folder / "include"
    return [
        "-std=c++20",  # torch 2.13's headers require it, and 2.9's accept it
        *("-O1", "-fPIC", "-shared"),
        *("-isystem", str(include)),
        *("-isystem", str(include / "torch" / "csrc" / "api" / "include")),
        "-D_GLIBCXX_USE_CXX11_ABI=1",  # all wheels since 2.7
        "-DNDEBUG",  # as the wheels: with it at::RecordFunction has fewer members
        "-DAT_PER_OPERATOR_HEADERS",  # not all operators: a fifth less to compile
        f"-DUNIDEV_AS_CUDA={int(as_cuda)}",
        f"-L{torch.folder / 'lib'}",
    ]


def _sources() -> Mapping[str, str]:
    package = files(__package__)
    paths = [*(package / "cpp").iterdir(), package / "device_checks.py"]  # which makes a source
    return {
        item.name: item.read_text()
        for item in sorted(paths, key=lambda item: item.name)
        if item.name.endswith((".cpp", ".h", ".py"))
    }


def _key(torch: InstalledTorch, compiler: list[str], flags: list[str]) -> str:
    sources = hashlib.sha256(repr(_sources()).encode()).hexdigest()
    # Two wheels of one version (CPU, CUDA) have different headers.
    build = (torch.version, str(torch.accelerator), platform.machine(), platform.libc_ver()[0])
    # Not where torch is: the library has no path to it, and environments with one torch share it.
    options = (flag.replace(str(torch.folder), "torch") for flag in flags)
    return "\n".join((*build, sources, *compiler, *options))


def _build(compiler: list[str], flags: list[str], path: Path) -> None:
    work = path.parent / "source"
    work.mkdir()
    try:
        for name, text in _sources().items():
            (work / name).write_text(text)
        (work / "checked_operators.inc").write_text(
            checked_operators(installed_torch().folder.parent)
        )
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
