"""`unidev doctor` itself: its answers, its exit codes, its children."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from doctor_cases import (
    EMPTY,
    FOR_THE_CPU,
    FULL,
    NUMPY,
    TAKEN,
    WORKING,
    case,
    tensorflow,
    torch,
    with_environment,
    with_gpus,
)
from jsonschema import Draft202012Validator
from progress_lines import without_progress

from unidev.cli.doctor import command
from unidev.doctor import examination
from unidev.doctor.diagnosis import RANKING, diagnose
from unidev.doctor.document import to_document
from unidev.doctor.facts import Case
from unidev.system.child_processes import noticing_interruption

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs/doctor.schema.json").read_text(encoding="utf-8")
)

PLUGIN = """
import unidev

def load():
    {load}
    from unidev.contract.installation import Build, Installation, Wheel
    from unidev.backends.numpy_backend.backend import NumpyBackend

    class Installed(Installation):
        def build(self):
            {build}
            wheel = Wheel("cuda", "12.6", "pip install strange-cuda")
            return Build(accelerator=None, wheels=(wheel,), page="https://example.org/install")

    class Strange(NumpyBackend):
        installation = property(Installed)

    return Strange

@unidev.hookimpl
def unidev_register_backend():
    return unidev.BackendSpec(
        name="strange", contract_version=3, framework="{framework}",
        install="pip install {framework}", load=load, title="Strange", library="libstrange",
        sharing={{"STRANGE_FRACTION": "0.1"}}, sharing_page="https://example.org/memory",
    )
