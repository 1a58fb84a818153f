"""Builds the stand-in once, keeps it in unidev's cache, and says how a process is run on it."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from unidev.contract import build_once
from unidev.errors import SimulationError

SOURCES = Path(__file__).parent / "cuda"
LIBRARY = "libstand_in.so"
STANDS_IN_FOR = ("libcudart.so.13", "libcuda.so.1", "libnvidia-ml.so.1")
"""One file under three names: whoever loads one of them gets the one that is loaded already."""
HEADERS = ("nvidia/cu13/include", "triton/backends/nvidia/include")
FLAGS = ("-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-attributes")


class Unavailable(Exception):
    """The stand-in cannot run here; says why."""


def environment() -> dict[str, str]:
    """The variables with which a process runs on the stand-in. Builds it first, if need be.

    Raises:
        Unavailable: the platform, the compiler or torch's CUDA build is missing.
    """
    library = built()
    names = library.parent.with_name(f"{library.parent.name}.names")
    names.mkdir(mode=0o700, exist_ok=True)
    for name in STANDS_IN_FOR:
        link = names / name
        if not link.exists():
            made = names / f"{name}.{os.getpid()}"
            made.symlink_to(library)
            made.replace(link)  # at once, also where several processes do this
    return {
        "LD_PRELOAD": _joined(library, os.environ.get("LD_PRELOAD")),
        "LD_LIBRARY_PATH": _joined(names, os.environ.get("LD_LIBRARY_PATH")),
    }


def built() -> Path:
    """The library, compiled against the headers that torch's wheels bring."""
    reason = why_not_here()
    if reason is not None:
        raise Unavailable(reason)
    folders = [folder for folder in map(_installed, HEADERS) if folder is not None]
    compiler = shutil.which("g++")
    assert compiler is not None
    sources = sorted(SOURCES.glob("*.cpp"))
    command = [
        compiler, *FLAGS, *(f"-isystem{folder}" for folder in folders), *map(str, sources),
    ]  # fmt: skip

    def build(path: Path) -> None:
        done = subprocess.run([*command, "-o", str(path)], capture_output=True, text=True)
        if done.returncode:
            raise SimulationError(f"the stand-in for CUDA does not compile:\n{done.stderr}")

    return build_once("stand-in-cuda", _key(compiler), LIBRARY, build)


def why_not_here() -> str | None:
    """What is missing, or None."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return f"it needs Linux on x86-64, and this is {sys.platform} on {platform.machine()}"
    if shutil.which("g++") is None:
        return "g++ was not found (Debian, Ubuntu: apt install g++)"
    if _installed(HEADERS[0]) is None:
        return (
            "torch's CUDA build is not installed: its wheels bring the headers (`nox -s stand_in "
            "--install-only`, or pip install torch==2.14.1)"
        )
    return None


def _installed(folder: str) -> Path | None:
    """A folder of an installed package, found without importing it."""
    package, *rest = folder.split("/")
    spec = find_spec(package)
    for place in (spec and spec.submodule_search_locations) or ():
        found = Path(place, *rest)
        if found.is_dir():
            return found
    return None


def _key(compiler: str) -> str:
    digest = hashlib.sha256()
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + source.read_bytes())
    version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True).stdout
    runtime = metadata.version("nvidia-cuda-runtime")
    return "\n".join([digest.hexdigest(), version, runtime, *FLAGS])


def _joined(first: Path, others: str | None) -> str:
    return os.pathsep.join([str(first), *(others or "").split(os.pathsep)]).rstrip(os.pathsep)
