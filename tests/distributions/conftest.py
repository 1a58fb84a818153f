"""The distributions, built once for all tests, and an environment that has their wheels alone."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import NamedTuple

import pytest
from build_distributions import build_all, project_folders
from filelock import FileLock
from packaging.specifiers import SpecifierSet

LIMIT_S = 600


class Installed(NamedTuple):
    """A fresh environment, away from the checkout."""

    python: Path
    site: Path
    """Where the wheels are."""

    def run(
        self, *arguments: str | Path, cwd: Path, expected: int = 0, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run its Python in ``cwd``, which sees nothing of this checkout."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name != "PYTHONPATH" and not name.startswith(("UNIDEV_", "PYTEST_"))
        }
        done = subprocess.run(
            [self.python, *arguments], cwd=cwd, env={**kept, **variables}, capture_output=True,
            text=True, timeout=LIMIT_S,
        )  # fmt: skip
        assert done.returncode == expected, done.stdout[-3000:] + done.stderr[-3000:]
        return done


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for this run of pytest, the same in all of its workers."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def distributions(shared: Path) -> list[tuple[Path, Path]]:
    """Sdist and wheel of the core, then of each plugin: built from this checkout."""
    for module in ("build", "hatchling", "hatch_fancy_pypi_readme"):
        assert importlib.util.find_spec(module), f"the distributions are built with {module}"
    target = shared / "distributions"
    with FileLock(shared / "distributions.lock"):
        if not target.exists():
            build_all(shared / "building")
            (shared / "building").rename(target)
    plugins = [folder.name.replace("-", "_") for folder in project_folders()[1:]]
    return [_pair(target, name) for name in ("unidev_core", *plugins)]


def _pair(folder: Path, name: str) -> tuple[Path, Path]:
    (sdist,) = folder.glob(f"{name}-*.tar.gz")
    (wheel,) = folder.glob(f"{name}-*.whl")
    return sdist, wheel


@pytest.fixture(scope="session")
def installed(shared: Path, distributions: list[tuple[Path, Path]]) -> Installed:
    """The wheels, with what they declare that they need, in an environment of their own.

    Without a framework; NumPy comes with the core. Without plugins for newer Pythons (JAX's).
    """
    wheels = [str(wheel) for _, wheel in distributions if _is_for_this_python(wheel)]
    return _environment(shared, "installed", wheels)


def _is_for_this_python(wheel: Path) -> bool:
    name, version, *_ = wheel.name.split("-")
    metadata = PathDistribution(zipfile.Path(wheel, f"{name}-{version}.dist-info/")).metadata
    return platform.python_version() in SpecifierSet(metadata["Requires-Python"])


@pytest.fixture(scope="session")
def bare(shared: Path, distributions: list[tuple[Path, Path]]) -> Installed:
    """The wheel of the core, without any extra, in an environment of its own."""
    (_, core), *_ = distributions
    return _environment(shared, "bare", [str(core)])


def _environment(shared: Path, name: str, wheels: list[str]) -> Installed:
    folder = shared / name
    place = ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")
    python = folder.joinpath(*place)
    with FileLock(shared / f"{name}.lock"):
        if not (folder / "complete").exists():
            make = [sys.executable, "-m", "venv", "--without-pip", folder]
            subprocess.run(make, check=True, timeout=LIMIT_S)
            install = ["install", "--quiet", "--no-compile", *wheels]
            command = [sys.executable, "-m", "pip", "--python", python, *install]
            subprocess.run(command, check=True, timeout=LIMIT_S, cwd=shared)
            (folder / "complete").touch()
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True)
    return Installed(python, Path(found.stdout.strip()))
