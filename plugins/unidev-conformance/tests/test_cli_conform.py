from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Protocol
from xml.etree import ElementTree as ET

import pytest
from progress_lines import without_progress

if TYPE_CHECKING:
    from pathlib import Path

ONLY = "smoke.create_and_read_back,copy.zero_d"


class Unidev(Protocol):
    def __call__(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def unidev(tmp_path: Path) -> Unidev:
    """Runs the command line in a folder of its own, in a pipe."""

    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
        return subprocess.run(
            [sys.executable, "-m", "unidev", *words],
            cwd=tmp_path,
            env={**kept, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


def test_selected_checks_are_run_and_written_in_every_form(unidev, tmp_path) -> None:
    done = unidev(
        "conform", "numpy", "--only", ONLY, "--simulate", "2", "--report", "r.json",
        "--markdown", "r.md", "--junit", "r.xml",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 checks in 2 configurations: 4 pass" in done.stdout
    assert "no verdict on the rest" in done.stdout
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["header"]["command"].startswith("unidev conform numpy --only smoke.create")
    assert [d["device"] for d in document["header"]["configurations"][1]["devices"]] == [
        "cpu:0", "gpu:0", "gpu:1",
    ]  # fmt: skip
    assert (tmp_path / "r.md").read_text().startswith("# Conformance of numpy")
    ET.parse(tmp_path / "r.xml")
    assert document["footer"]["verdict"] == "selection-passes"


def test_the_module_is_the_command_also_where_it_is_not_installed(tmp_path: Path) -> None:
    program = """
import runpy
from unidev import cli
cli.entry_points = lambda **_: ()
runpy.run_module("unidev_conformance", run_name="__main__")
"""
    words = ["numpy", "--simulate", "0", "--only", "copy.zero_d", "--report", "r.json"]
    subprocess.run([sys.executable, "-c", program, *words], cwd=tmp_path, check=True)
    header = json.loads((tmp_path / "r.json").read_text())["header"]
    assert header["command"] == f"unidev conform {' '.join(words)}"


HOSTILE_INI = """
[pytest]
addopts = -k nothing_at_all --strict-markers -p no:python
python_files = nothing_*.py
filterwarnings = error
"""
HOSTILE_CONFTEST = """
raise SystemExit("a conftest.py of the author's was loaded")
"""


def test_the_folder_and_environment_of_the_author_do_not_leak_in(unidev, tmp_path) -> None:
    (tmp_path / "pytest.ini").write_text(HOSTILE_INI)
    (tmp_path / "conftest.py").write_text(HOSTILE_CONFTEST)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '--bogus'")
    done = unidev(
        "conform", "numpy", "--only", ONLY, "--simulate", "0",
        PYTEST_ADDOPTS="-k nothing", PYTEST_PLUGINS="not_there", PYTHONOPTIMIZE="1",
        UNIDEV_SIMULATE="9", UNIDEV_BACKEND="nope",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 checks in 1 configuration: 2 pass" in done.stdout


BROKEN = """
import unidev
from unidev.backends.numpy_backend.backend import NumpyBackend
from unidev.backends.numpy_backend import NumpySimulator

class Broken(NumpyBackend):
    def copy_to(self, x, device, non_blocking):
        {copy}

@unidev.hookimpl
def unidev_register_backend():
    return unidev.BackendSpec(
        name="broken", contract_version=3, framework="numpy", install="pip install numpy",
        load=lambda: Broken, namespaces=("unidev",){simulator},
    )
"""


def broken(folder: Path, copy: str, simulator: str = ", simulator=NumpySimulator") -> None:
    (folder / "broken.py").write_text(BROKEN.format(copy=copy, simulator=simulator))


def conform_broken(unidev: Unidev, *words: str) -> subprocess.CompletedProcess[str]:
    return unidev("conform", "broken", *words, UNIDEV_PLUGINS="broken")


def test_a_backend_whose_copy_is_none_does_not_conform(unidev, tmp_path) -> None:
    broken(tmp_path, "return x")
    done = conform_broken(
        unidev, "--only", "copy.disjoint_on_the_same_device,copy.zero_d", "--simulate", "0"
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "✗ fail copy.disjoint_on_the_same_device on host (required)" in done.stdout
    assert (
        "again: UNIDEV_PLUGINS=broken python -m unidev conform broken --only copy.disj"
        in done.stdout
    )


def test_without_the_host_simulated_gpus_alone_are_judged(unidev, tmp_path) -> None:
    words = ("--only", "copy.zero_d", "--no-host")
    done = unidev("conform", "numpy", "--simulate", "2", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "simulate-2: " in done.stdout
    assert "1 check in 1 configuration: 1 pass" in done.stdout
    assert "not judged on the host's own devices, because of --no-host" in done.stdout
    broken(tmp_path, "return x.copy()", simulator="")
    refused = conform_broken(unidev, *words)
    assert refused.returncode == 2
    assert "--no-host leaves nothing to judge: broken has no simulator (" in refused.stderr


def test_simulated_gpus_are_judged_under_their_name(unidev, tmp_path) -> None:
    named = """
import os
from unidev.backends.numpy_backend import NumpySimulator

class Named(NumpySimulator):
    def refusal(self, gpus):
        return None if gpus.name in (None, "cuda") else "they can only be called cuda"
"""
    broken(tmp_path, "return x if os.environ.get('UNIDEV_SIMULATE_AS') else x.copy()")
    plugin = (tmp_path / "broken.py").read_text().replace("=NumpySimulator", "=Named")
    (tmp_path / "broken.py").write_text(named + plugin)
    words = ("--only", "copy.disjoint_on_the_same_device", "--simulate", "2", "--simulate-as")
    done = conform_broken(unidev, *words, "cuda")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "✗ fail copy.disjoint_on_the_same_device on simulate-2-as-cuda (required)" in done.stdout
    assert "✗ fail copy.disjoint_on_the_same_device on host" not in done.stdout
    assert "--simulate 2 --simulate-as cuda" in done.stdout
    refused = conform_broken(unidev, *words, "rocm")
    assert refused.returncode == 2
    assert "--simulate-as rocm: they can only be called cuda" in refused.stderr


def test_fail_fast_ends_with_the_first_failure(unidev, tmp_path) -> None:
    broken(tmp_path, "return x")
    done = conform_broken(unidev, "--only", "copy", "--fail-fast")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("✗ fail") == 1
    assert "not started: another configuration ended at the first failure" in done.stdout


def test_a_copy_that_kills_the_process_is_a_crash_and_the_rest_is_judged(unidev, tmp_path) -> None:
    broken(tmp_path, "import os; os.abort()")
    (tmp_path / "temporary").mkdir()
    done = unidev(
        "conform", "broken", "--only", f"{ONLY},copy.shape_kept,devices.unique", "--simulate", "0",
        UNIDEV_PLUGINS="broken", TMPDIR=str(tmp_path / "temporary"),
    )  # fmt: skip
    assert done.returncode == 3, done.stdout + done.stderr
    assert "crash copy.zero_d on host" in done.stdout
    assert "killed by SIGABRT" in done.stdout
    assert "2 pass, 2 crash" in done.stdout
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_backend_without_a_simulator_is_judged_without(unidev, tmp_path) -> None:
    broken(tmp_path, "return x.copy()", simulator="")
    done = conform_broken(unidev, "--only", ONLY)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "note: judged only on the host's own devices: no simulator" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["conform"], 2, "which backend?"),
        (["conform", "numpy", "--simulate", "65"], 2, "an integer from 0 to 64, not '65'"),
        (["conform", "numpy", "--profile", "hardware", "--simulate", "2"], 2, "judges real GPUs"),
        (["conform", "numpy", "--simulate-as", "cuda"], 2, "simulated GPUs bear no name"),
        (["conform", "numpy", "--simulate", "0", "--simulate-as", "cuda"], 2, "leave out --sim"),
        (["conform", "numpy", "--simulate", "0", "--no-host"], 2, "leave out one of them"),
        (["conform", "numpy", "--profile", "hardware", "--no-host"], 2, "judges real GPUs"),
        (["conform", "numpy", "--profile", "nope"], 2, "no profile 'nope'; choose from: tensor"),
        (["conform", "numpy", "--only", "copy.zero"], 2, "Did you mean copy.zero"),
        (["conform", "numpy", "--only", ","], 2, "names no check"),
        (["conform", "numpy", "--only", "nosuch"], 2, "Its groups are smoke, devices, create"),
        (["conform", "numpy", "--report", "no/such/r.json"], 2, "no folder 'no/such'"),
        (["conform", "numpy", "--report", "r" * 300], 2, "cannot be written: File name too long"),
        (["conform", "numpy", "--junit", "/proc/r.xml"], 2, "/proc/r.xml cannot be written"),
        (["conform", "numpy", "--timeout", "0"], 2, "a positive number of seconds, not '0'"),
        (["conform", "numpy", "--timeout", "nan"], 2, "--timeout must be a positive number"),
        (["conform", "numpy", "--timeout", "inf"], 2, "--timeout must be a positive number"),
        (["conform", "numpy", "--report", "r", "--junit", "./r"], 2, "--junit name the same file"),
        (["conform", "nope"], 4, "there is no backend 'nope'; there are: numpy"),
        (["confrom"], 2, "No such command 'confrom'. Did you mean 'conform'?"),
        (["trace", "-"], 2, "A program on standard input is /dev/stdin."),
    ],
)
def test_wrong_usage_is_a_clean_line_on_stderr(unidev, words, code, said) -> None:
    done = unidev(*words)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_the_help_says_which_configurations_and_what_the_exit_codes_mean(unidev) -> None:
    done = unidev("conform", "--help")
    assert done.returncode == 0
    told = " ".join(done.stdout.split())
    assert "first on the host's own devices, then on 1 and on 4 simulated GPUs" in told
    assert all(f"\n    {code} " in done.stdout for code in (0, 1, 2, 3, 4, 130))


def test_the_list_of_checks_names_each_with_what_it_proves(unidev) -> None:
    done = unidev("conform", "--list")
    assert done.returncode == 0
    line = next(x for x in done.stdout.splitlines() if x.startswith("copy.values_bit_exact "))
    assert "required" in line
    assert len(line.split()) > 4


def test_output_in_a_pipe_is_plain_and_no_word_is_cut(unidev) -> None:
    done = unidev("conform", "numpy", "--only", ONLY, "--simulate", "0", "-v", FORCE_COLOR="1")
    assert "\x1b" not in done.stdout
    assert "…" not in done.stdout
    assert all(len(line.rstrip()) < 300 for line in done.stdout.splitlines())


def test_a_report_that_cannot_be_written_is_said_after_the_results(unidev) -> None:
    words = ["conform", "numpy", "--only", ONLY, "--simulate", "0", "--report", "/dev/full"]
    done = unidev(*words)
    assert done.returncode == 2
    assert "2 pass" in done.stdout
    assert "/dev/full cannot be written: No space left" in done.stderr


def test_a_single_check_is_counted_as_one_and_notes_have_one_blank_line(unidev) -> None:
    done = unidev("conform", "numpy", "--only", "copy.zero_d", "--simulate", "0")
    assert "(1 check in 1 configuration: 1 pass)" in done.stdout
    assert "\n\nnote: " in done.stdout
    assert "\n\n\n" not in done.stdout


PROBES = {
    "probe = 5": "the probe of backend 'broken' is not a unidev.Probe: it is",
    "probe = property(lambda self: 1 / 0)": "is not available: ZeroDivisionError",
}


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_that_is_none_is_said_once(unidev, tmp_path, probe) -> None:
    broken(tmp_path, f"return x.copy()\n\n    {probe}")
    done = conform_broken(unidev, "--simulate", "0")
    assert done.returncode == 4, done.stdout + done.stderr
    assert done.stderr.count(PROBES[probe]) == 1
    assert len(without_progress(done.stderr)) == 1


def test_an_error_says_where_it_was_raised(unidev, tmp_path) -> None:
    broken(tmp_path, "import os, textwrap; os.system('echo no kernel >&2'); textwrap.dedent(None)")
    done = conform_broken(unidev, "--only", "copy.zero_d", "--simulate", "0")
    assert done.returncode == 1
    assert re.search(r"TypeError: .*\n +raised at .*\d, in ", done.stdout)
    assert f"called at {tmp_path / 'broken.py'}:8, in copy_to" in done.stdout
    assert re.search(r"it printed to stderr:\n +no kernel\n", done.stdout)


def test_only_takes_groups_and_checks() -> None:
    from unidev_conformance.cli.conform import _selection
    from unidev_conformance.running.catalog import all_checks

    group = [each.id for each in all_checks() if each.group == "devices"]
    assert len(group) > 1
    assert _selection("devices, copy.zero_d,devices", "tensor") == (*group, "copy.zero_d")


def test_progress_after_the_last_check_is_not_that_of_loading() -> None:
    from unidev_conformance.cli.conform import _step
    from unidev_conformance.running.configuration_run import Progress

    at = Progress(configuration="host", check=None, done=0, of=0)
    assert _step(at) == "host: loading the backend"
    at = Progress(configuration="host", check=None, done=4, of=4)
    assert _step(at) == "host: waiting for the process to end (4 of 4)"
