"""Each program of ``benchmarks/`` with one round, on every framework that is installed here.

What they measure is not judged: that they run is, and what they say of all that is missing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from running_examples import HERE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
PROGRAMS = sorted(
    file.stem for file in BENCHMARKS.glob("*.py") if "def rows_of(" in file.read_text()
)
FRAMEWORKS = ("numpy", "torch", "tensorflow", "paddle", "mxnet", "jax")
ON_GPUS = {"memcpy"}
"""Their tables are part of docs/hardware.md."""


def environment(**more: str) -> dict[str, str]:
    # Programs import what is beside them, which PYTHONSAFEPATH forbids.
    left_out = ("UNIDEV_", "BENCH_", "PYTHONSAFEPATH")
    own = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**own, "OMP_NUM_THREADS": "1", **more}


def run(program: str | Path, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / f"{program}.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, env=environment(**more))


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("backend", HERE)
def test_a_program_measures_a_backend_or_says_why_not(backend: str, program: str) -> None:
    done = run(program, "--rounds", "1", "--backend", backend)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    named = [line for line in lines if line.startswith((f"| {backend} |", f"{backend}: "))]
    assert named or (program, backend) == ("simulated", "torch"), done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.skipif("torch" not in HERE, reason="the frameworks' own ways in it are PyTorch's")
def test_the_picture_of_growth_is_drawn(tmp_path: Path) -> None:
    done = run("growth_plot", "--rounds", "1", str(tmp_path / "growth.svg"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 4 * 3 + 2 + 2 + 2  # a curve each
    assert "<svg" in (tmp_path / "growth.svg").read_text()


def test_each_framework_that_is_not_installed_is_a_line() -> None:
    done = run("copies", "--rounds", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if " not installed " in line]
    missing = [name for name in FRAMEWORKS if find_spec(name) is None]
    how = "not installed (pip install './plugins/unidev-{0}[framework]')"
    assert said == [f"{name}: {how.format(name)}" for name in missing]


def test_a_framework_without_its_plugin_is_a_line(tmp_path: Path) -> None:
    name = next(name for name in FRAMEWORKS if find_spec(name) is None)
    (tmp_path / f"{name}.py").write_text("raise ImportError('must not be imported')\n")
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    done = run("copies", "--rounds", "1", "--backend", name, PYTHONPATH=paths)
    line = f"{name}: its plugin is not installed (pip install ./plugins/unidev-{name})\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, line, "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--rounds", "0"), "argument --rounds: not a positive integer: '0'"),
        (("--rounds", "-1"), "argument --rounds: not a positive integer: '-1'"),
        (("--rounds", "1.5"), "argument --rounds: not a positive integer: '1.5'"),
        (("--round", "1"), "unrecognized arguments: --round 1"),
        (("--backend", "theano"), "argument --backend: invalid choice: 'theano'"),
    ],
)
def test_a_wrong_option_is_said_in_a_line(options: tuple[str, ...], said: str) -> None:
    done = run("copies", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith(f"copies.py: error: {said}")


def test_a_device_that_is_not_there_is_a_line() -> None:
    for device, said in (("gpu:9", "gpu:9 is not available"), ("mars", "'mars' does not specify")):
        done = run("copies", "--rounds", "1", "--backend", "numpy", "--device", device)
        assert (done.returncode, done.stderr) == (0, "")
        (line,) = done.stdout.splitlines()
        assert line.startswith(f"numpy: {said}")


FAULTY = """
import os
from measure import Row
from program import main

def rows_of(backend, _):
    yield Row(backend, "one", "another", 1.0, 2.0, 0.5, None)
    1 / 0

main("", rows_of)
"""


def test_a_fault_in_a_program_fails_it_after_what_it_measured(tmp_path: Path) -> None:
    (tmp_path / "faulty.py").write_text(FAULTY)
    paths = os.pathsep.join([str(BENCHMARKS), os.environ.get("PYTHONPATH", "")])
    done = run(tmp_path / "faulty", "--backend", "numpy", PYTHONPATH=paths)
    assert done.returncode == 1
    *_, row, line = done.stdout.splitlines()
    assert row == "| numpy | one | `another` | 1 s | 2 s | 0.5 |  |  |"
    assert line == "numpy: failed, exit code 1"
    assert done.stderr.count("Traceback") == 1
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is another there")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_leaves_no_process_and_no_file(sent: int, code: int, tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "growth.py"), "--backend", "numpy"]
    process = subprocess.Popen(
        command, env=environment(TMPDIR=str(tmp_path)), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not list(tmp_path.glob("tmp*")):  # its child begins to measure
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.2)  # and has entered the block that removes this folder
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    process.send_signal(sent)
    out, err = process.communicate()
    assert (process.returncode, out) == (code, "")
    assert "Traceback" not in err
    assert not any(child.is_running() for child in children)
    assert list(tmp_path.iterdir()) == []


PAGE = """# Page

<!-- measured -->

Measured on 2020-01-02, elsewhere, 3 cores.

<!-- end -->

<!-- table: {table} -->

| old |

<!-- end -->

Text.

<!-- table: memcpy -->

| of a GPU |

<!-- end -->
"""


def test_the_page_has_new_tables_and_keeps_those_that_cannot_be_made_here(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(table="copies"))
    done = run("page", "--rounds", "1", "--page", str(page))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "memcpy: numpy: gpu:0 is not available" in done.stdout
    text = page.read_text()
    assert "| old |" not in text
    assert text.count("| numpy | copy_to 1 MiB |") == 1
    before, table, kept = text.split("<!-- table: ")
    assert before.startswith("# Page\n\n<!-- measured -->\n\nMeasured on 2")
    assert "2020" not in before
    assert "numpy " in before
    assert "2020" not in table
    assert "\nText.\n" in table
    where = "Measured on 2020-01-02, elsewhere, 3 cores."
    assert kept == f"memcpy -->\n\n{where}\n\n| of a GPU |\n\n<!-- end -->\n"


def test_a_page_of_a_program_that_fails_is_not_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(table="no_such_program"))
    done = run("page", "--rounds", "1", "--page", str(page))
    assert done.returncode == 1
    assert done.stdout.endswith(f"{page} is as it was: no_such_program failed\n")
    assert page.read_text() == PAGE.format(table="no_such_program")


def test_every_program_has_its_table_in_the_documentation() -> None:
    text = (ROOT / "docs/benchmarks.md").read_text()
    begun = [line.split()[2:-1] for line in text.splitlines() if line.startswith("<!-- table: ")]
    assert sorted(program for programs in begun for program in programs) == sorted(
        set(PROGRAMS) - ON_GPUS
    )
    assert text.count("<!-- end -->") == len(begun) + 1
