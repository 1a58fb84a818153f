"""Other people's tests for CUDA, on two simulated GPUs: ``python tools/programs_of_others SUITE``.

Each suite of ``suites.toml`` has an environment of its own in the user's cache folder, where its
first run installs what it needs. ``--checkout FOLDER`` is for suites run from a repository;
``--late report`` reports races; ``--without`` runs without simulated GPUs; more words go to pytest,
whose exit code this one is.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import platformdirs

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SUITES: dict[str, dict[str, Any]] = tomllib.loads((HERE / "suites.toml").read_text("utf-8"))
SUITES = {name: {**SUITES.get(each.get("like", ""), {}), **each} for name, each in SUITES.items()}
TOOLS = (
    "torch==2.13.0", "hatchling>=1.27", "hatch-fancy-pypi-readme>=24.1", "editables", "pytest>=8",
    "pytest-timeout>=2.3",
)  # fmt: skip


def main(words: list[str] | None = None) -> int:
    """Run one suite."""
    listed = "\n".join(f"  {name:18} {suite['about']}" for name, suite in SUITES.items())
    parser = argparse.ArgumentParser(
        prog="python tools/programs_of_others", description=__doc__, epilog=f"suites:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("suite", choices=[*SUITES], metavar="SUITE")
    parser.add_argument("--checkout", type=Path, metavar="FOLDER")
    parser.add_argument("--late", metavar="1|report|FILE.jsonl", help="GPUs that lose every race")
    parser.add_argument("--without", action="store_true", help="no simulated GPUs")
    given, more = parser.parse_known_args(words)
    suite = SUITES[given.suite]
    mark = suite.get("checkout")
    if mark and not (given.checkout and (given.checkout / mark).exists()):
        parser.error(f"{given.suite} is run from a repository: --checkout a folder that has {mark}")
    folder = Path(platformdirs.user_cache_dir("unidev")) / "programs_of_others" / given.suite
    python = folder / "venv" / "bin" / "python"
    wanted = [*TOOLS, *suite["requires"], *filter(None, [suite.get("sdist")])]
    stamp = folder / "installed.txt"
    if not stamp.is_file() or stamp.read_text("utf-8") != "\n".join(wanted):
        install(folder, python, wanted, suite.get("sdist"))
        stamp.write_text("\n".join(wanted), "utf-8")
    source = given.checkout.resolve() if mark else next((folder / "source").glob("*"), folder)
    # Accelerate's tests fill 90 % of the free memory: without a limit, of the host's.
    simulate = ["simulate", "--as", "cuda", "--gpus", "2", "--memory", "4GiB"]
    simulate += [f"--late={given.late}"] * bool(given.late) + ["--"]
    started = [] if given.without else [str(python.with_name("unidev")), *simulate]
    command = [*started, str(python), "-m", "pytest", *pytest_options(suite, source), *more]
    own = {name: x for name, x in os.environ.items() if not name.startswith("UNIDEV_SIM")}
    own["PATH"] = f"{python.parent}{os.pathsep}{own.get('PATH', '')}"  # tests call `accelerate`
    return subprocess.run(command, cwd=source, env={**own, **variables(suite, source)}).returncode


def install(folder: Path, python: Path, wanted: list[str], sdist: str | None) -> None:
    """Make the environment anew, and unpack the source of the tests that an sdist has."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    pip = [str(python), "-m", "pip"]
    subprocess.run([*pip, "install", "--quiet", *wanted], check=True)
    plugins = ROOT / "plugins"
    trees = [f"{ROOT}[cli]", str(plugins / "unidev-torch"), str(plugins / "unidev-torch-simulator")]
    editable = [word for tree in trees for word in ("-e", tree)]
    subprocess.run([*pip, "install", "--quiet", "--no-build-isolation", *editable], check=True)
    if sdist:
        options = ["--no-deps", "--no-binary", ":all:", "--dest", str(folder / "sdist")]
        subprocess.run([*pip, "download", "--quiet", *options, sdist], check=True)
        shutil.unpack_archive(next((folder / "sdist").glob("*.tar.gz")), folder / "source")


def pytest_options(suite: dict[str, Any], source: Path) -> list[str]:
    """The suite's files, and an expression that chooses tests and leaves out what cannot pass."""
    files = [HERE / each for each in suite.get("ours", [])]
    files = files or [source / each for each in suite["tests"]]
    words = list(filter(None, [suite.get("only")]))
    words += [f"not ({name})" for name in suite.get("left_out", {})]
    chosen = ["-k", " and ".join(words)] * bool(words)
    return [
        *map(str, files),
        "-rfE",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        "--timeout=600",
        *chosen,
        *suite.get("options", []),
    ]


def variables(suite: dict[str, Any], source: Path) -> dict[str, str]:
    """The variables of the suite's process."""
    return {
        "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1",
        "PROGRAMS_SOURCE": str(source),
        # The tests of a checkout are those of its own version.
        "PYTHONPATH": f"{source / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        **suite.get("variables", {}),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
