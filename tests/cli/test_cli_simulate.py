"""``unidev simulate``: a command's programs have GPUs; what cannot have them is refused."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from named_gpus import write_plugin

PROGRAM = "import fakeframework\n"
"""It knows nothing of unidev. The plugin of its framework prints what it is asked for."""
PREPARED = "prepare 2 as cuda 1024 L4\nimport\n"


@pytest.fixture
def simulate(tmp_path, unidev):
    """Runs the command in a folder with a framework whose GPUs can be called ``cuda``."""
    write_plugin(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)

    return lambda *words, **variables: unidev(
        "simulate", *words, **{"PYTHONPATH": str(tmp_path), **variables}
    )


NAMED = ("--as", "cuda", "--gpus", "2", "--memory", "1KiB", "--like", "L4", "--")


def test_a_program_that_knows_nothing_of_unidev_has_them(simulate) -> None:
    done = simulate(*NAMED, sys.executable, "program.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, PREPARED, "")


def test_its_children_have_them_too(simulate, tmp_path) -> None:
    (tmp_path / "parent.py").write_text(
        "import subprocess, sys\n"
        "sys.stdout.flush()\n"
        "raise SystemExit(subprocess.call([sys.executable, 'program.py']))\n"
    )
    done = simulate(*NAMED, sys.executable, "parent.py")
    # Each Python is prepared as it starts.
    assert (done.returncode, done.stdout) == (0, PREPARED.splitlines()[0] + "\n" + PREPARED)


def test_without_a_name_a_framework_has_those_of_its_backend(simulate) -> None:
    done = simulate("--gpus", "2", "--", sys.executable, "program.py")
    assert (done.returncode, done.stdout) == (0, "start 2 as None None None\nimport\n")


LIMITED = ("--gpus", "2", "--memory", "1KiB", "--like", "L4", "--", sys.executable, "-c")


def test_numpy_goes_along_with_gpus_that_it_cannot_have(simulate) -> None:
    # Frameworks import it, and batches are made of its arrays.
    program = (
        "import numpy, fakeframework, unidev\n"
        "print(unidev.device_of(numpy.ones(2)), unidev.convert(numpy.ones(2), 'numpy').sum())"
    )
    done = simulate(*LIMITED, program)
    expected = "start 2 as None 1024 L4\nimport\ncpu:0 2.0\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


@pytest.mark.parametrize(
    "select", ["unidev.set_backend('numpy')", "unidev.use_backend('numpy')", "unidev.gpu()"]
)
def test_numpy_is_refused_where_it_is_selected(simulate, select) -> None:
    done = simulate(*LIMITED, f"import unidev; {select}", UNIDEV_BACKEND="numpy")
    assert "SimulationError: backend 'numpy' cannot have these simulated GPUs" in done.stderr
    assert "unset UNIDEV_SIMULATE_MEMORY" in done.stderr


def test_options_that_are_not_given_are_read_from_the_environment(simulate) -> None:
    done = simulate(
        "--gpus", "2", "--", sys.executable, "program.py",
        UNIDEV_SIMULATE_AS="cuda", UNIDEV_SIMULATE_MEMORY="1KiB", UNIDEV_SIMULATE_LIKE="L4",
    )  # fmt: skip
    assert done.stdout == PREPARED


def test_exit_code_and_signal_are_the_programs_own(simulate) -> None:
    assert simulate("--gpus", "1", "--", sys.executable, "-c", "exit(7)").returncode == 7
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    done = simulate("--gpus", "1", "--", sys.executable, "-c", killed)
    assert done.returncode == -signal.SIGTERM


def test_a_sitecustomize_that_was_there_is_run_and_takes_its_place(simulate, tmp_path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs'); MINE = 1\n")
    done = simulate(*NAMED, sys.executable, "-c", "import sitecustomize; print(sitecustomize.MINE)")
    # The first is of the Python that runs `unidev`.
    assert done.stdout == "theirs\nprepare 2 as cuda 1024 L4\ntheirs\n1\n"


def test_a_python_without_unidev_goes_on_with_one_line(simulate, tmp_path) -> None:
    bare = tmp_path / "bare"
    subprocess.run(
        [getattr(sys, "_base_executable", sys.executable), "-m", "venv", "--without-pip", bare],
        check=True,
    )
    python = bare / "bin" / "python"
    done = simulate(*NAMED, python, "-c", "print(1)", PYTHONPATH="")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert done.stderr == f"unidev: no simulated GPUs in {python}: unidev is not installed there.\n"


@pytest.mark.parametrize("options", [["-I"], ["-E"], ["-S"], ["-sE"], ["-X", "dev", "-I"]])
def test_a_python_that_ignores_them_is_refused(simulate, options) -> None:
    done = simulate(*NAMED, sys.executable, *options, "program.py")
    assert (done.returncode, done.stdout) == (2, "")
    letter = options[-1][-1]
    assert done.stderr.endswith(f"to the program: leave out -{letter}.\n")
    assert ("does not import sitecustomize" if letter == "S" else "ignores PYTHONPATH") in (
        done.stderr
    )


def test_options_of_the_program_are_its_own(simulate) -> None:
    done = simulate(*NAMED, sys.executable, "-c", "import fakeframework", "-I", "-S")
    assert (done.returncode, done.stdout) == (0, PREPARED)


@pytest.mark.parametrize("line", ["#!{python} -I", "#!/usr/bin/env -S python -E"])
def test_so_is_a_script_whose_first_line_says_so(simulate, tmp_path, line) -> None:
    script = tmp_path / "tool"
    script.write_text(line.format(python=sys.executable) + "\nprint(1)\n")
    script.chmod(0o755)
    done = simulate(*NAMED, script)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"in the first line of {script} ignores PYTHONPATH" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpus", "2", "--", "no-such-command"], "there is no command 'no-such-command'."),
        (["--gpus", "2", "--", "program.py"], "To run a Python program: -- python program.py"),
        (["--gpus", "0", "--", "true"], "--gpus must be an integer from 1 to 64, not '0'."),
        (["--gpus", "two", "--", "true"], "--gpus must be an integer from 1 to 64, not 'two'."),
        (["--", "true"], "Missing option '--gpus'"),
        (["--gpus", "2"], "Missing argument 'COMMAND...'"),
        (["--gpus", "2", "--memory", "24GB", "--", "true"], "not '24GB'. Example: --memory 24GiB."),
        (["--as", "rocm", "--gpus", "2", "--", "true"], "fake: its GPUs can only be called cuda: "),
        (["--as=", "--gpus", "2", "--", "true"], "--as needs a value."),
        (["--gpus", "2", "--like", "--", "true"], "--like needs a value."),
        (["--as", "cuda:0", "--gpus", "2", "--", "true"], "not 'cuda:0'. Example: --as cuda."),
    ],
)  # fmt: skip
def test_wrong_usage_is_refused_before_the_command_starts(simulate, words, said) -> None:
    done = simulate(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_the_folder_of_the_startup_holds_that_file_alone() -> None:
    # All in it would hide the modules of that name of each program.
    from unidev.cli.simulate import STARTUP

    assert {each.name for each in Path(STARTUP).iterdir()} - {"__pycache__"} == {"sitecustomize.py"}
