"""Builds what is published: the core and each plugin, as sdist, and as the wheel made from that.

    python tools/build_distributions.py dist

Needs build, hatchling and hatch-fancy-pypi-readme in this environment, and no network.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def project_folders(root: Path = ROOT) -> list[Path]:
    """The folders of the core and of every plugin of the repository ``root``."""
    return [root, *sorted(path for path in root.glob("plugins/unidev-*") if path.is_dir())]


def build_all(target: Path, root: Path = ROOT) -> None:
    """Sdist and wheel of the core and of each plugin, in ``target``.

    Raises:
        FileNotFoundError: a plugin's folder has no project.
        subprocess.CalledProcessError: one does not build; its output has been printed.
    """
    for folder in project_folders(root):
        if not (folder / "pyproject.toml").is_file():  # hatchling would build that of a parent
            raise FileNotFoundError(
                f"{folder.name} has no pyproject.toml: each plugin is a project"
            )
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir"]
        subprocess.run([*command, str(target), str(folder)], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/build_distributions.py FOLDER")
    build_all(Path(sys.argv[1]).resolve())
