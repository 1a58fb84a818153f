"""``CUDA_VISIBLE_DEVICES`` and its kin, changed after the driver was initialised in the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")

HELPERS = Path(__file__).parents[1] / "helpers"
BEGIN = """
import os, sys
from pathlib import Path
import psutil
sys.path.insert(0, {helpers!r})
from fake_proc import put_process, put_system

proc = Path("proc").absolute()
proc.mkdir()
put_system(proc)
put_process(proc, os.getpid())
own = proc / str(os.getpid())
(own / "environ").write_bytes(Path("/proc/self/environ").read_bytes())
psutil.PROCFS_PATH = str(proc)

def initialise(file="/dev/nvidia-uvm"):
    (own / "fd" / "9").symlink_to(file)
"""
DOCTOR = """
from unidev.doctor.diagnosis import diagnose
from unidev.doctor.examination import examine
from unidev.system.child_processes import Interruption

for found in diagnose(examine(os.environ, "numpy", 60, Interruption())):
    if found.cause == "changed-too-late":
        print(found.is_blocking, found.title, *found.evidence, sep="|")
"""


def run(folder: Path, program: str, *words: str, **environment: str) -> tuple[str, str]:
    """What the program prints on stdout and stderr."""
    text = BEGIN.format(helpers=str(HELPERS)) + dedent(program)
    (folder / "program.py").write_text(text)
    kept = {name: value for name, value in os.environ.items() if "VISIBLE" not in name}
    done = subprocess.run(
        [sys.executable, *words, "program.py"], cwd=folder, env={**kept, **environment},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def late_lines(table: str) -> list[str]:
    return [line for line in table.splitlines() if "has no effect" in line]


def test_a_trace_names_both_values_and_the_line(tmp_path: Path) -> None:
    program = """
        os.environ["CUDA_VISIBLE_DEVICES"] = "0"
        initialise()
        os.environ["CUDA_VISIBLE_DEVICES"] = "2"
        os.environ["CUDA_VISIBLE_DEVICES"] = "1"  # this line
        os.environ["PATH"] = "/bin"
        """
    trace = ("-m", "unidev", "trace", "--json", "trace.json")
    _, table = run(tmp_path, program, *trace)
    number = (tmp_path / "program.py").read_text().splitlines().index(
        'os.environ["CUDA_VISIBLE_DEVICES"] = "1"  # this line'
    ) + 1  # fmt: skip
    what = (
        f"changed at program.py:{number}, after the driver had been initialised, which has no "
        "effect: CUDA_VISIBLE_DEVICES was '0', and is '1'"
    )
    assert late_lines(table) == [f"CUDA_VISIBLE_DEVICES, {what}"]
    document = json.loads((tmp_path / "trace.json").read_text())
    assert document["late_changes"] == {"CUDA_VISIBLE_DEVICES": what}


@pytest.mark.parametrize(
    ("file", "variable", "is_late"),
    [
        ("/dev/kfd", "HIP_VISIBLE_DEVICES", True),
        ("/dev/kfd", "ROCR_VISIBLE_DEVICES", True),
        ("/dev/dri/renderD128", "ZE_AFFINITY_MASK", True),
        ("/dev/nvidia-uvm", "ZE_AFFINITY_MASK", False),
        ("/dev/nvidiactl", "CUDA_VISIBLE_DEVICES", False),  # as after NVML alone
    ],
)
def test_each_driver_reads_its_own_variables(
    tmp_path: Path, file: str, variable: str, is_late: bool
) -> None:
    program = f"""
        initialise({file!r})
        del os.environ[{variable!r}]
        """
    _, table = run(tmp_path, program, "-m", "unidev", "trace", **{variable: "0"})
    assert [f"{variable} was '0', and is not set" in line for line in late_lines(table)] == [
        True
    ] * is_late


def test_what_is_changed_before_or_put_back_is_not_late(tmp_path: Path) -> None:
    program = """
        import unidev
        given = os.putenv
        with unidev.trace_transfers() as trace:
            os.environ["CUDA_VISIBLE_DEVICES"] = "1"
            initialise()
            assert not trace.late_changes
            os.environ["CUDA_VISIBLE_DEVICES"] = "0"
            assert trace.late_changes
            os.environ["CUDA_VISIBLE_DEVICES"] = "1"
        assert trace.late_changes == {}
        assert os.putenv is given
        """
    run(tmp_path, program)


def test_the_doctor_inside_a_process_names_both_values(tmp_path: Path) -> None:
    program = """
        initialise()
        os.environ["CUDA_VISIBLE_DEVICES"] = "1"
        """
    out, _ = run(tmp_path, dedent(program) + DOCTOR, CUDA_VISIBLE_DEVICES="0")
    (finding,) = out.splitlines()
    _blocking, title, values, at, file = finding.split("|")
    assert "perhaps after the driver had been initialised" in title
    assert values == "CUDA_VISIBLE_DEVICES was '0', and is '1'"
    assert at == "not seen: which line, and when"
    assert file.endswith("has opened /dev/nvidia-uvm")


def test_the_doctor_names_the_line_that_a_trace_has_seen(tmp_path: Path) -> None:
    program = """
        import unidev
        initialise()
        with unidev.trace_transfers():
            os.environ["CUDA_VISIBLE_DEVICES"] = "1"
        """
    out, _ = run(tmp_path, dedent(program) + DOCTOR)
    blocking, title, values, at, _ = out.strip().split("|")
    assert (blocking, values) == ("True", "CUDA_VISIBLE_DEVICES was not set, and is '1'")
    assert title.endswith("in this process, which has no effect.")
    assert at.startswith("changed at program.py:")


def test_the_doctor_says_nothing_where_the_driver_is_not_initialised(tmp_path: Path) -> None:
    program = 'os.environ["CUDA_VISIBLE_DEVICES"] = "1"\n'
    assert run(tmp_path, program + DOCTOR) == ("", "")
