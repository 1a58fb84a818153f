"""Builds what is published: the core and each plugin, as sdist, and as the wheel made from that.

    python tools/build_distributions.py dist

Needs hatchling in this environment, and no network.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def project_folders(root: Path = ROOT) -> list[Path]:
    """The folders of the core and of every plugin of the repository ``root``."""
    return [root, *sorted(path for path in root.glob("plugins/unidev-*") if path.is_dir())]


def build(folder: Path, target: Path) -> tuple[Path, Path]:
    """The sdist of the project in ``folder``, and the wheel from it, both in ``target``.

    Raises:
        FileNotFoundError: there is no project in ``folder``.
        subprocess.CalledProcessError: it does not build; its output has been printed.
    """
    if not (folder / "pyproject.toml").is_file():  # hatchling would build that of a parent
        raise FileNotFoundError(f"{folder.name} has no pyproject.toml: each plugin is a project")
    with tempfile.TemporaryDirectory() as fresh:
        _run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", fresh], folder)
        (sdist,) = Path(fresh).glob("*.tar.gz")
        _run(
            [
                sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index",
                "--no-build-isolation", "-w", fresh, str(sdist),
            ],
            Path(fresh),
        )  # fmt: skip
        (wheel,) = Path(fresh).glob("*.whl")
        target.mkdir(parents=True, exist_ok=True)
        moved = [Path(shutil.move(path, target / path.name)) for path in (sdist, wheel)]
        return moved[0], moved[1]


def build_all(target: Path, root: Path = ROOT) -> list[tuple[Path, Path]]:
    """Sdist and wheel of the core, then of each plugin."""
    return [build(folder, target) for folder in project_folders(root)]


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/build_distributions.py FOLDER")
    for pair in build_all(Path(sys.argv[1]).resolve()):
        print(*(path.name for path in pair))