"""


@pytest.fixture
def plugin(tmp_path):
    """A framework that uses GPUs, in a build that does not."""

    def write(*, load: str = "pass", build: str = "pass", framework: str = "array") -> str:
        text = PLUGIN.format(load=load, build=build, framework=framework)
        (tmp_path / "strange.py").write_text(text)
        return "strange"

    return write


@pytest.fixture
def doctor(unidev):
    return partial(unidev, "doctor")


@pytest.fixture
def faked(monkeypatch):
    """Runs the command on a machine that is made up."""

    def run(given: Case, *words: str) -> tuple[int, str]:
        monkeypatch.setattr(examination, "examine", lambda *_: given)
        done = CliRunner().invoke(command, words, standalone_mode=False)
        assert done.exception is None, done.exception
        return done.return_value, done.output

    return run


def test_all_is_well_only_if_every_framework_sees_every_gpu(faked) -> None:
    assert faked(case(WORKING, torch(2), tensorflow(2))) == (
        0,
        "Every framework sees every GPU: 2.\n"
        "\n"
        "backend     framework          built for  GPUs seen\n"
        "torch       torch 2.13.0       CUDA 12.6  2 of 2\n"
        "tensorflow  tensorflow 2.13.0  CUDA 12.6  2 of 2\n"
        "\n"
        "NVIDIA's driver 570.86.15, CUDA up to 12.8: GPU 0, NVIDIA H200, sm_90, 139 GiB of 140 GiB "
        "free\n"
        "NVIDIA's driver 570.86.15, CUDA up to 12.8: GPU 1, NVIDIA H200, sm_90, 139 GiB of 140 GiB "
        "free\n",
    )
    assert faked(case(WORKING, torch(2), tensorflow(1)))[0] == 1
    assert faked(case(EMPTY, torch(0)))[0] == 1


def test_the_verdict_says_who_sees_less(faked) -> None:
    assert faked(case(WORKING, torch(2), tensorflow(1)))[1].startswith(
        "There are 2 GPUs, but tensorflow does not see all.\n"
    )
    assert faked(case(EMPTY, torch(0)))[1].startswith("No GPU can be used: no driver sees one.\n")
    assert faked(case(with_environment(EMPTY, UNIDEV_SIMULATE="2"), torch(0)))[1].startswith(
        "No real GPU can be used: no driver sees one. unidev's GPUs are simulated.\n"
    )
    assert faked(case(WORKING, NUMPY))[1].startswith(
        "There are 2 GPUs, but no framework to use them.\n"
    )


def test_a_gpu_that_only_a_framework_knows_of_is_said_to_be_that(faked) -> None:
    code, text = faked(case(EMPTY, torch(1)))
    assert code == 0
    assert text.startswith("Every framework sees a GPU, but no driver reports one.")
    code, text = faked(case(EMPTY, torch(1), tensorflow(0, FOR_THE_CPU)))
    assert code == 1
    assert text.startswith("Not every framework sees a GPU, but no driver reports one.")


def test_a_note_about_memory_leaves_the_exit_code_alone(faked) -> None:
    code, text = faked(case(with_gpus(FULL), torch(1)))
    assert code == 0
    assert "1. The memory of GPU 0 is used by process 4242 (python)." in text


@pytest.mark.parametrize(
    "given",
    [
        case(WORKING, torch(2), NUMPY),
        case(EMPTY, torch(0, FOR_THE_CPU)),
        case(with_gpus(FULL), torch(0, state="hangs", problem="no answer", build=None)),
        case(with_environment(WORKING, CUDA_VISIBLE_DEVICES="7"), torch(0)),
    ],
)
def test_the_json_is_what_the_documents_schema_says(faked, given) -> None:
    document = json.loads(faked(given, "--json")[1])
    Draft202012Validator(SCHEMA).validate(document)
    assert document == to_document(given, diagnose(given))
    assert document["healthy"] == (faked(given, "--json")[0] == 0)


def test_the_schema_names_every_cause() -> None:
    causes = SCHEMA["$defs"]["finding"]["properties"]["cause"]["enum"]
    assert tuple(causes) == RANKING


# -- on this machine, whatever it has --------------------------------------------------------------


def test_it_asks_a_framework_in_a_process_of_its_own(doctor, plugin) -> None:
    done = doctor("--json", UNIDEV_PLUGINS=plugin(build="print('{garbage')"))
    document = json.loads(done.stdout)
    Draft202012Validator(SCHEMA).validate(document)
    (strange,) = [each for each in document["frameworks"] if each["backend"] == "strange"]
    assert (strange["state"], strange["gpus_seen"]) == ("works", 0)
    assert strange["build"]["page"] == "https://example.org/install"
    about = [each["cause"] for each in document["findings"] if each["backend"] == "strange"]
    assert about == ["cpu-only-wheel"]
    assert done.returncode == 1


def test_a_plugin_says_how_its_framework_is_recognised_and_shares_a_gpu(
    plugin, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    )
    monkeypatch.setenv("UNIDEV_PLUGINS", plugin())
    with noticing_interruption() as stop:
        frameworks, known = examination.ask_frameworks("strange", 60.0, stop)
    assert [each.backend for each in frameworks] == ["strange"]
    holder = replace(TAKEN, libraries=("libstrange_gpu.so.3",))
    machine = with_gpus(replace(FULL, processes=(holder,)))
    given = Case(machine, (torch(1),), known=known)
    (found,) = diagnose(given)
    assert "process 4242: python: 139 GiB, with Strange" in found.evidence
    assert found.remedies[0].command == "export STRANGE_FRACTION=0.1"
    assert found.link == "https://example.org/memory"
    document = to_document(given, [found])
    Draft202012Validator(SCHEMA).validate(document)
    (gpu,) = document["machine"]["drivers"][0]["gpus"]
    assert [each["frameworks"] for each in gpu["processes"]] == [["Strange"]]


def test_simulated_gpus_are_not_taken_for_real_ones(doctor, plugin) -> None:
    simulated = {"UNIDEV_SIMULATE": "3", "UNIDEV_SIMULATE_AS": "cuda"}
    done = doctor("--json", UNIDEV_PLUGINS=plugin(), **simulated)
    document = json.loads(done.stdout)
    assert {each["gpus_seen"] for each in document["frameworks"]} == {0}
    assert "simulated" in [each["cause"] for each in document["findings"]]
    assert document["machine"]["environment"]["UNIDEV_SIMULATE"] == "3"
    assert done.returncode == 1


def test_one_backend_can_be_looked_at_alone(doctor, plugin) -> None:
    done = doctor("--json", "--backend", "numpy", UNIDEV_PLUGINS=plugin())
    assert [each["backend"] for each in json.loads(done.stdout)["frameworks"]] == ["numpy"]


def test_a_backend_that_is_not_there_is_wrong_usage(doctor, plugin) -> None:
    done = doctor("--backend", "nobody")
    assert (done.returncode, "there is no backend 'nobody'" in done.stderr) == (2, True)
    done = doctor("--backend", "strange", UNIDEV_PLUGINS=plugin(framework="not_there"))
    assert (done.returncode, "whose framework is installed" in done.stderr) == (2, True)
    assert doctor("--nonsense").returncode == 2


@pytest.mark.parametrize(
    ("load", "state"),
    [("import os; os.abort()", "crashes"), ("raise ValueError('no good')", "fails")],
)
def test_a_framework_that_is_broken_is_a_cause_and_takes_nobody_with_it(
    doctor, plugin, load, state
) -> None:
    done = doctor("--json", UNIDEV_PLUGINS=plugin(load=load))
    document = json.loads(done.stdout)
    Draft202012Validator(SCHEMA).validate(document)
    assert ("framework-broken", "strange") in [
        (each["cause"], each["backend"]) for each in document["findings"]
    ]
    (strange,) = [each for each in document["frameworks"] if each["backend"] == "strange"]
    assert strange["state"] == state


def test_frameworks_are_asked_at_the_same_time(doctor, plugin, tmp_path) -> None:
    # Each waits until the other has begun, and would wait for ever if it were asked first.
    wait = (
        "import pathlib, time; here = pathlib.Path({folder!r}); (here / '{own}.begun').touch()\n"
        "    while not (here / '{other}.begun').exists(): time.sleep(0.05)"
    )
    folder = str(tmp_path)
    plugin(load=wait.format(folder=folder, own="other", other="strange"), framework="colorsys")
    other = (tmp_path / "strange.py").read_text().replace('name="strange"', 'name="other"')
    (tmp_path / "other.py").write_text(other)
    plugin(load=wait.format(folder=folder, own="strange", other="other"))
    done = doctor("--json", UNIDEV_PLUGINS="strange,other")
    states = {each["backend"]: each["state"] for each in json.loads(done.stdout)["frameworks"]}
    assert (states["strange"], states["other"]) == ("works", "works")


@pytest.mark.slow
def test_a_framework_that_hangs_is_ended_and_progress_is_shown(doctor, plugin) -> None:
    done = doctor("--timeout", "10", UNIDEV_PLUGINS=plugin(load="import time; time.sleep(600)"))
    assert "unidev: asking" in done.stderr
    assert "no answer within 10 s" in done.stdout
    assert done.returncode == 1


def test_an_interruption_ends_every_child(tmp_path, plugin, interrupted) -> None:
    pid = tmp_path / "pid"
    stay = f"import os, time; os.symlink(str(os.getpid()), {str(pid)!r}); time.sleep(600)"
    assert interrupted(pid, "doctor", UNIDEV_PLUGINS=plugin(load=stay)) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(os.readlink(pid)), 0)


NVML = """
import os, threading

