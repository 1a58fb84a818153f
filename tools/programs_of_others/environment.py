"""A suite's source, a virtual environment with what it needs, and the variables for its run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from programs_of_others.running import Refusal, run_in_group

if TYPE_CHECKING:
    from programs_of_others.suites import Suite

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).with_name("programs")
TORCH = "torch==2.13.0"
TOOLS = (
    "hatchling>=1.25", "hatch-fancy-pypi-readme>=24.1", "editables", "pytest>=8",
    "pytest-timeout>=2.3",
)  # fmt: skip

MEMORY = ("--memory", "4GiB")
"""Of each GPU. Accelerate's tests fill 90 % of the free memory: without a limit, of the host's."""


class Environment:
    """Folders and commands of one suite under ``folder``."""

    def __init__(self, suite: Suite, folder: Path, checkout: Path | None) -> None:
        self.suite = suite
        self.folder = folder / suite.name
        self._prepared = folder / (suite.like or suite.name)
        self._venv = self._prepared / "venv"
        self._given = _checked(suite, checkout)
        self.source = self._given or self.folder / "source"

    def prepare(self) -> None:
        """Unpack and install, as far as an earlier run has not."""
        for folder in (self.folder, self._prepared):
            folder.mkdir(parents=True, exist_ok=True)
        if self.suite.sdist and self._given is None:
            self._unpack(self.suite.sdist)
        self._install()

    @property
    def tools(self) -> Path:
        """The folder of this package, for the plugin of pytest's that it has."""
        return Path(__file__).parents[1]

    @property
    def tests(self) -> list[Path]:
        """Files and folders for pytest."""
        base = PROGRAMS if self.suite.ours else self.source
        return [base / each for each in self.suite.tests]

    def variables(self) -> dict[str, str]:
        """The variables of the process that runs the suite."""
        fixed = {
            "PATH": f"{self._venv / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(self.folder / "huggingface"),
            "TOKENIZERS_PARALLELISM": "false",
            "PROGRAMS_SOURCE": str(self.source),
        }
        # A setting of the caller's own would give simulated GPUs to the run without them.
        kept = {name: value for name, value in os.environ.items() if "UNIDEV_SIM" not in name}
        own = {
            name: value.replace("{source}", str(self.source))
            for name, value in self.suite.variables.items()
        }
        return {**kept, **fixed, **own}

    def command(self, *, simulated: bool) -> list[str]:
        """What starts Python in this environment, with two simulated GPUs or with none."""
        python = str(self._venv / "bin" / "python")
        if not simulated:
            return [python]
        unidev = str(self._venv / "bin" / "unidev")
        return [unidev, "simulate", "--as", "cuda", "--gpus", "2", *MEMORY, "--", python]

    def versions(self) -> dict[str, str]:
        """The versions of torch and of the packages whose version the suite names."""
        ask = "import importlib.metadata as m, sys; print(*map(m.version, sys.argv[1:]))"
        pinned = [each for each in (self.suite.sdist, *self.suite.requires) if "==" in each]
        names = ["torch", *(each.partition("==")[0] for each in pinned)]
        found = subprocess.run(
            [*self.command(simulated=False), "-c", ask, *names],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return dict(zip(names, found.stdout.split(), strict=True))

    # -- what is prepared --------------------------------------------------------------------------

    def _unpack(self, requirement: str) -> None:
        stamp = self.folder / "source.txt"
        if self.source.is_dir() and stamp.is_file() and stamp.read_text() == requirement:
            return
        shutil.rmtree(self.source, ignore_errors=True)
        fetched = self.folder / "sdist"
        shutil.rmtree(fetched, ignore_errors=True)
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
            "--dest", str(fetched), requirement,
        ]  # fmt: skip
        self._do(command, f"fetching the sdist of {requirement}")
        archive = next(fetched.glob("*.tar.gz"))
        shutil.unpack_archive(archive, self.folder / "unpacked")
        (unpacked,) = (self.folder / "unpacked").iterdir()
        unpacked.rename(self.source)
        stamp.write_text(requirement)

    def _install(self) -> None:
        stamp = self._prepared / "installed.txt"
        wanted = [str(ROOT), TORCH, *TOOLS, *self.suite.requires]
        if self.suite.sdist:
            wanted.append(self.suite.sdist)
        if stamp.is_file() and stamp.read_text() == "\n".join(wanted):
            return
        shutil.rmtree(self._venv, ignore_errors=True)
        self._do([sys.executable, "-m", "venv", str(self._venv)], "making the environment")
        pip = [str(self._venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        self._do([*pip, *wanted[1:]], f"installing {len(wanted) - 1} packages and what they need")
        trees = ["-e", f"{ROOT}[cli]", "-e", str(ROOT / "plugins" / "unidev-torch")]
        self._do([*pip, "--no-build-isolation", *trees], "installing unidev from this tree")
        stamp.write_text("\n".join(wanted))

    def _do(self, command: list[str], about: str) -> None:
        log = self.folder / "preparing.log"
        ended = run_in_group(command, log=log, about=f"{self.suite.name}: {about}", limit=1800)
        if ended != 0:
            last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            raise Refusal(f"{about} failed (exit code {ended}): {log}\n{last}")


def _checked(suite: Suite, checkout: Path | None) -> Path | None:
    if checkout is None:
        if suite.checkout:
            raise Refusal(
                f"{suite.name} is run from a checkout of {suite.checkout_of}: --checkout FOLDER"
            )
        return None
    if not (suite.checkout or suite.sdist):
        raise Refusal(
            f"{suite.name} needs no checkout: its tests come with torch or with this tool"
        )
    if not checkout.is_dir():
        raise Refusal(f"{checkout} is not a folder")
    if not any(checkout.iterdir()):
        raise Refusal(f"{checkout} is empty")
    mark = suite.checkout or suite.tests[0]
    if not (checkout / mark).exists():
        raise Refusal(
            f"{checkout} has no {mark}: not a checkout of {suite.checkout_of or suite.name}"
        )
    return checkout.resolve()
