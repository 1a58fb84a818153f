"""``unidev launch``: a program in several processes, or alone."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys
import helper_beside_it
import unidev

group = unidev.group()
total = group.all_reduce(unidev.full(1, group.rank + 1.0))
print(sys.argv[1:], group.size, unidev.to_numpy(total).tolist(), __name__)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "helper_beside_it.py").touch()
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def run(*words: str, folder: Path, backend: str = "numpy") -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "UNIDEV_BACKEND": backend,
        "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
    }
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
    )


def launch(*words: str, folder: Path, backend: str = "numpy") -> subprocess.CompletedProcess[str]:
    return run("-m", "unidev", "launch", *words, folder=folder, backend=backend)


def test_a_program_runs_in_all_workers(folder: Path) -> None:
    done = launch("--workers", "3", "program.py", "--epochs", "2", folder=folder)
    expected = [f"[{rank}] ['--epochs', '2'] 3 [6.0] __main__" for rank in range(3)]
    assert sorted(done.stdout.splitlines()) == expected, done.stderr
    assert done.returncode == 0


def test_the_current_folder_stays_on_the_path_if_it_is_in_pythonpath(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)  # `run` passes it on
    inner = folder / "inner"
    inner.mkdir()
    (inner / "program.py").write_text("import helper_beside_it")
    done = launch(os.path.join("inner", "program.py"), folder=folder)
    assert done.returncode == 0, done.stderr


def test_the_same_program_runs_alone(folder: Path) -> None:
    done = run("program.py", "x", folder=folder)
    assert done.stdout == "['x'] 1 [1.0] __main__\n", done.stderr


@pytest.mark.parametrize(
    ("ending", "code", "words"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(0)", 0, ""),
        ("sys.exit(3 * group.rank)", 1, "unidev: worker 1 on 127.0.0.1 called sys.exit(3)."),
        ("assert group.rank", 1, "unidev: worker 0 on 127.0.0.1 raised AssertionError."),
    ],
)
def test_the_end_of_a_program_is_that_of_the_run(
    folder: Path, ending: str, code: int, words: str
) -> None:
    (folder / "program.py").write_text(PROGRAM + ending)
    done = launch("program.py", folder=folder)
    assert done.returncode == code, done.stderr
    assert words in done.stderr


def test_the_traceback_of_a_program_begins_in_the_program(folder: Path) -> None:
    (folder / "program.py").write_text("def fail():\n    raise OSError('mine')\n\nfail()\n")
    done = launch("program.py", folder=folder)
    places = [line.strip() for line in done.stderr.splitlines() if line.lstrip().startswith("File")]
    path = folder / "program.py"
    assert places == [f'File "{path}", line 4, in <module>', f'File "{path}", line 2, in fail']


def test_what_fails_in_unidev_before_the_program_has_a_traceback(folder: Path) -> None:
    (folder / "program.py").write_text("def (")
    done = launch("program.py", folder=folder)
    assert "worker.py" in done.stderr
    assert f'File "{folder / "program.py"}", line 1' in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.py"], "there is no file 'nowhere.py'"),
        (["."], "'.' is a folder: name a Python file."),
        (["--workers", "x", "program.py"], "--workers must be an integer from 1 to 4096, not 'x'."),
        (["--workers", "4097", "program.py"], "--workers must be an integer from 1 to 4096"),
        (["--timeout", "nan", "program.py"], "--timeout must be a positive number of seconds"),
        (["--retries", "1", "program.py"], "pass --checkpoints, a folder"),
        (["--gpus-per-worker", "1", "program.py"], "use fewer workers, or --gpus-per-worker 0"),
        (["--address", "a", "--launcher", "processes", "program.py"], "leave out --launcher or --"),
        (["--launcher", "slurm", "program.py"], "there is no launcher 'slurm'"),
    ],
)
def test_bad_input_is_named(folder: Path, words: list[str], message: str) -> None:
    done = launch(*words, folder=folder)
    assert done.returncode in (1, 2)
    assert message in done.stderr


def test_a_backend_that_is_not_there_is_named_with_the_variable_that_chose_it(folder: Path) -> None:
    done = launch("program.py", folder=folder, backend="nobody")
    assert done.returncode == 1
    assert done.stderr.startswith("unidev: UNIDEV_BACKEND=nobody: there is no backend 'nobody'; ")