class NVMLError(Exception):
    value = 0

NVML_ERROR_LIBRARY_NOT_FOUND = NVML_ERROR_DRIVER_NOT_LOADED = NVML_ERROR_NO_PERMISSION = 1
NVML_ERROR_LIB_RM_VERSION_MISMATCH = NVML_ERROR_GPU_IS_LOST = NVML_ERROR_RESET_REQUIRED = 1

def nvmlInit():
    {init}

def nvmlShutdown():
    pass

def nvmlSystemGetCudaDriverVersion_v2():
    return 12080

def nvmlDeviceGetCount():
    return 64_000

def nvmlDeviceGetHandleByIndex(index):
    raise NVMLError("each of them takes its time")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("init", "words"),
    [
        ("threading.Event().wait()", "no answer within 10 s"),
        ("os._exit(3)", "the process that queried it ended with exit code 3"),
        ("os.abort()", "the process that queried it was killed by SIGABRT"),
        ("print('{garbage')", "it reports 64000 GPUs"),
    ],
)
def test_a_driver_that_hangs_ends_the_process_or_counts_wrongly_is_a_finding(
    doctor, plugin, tmp_path, init, words
) -> None:
    (tmp_path / "pynvml.py").write_text(NVML.format(init=init))
    asking = "import unidev.contract; print('CUDA', unidev.contract.driver_cuda_version())"
    done = doctor("--json", UNIDEV_PLUGINS=plugin(build=asking))
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    Draft202012Validator(SCHEMA).validate(document)
    (found,) = [each for each in document["findings"] if each["cause"] == "driver-fails"]
    assert found["title"] == "NVIDIA's driver does not answer."
    assert found["evidence"][0] == f"NVML: {words}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_does_not_wait_for_a_driver_that_hangs(
    tmp_path, plugin, interrupted, number
) -> None:
    begun = tmp_path / "begun"
    init = f"open({str(begun)!r}, 'w').close(); threading.Event().wait()"
    (tmp_path / "pynvml.py").write_text(NVML.format(init=init))
    words = ("doctor", "--backend", "strange", "--timeout", "3600")
    found = interrupted(begun, *words, number=number, UNIDEV_PLUGINS=plugin())
    assert found == 128 + number


def test_a_pipe_gets_plain_text_and_whole_lines(doctor, plugin) -> None:
    done = doctor(UNIDEV_PLUGINS=plugin())
    assert "\x1b" not in done.stdout
    assert without_progress(done.stderr) == []
    assert "array is a CPU-only build." in done.stdout


def test_a_terminal_gets_colours_unless_they_are_not_wanted(tmp_path) -> None:
    import pty

    # Without NO_COLOR: older versions of rich take an empty one for a wish, too.
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}

    def shown(**environment: str) -> str:
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "unidev", "doctor", "--backend", "numpy"],
            cwd=tmp_path, stdout=follower, stderr=subprocess.DEVNULL,
            env={**inherited, "TERM": "xterm-256color", **environment},
        )  # fmt: skip
        os.close(follower)
        text = b""
        try:
            while piece := os.read(leader, 65536):
                text += piece
        except OSError:  # Linux's way to say that the other end is closed
            pass
        process.wait(60)
        os.close(leader)
        return text.decode()

    coloured = shown()
    assert "\x1b[31m" in coloured or "\x1b[1;31m" in coloured
    assert "31m" not in shown(NO_COLOR="1")


def test_the_command_is_in_the_help(doctor) -> None:
    assert "Exit codes:" in doctor("--help").stdout
