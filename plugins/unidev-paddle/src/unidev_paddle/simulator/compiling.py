"""Building the simulated devices' library against the headers in Paddle's wheel."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from unidev.contract import build_once
from unidev.errors import SimulationError

SOURCES = tuple(sorted(Path(__file__).with_name("cpp").glob("*.cpp")))
OPTIONS = ("-O2", "-shared", "-fPIC", "-std=c++17")
HEADER = "include/paddle/phi/backends/device_ext.h"
COMPILE_TIMEOUT_S = 300


@dataclass(frozen=True)
class Paddle:
    """The folder where Paddle is installed, found without importing it."""

    folder: Path

    @property
    def build_facts(self) -> str:
        """The version and commit of its build, which the library has to match."""
        return (self.folder / "version" / "__init__.py").read_text(encoding="utf-8")

    @property
    def linked(self) -> tuple[str, ...]:
        """Linker options: Paddle's library, by its name alone.

        When Paddle opens ours, its own is loaded already, and is used wherever it is installed.
        """
        return (f"-L{self.folder / 'libs'}", "-Wl,--no-as-needed", "-l:libphi_core.so")


def built_library() -> Path:
    """The library of simulated devices for this Paddle, built if it is not cached yet.

    Raises:
        SimulationError: not Linux; no Paddle, headers or compiler; or the build fails.
    """
    paddle = find_paddle()
    compiler = find_compiler()
    return build_once(
        "paddle",
        _key(paddle, compiler),
        "unidev_simulator.so",
        lambda path: _compile(paddle, compiler, path),
    )


def find_paddle() -> Paddle:
    """The installed Paddle, if simulated devices can be built for it."""
    if sys.platform != "linux":
        raise SimulationError(
            f"Paddle accepts additional devices on Linux only, and this is {sys.platform}: run the "
            "program there (WSL or a container will do), or with another backend."
        )
    spec = importlib.util.find_spec("paddle")
    if spec is None or not spec.submodule_search_locations:
        raise SimulationError(
            "simulated devices need Paddle installed: "
            "pip install './plugins/unidev-paddle[framework]'."
        )
    paddle = Paddle(Path(next(iter(spec.submodule_search_locations))))
    for needed in (HEADER, "libs/libphi_core.so", "version/__init__.py"):
        if not (paddle.folder / needed).exists():
            raise SimulationError(
                f"the Paddle in {paddle.folder} has no {needed}, which simulated devices are built "
                "with: install one that has it, pip install 'paddlepaddle>=3.2,<3.4'."
            )
    return paddle


def find_compiler() -> str:
    """The C++ compiler: ``$CXX``, else the first of the usual ones that exists."""
    wanted = os.environ.get("CXX", "").split()
    candidates = wanted[:1] or ["g++", "c++", "clang++"]
    for candidate in candidates:
        found = shutil.which(candidate)
        if found:
            return found
    raise SimulationError(
        f"simulated devices for Paddle are built with a C++ compiler, and none was found "
        f"(looked for {', '.join(candidates)}): apt install g++, dnf install gcc-c++ or "
        "conda install -c conda-forge gxx, or point CXX at yours."
    )


def _key(paddle: Paddle, compiler: str) -> str:
    version = _run([compiler, "--version"]).stdout
    sources = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()
    return "\n".join([paddle.build_facts, sources, compiler, version, platform.machine(), *OPTIONS])


def _compile(paddle: Paddle, compiler: str, path: Path) -> None:
    headers = ["-I", str(paddle.folder / "include")]
    command = [compiler, *OPTIONS, *headers, *map(str, SOURCES), "-o", str(path), *paddle.linked]
    finished = _run(command)
    if finished.returncode:
        raise SimulationError(
            f"the simulated devices for Paddle could not be built ({' '.join(command)}, exit "
            f"{finished.returncode}):\n{finished.stderr.strip()}\n"
            "Is it this system's C++ compiler, for C++17 (g++ 8 or newer)? CXX selects another."
        )


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603  a list, no shell; the compiler is the user's own
            command, capture_output=True, text=True, check=False, timeout=COMPILE_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SimulationError(
            f"the compiler {command[0]} does not run ({error}): set CXX to one that does."
        ) from error
