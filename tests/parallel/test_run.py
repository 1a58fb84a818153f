"""``unidev.run``: results, arguments, output, and what it refuses."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import odd_workers
import pytest
import run_samples

import unidev

if TYPE_CHECKING:
    from pathlib import Path

    from core_fixtures import RunPython

SCRIPT = """
import unidev

def rank():
    return unidev.group().rank

{guard}
    print(unidev.run(rank, backend="numpy"))
"""


def test_a_partial_of_a_function_is_a_function() -> None:
    assert unidev.run(partial(odd_workers.echo, 1), 2, workers=1, backend="numpy") == [(1, 2)]


def test_no_collection_in_a_worker_looks_through_its_framework() -> None:
    assert unidev.run(odd_workers.is_framework_left_out_of_collections, workers=1) == [True]


def test_what_belongs_on_a_closed_stderr_is_not_on_stdout(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNIDEV_SIMULATE", "1")  # of which `run` itself says that it is too few
    monkeypatch.setattr(sys, "stderr", None)
    unidev.run(odd_workers.printing, 3, backend="numpy")
    printed = capsys.readouterr().out.splitlines()
    assert {line[4:] for line in printed} == {"out 0", "out 1", "out 2", "no end"}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_line_that_stdout_cannot_encode_does_not_end_a_run(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "program.py").write_text(r"print('caf\u00e9 \u2713')")
    done = subprocess.run(
        [sys.executable, "-m", "unidev", "launch", "--workers", "1", str(tmp_path / "program.py")],
        capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding},
    )  # fmt: skip
    shown = "[0] caf\u00e9 \u2713".encode(encoding, "backslashreplace")
    assert (done.returncode, done.stdout.splitlines()) == (0, [shown]), done.stderr


def test_each_worker_sees_several_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIDEV_SIMULATE", "5")
    found = unidev.run(run_samples.seen_gpus, backend="numpy", gpus_per_worker=2)
    assert [own["devices"] for own in found] == [["gpu:0", "gpu:1"]] * 2
    assert "has 2 GPUs for itself, numbers 2,3 of this host's" in found[1]["beyond"]


def test_a_worker_without_a_gpu_sees_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIDEV_SIMULATE", "2")
    monkeypatch.setenv("UNIDEV_SIMULATE_MEMORY", "1GiB")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    (found,) = unidev.run(run_samples.seen_gpus, workers=1, backend="numpy", gpus_per_worker=0)
    assert found["devices"] == ["cpu:0"]
    assert found["variables"]["UNIDEV_SIMULATE"] == "0"
    assert found["variables"]["CUDA_VISIBLE_DEVICES"] == "4,7"  # not about simulated ones
    assert "has no GPU for itself: gpus_per_worker=1 gives each worker one" in found["beyond"]


def test_too_few_gpus_for_all_means_the_cpu_and_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UNIDEV_SIMULATE", "2")
    found = unidev.run(run_samples.ranks, workers=3, backend="numpy")
    assert {device for _, _, device in found} == {"cpu:0"}
    assert capsys.readouterr().err.count("2 GPUs for 3 workers") == 1


def test_more_gpus_than_there_are_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIDEV_SIMULATE", "3")
    with pytest.raises(unidev.DeviceNotFoundError, match="need 4, and this machine has 3"):
        unidev.run(run_samples.ranks, backend="numpy", gpus_per_worker=2)


def run_script(
    folder: Path, guard: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    file = folder / "script.py"
    file.write_text(SCRIPT.format(guard=guard))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, env=environment, cwd=cwd
    )


def test_a_function_of_the_script_runs_under_a_guard(tmp_path: Path) -> None:
    done = run_script(tmp_path, 'if __name__ == "__main__":')
    assert done.stdout == "[0, 1]\n", done.stderr


def test_workers_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in ("typing", "numpy"):  # the first is needed before the script's path is known
        (tmp_path / "elsewhere" / f"{name}.py").write_text("raise RuntimeError('a wrong module')")
    done = run_script(tmp_path, 'if __name__ == "__main__":', cwd=tmp_path / "elsewhere")
    assert done.stdout == "[0, 1]\n", done.stderr


def test_a_missing_guard_is_named(tmp_path: Path) -> None:
    done = run_script(tmp_path, "if True:")
    assert done.returncode == 1
    assert 'put that call under `if __name__ == "__main__":`' in done.stderr


def run_elsewhere(folder: Path, call: str) -> list[str]:
    """What a script prints whose folder, where it runs, is renamed before its workers start.

    To them that is a machine that has neither the folder nor what is in it.
    """
    here, there = folder / "here", folder / "there"
    here.mkdir()
    (here / "only_here.py").write_text("def rank():\n    return 7\n")
    (here / "script.py").write_text(f"""
import os
import only_here, unidev

def rank():
    return 7

if __name__ == "__main__":
    os.rename({str(here)!r}, {str(there)!r})
    os.getcwd = lambda: {str(here)!r}
    try:
        print(unidev.run({call}, backend="numpy"))
    except unidev.WorkerFailedError as error:
        print(str(error).splitlines()[0])
""")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    done = subprocess.run(
        [sys.executable, str(here / "script.py")],
        cwd=folder, capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("[0] ")]


def test_what_a_workers_machine_lacks_is_named(tmp_path: Path) -> None:
    for call, words in (
        ("only_here.rank", "No module named 'only_here', on "),
        ("rank", f"there is no file {tmp_path / 'rank' / 'here' / 'script.py'}, on "),
    ):
        folder = tmp_path / call
        folder.mkdir()
        (line,) = run_elsewhere(folder, call)
        assert words in line
        assert socket.gethostname() in line
        assert "install on each machine" in line


def test_workers_need_not_the_folder_in_which_run_was_called(tmp_path: Path) -> None:
    assert run_elsewhere(tmp_path, "abs, -3") == ["[3, 3]"]


OF_NO_FILE = """
import unidev
def f(): pass
try:
    unidev.run(f, backend="numpy")
except unidev.InvalidDataError as error:
    print(error)
"""


def test_a_function_of_an_interactive_session_is_refused(run_python: RunPython) -> None:
    assert "put it into a file" in run_python(OF_NO_FILE)


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_a_function_of_a_program_on_standard_input_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "program.py").write_text(OF_NO_FILE)
    with (tmp_path / "program.py").open() as program:
        done = subprocess.run(
            [sys.executable, name], stdin=program, capture_output=True, text=True, check=False
        )
    assert "put it into a file" in done.stdout, done.stderr


def local() -> Any:
    def inner() -> None: ...

    return inner


@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (lambda: None, {}, "is a lambda"),
        (local(), {}, "defined inside a function"),
        (3, {}, "needs a function, not 3"),
        (run_samples.ranks, {"workers": 0}, "workers must be an integer from 1"),
        (run_samples.ranks, {"workers": 2.0}, "workers must be an integer from 1"),
        (run_samples.ranks, {"timeout": 0}, "timeout must be a positive number"),
        (run_samples.ranks, {"timeout": float("nan")}, "timeout must be a positive number"),
        (run_samples.ranks, {"gpus_per_worker": -1}, "gpus_per_worker must be an integer from 0"),
        (run_samples.ranks, {"retries": 1}, "pass checkpoints="),
        (run_samples.ranks, {"checkpoints": np.ones(2)}, "a path must be a string"),
        (run_samples.ranks, {"checkpoints": __file__}, "checkpoints must be a folder, and .* is a"),
        (run_samples.ranks, {"launcher": "slurm"}, "there is no launcher 'slurm'; there are: "),
        (run_samples.ranks, {"launcher": "processes", "address": "auto"}, "takes no address"),
        (run_samples.ranks, {"backend": 5}, "must be a string or None, not"),
        (run_samples.ranks, {"address": unidev.zeros(2)}, "must be a string or None, not"),
    ],
)
def test_bad_input_is_named(function: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(unidev.InvalidDataError, match=words):
        unidev.run(function, **{"backend": "numpy", **options})


def test_a_variable_about_simulated_gpus_is_refused_before_workers_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UNIDEV_SIMULATE_MEMORY", "8GiB")
    with pytest.raises(unidev.SimulationError, match="UNIDEV_SIMULATE_MEMORY=8GiB is set, but no"):
        unidev.run(run_samples.ranks, backend="numpy")


def test_an_argument_that_cannot_be_pickled_is_named() -> None:
    with pytest.raises(unidev.InvalidDataError, match="the arguments cannot be pickled"):
        unidev.run(odd_workers.echo, threading.Lock(), backend="numpy")


def test_a_result_that_cannot_be_pickled_is_the_workers_failure() -> None:
    with pytest.raises(
        unidev.WorkerFailedError, match=r"the result of worker \d cannot be pickled"
    ):
        unidev.run(odd_workers.unpicklable_result, backend="numpy")


def test_a_tensor_on_a_gpu_does_not_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIDEV_SIMULATE", "2")
    with pytest.raises(unidev.WorkerFailedError, match=r"unidev\.to_numpy"):
        unidev.run(odd_workers.tensor_result, backend="numpy")


def test_a_child_of_multiprocessing_starts_a_run_of_its_programs_function(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, unidev\n"
        "def twice(number): return 2 * number\n"
        "def run(): print(unidev.run(twice, 3, workers=1, backend='numpy'))\n"
        "if __name__ == '__main__':\n"
        "    child = multiprocessing.get_context('spawn').Process(target=run)\n"
        "    child.start()\n"
        "    child.join()\n"
    )
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.stdout == "[6]\n", done.stderr


def test_a_worker_starts_no_run() -> None:
    with pytest.raises(unidev.WorkerFailedError, match="this is worker 0 of a run"):
        unidev.run(odd_workers.run_inside, workers=1, backend="numpy")


@pytest.mark.parametrize("most", [5, 9, 12, 16, 19, 23])
def test_too_few_open_files_are_named_and_nothing_is_left(run_python: RunPython, most: int) -> None:
    said = run_python(f"""
        import gc, os, resource, warnings
        import psutil, unidev
        unidev.set_backend("numpy")
        unidev.run(len, "", workers=1)  # what is opened once is open
        warnings.simplefilter("error")
        before = sorted(os.listdir("/dev/fd"))
        limit = max(map(int, before)) + {most}
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        try:
            unidev.run(len, "", workers=3)
        except unidev.RunError as error:
            print(error, type(error.__cause__).__name__)
        gc.collect()
        print(sorted(os.listdir("/dev/fd")) == before, psutil.Process().children())
    """)
    *_, error, left = said.splitlines()
    assert error.startswith("the workers do not start: [Errno 24] Too many open files")
    assert "Each worker takes 5 of the " in error
    assert error.endswith("raise that limit (`ulimit -n`), or use fewer workers. OSError")
    assert left == "True []"


ON_A_FULL_DISK = """
import os, tempfile, unidev
folder = tempfile.gettempdir()  # of one that is full at the first question Python makes no use
with open(os.path.join(folder, "all"), "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(512))
    except OSError:
        pass
try:
    unidev.run(len, "", workers=2, backend="numpy")
except unidev.RunError as error:
    print(error, os.listdir(folder))
"""


def test_a_full_temporary_folder_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    # A file system of its own, in a namespace of its own: needs no root, but unprivileged
    # namespaces, and fails where neither is.
    mounted = 'mount -t tmpfs -o size=64k none "$TMPDIR" && exec "$0" -c "$1"'
    who = [] if os.getuid() == 0 else ["-Ur"]
    done = subprocess.run(
        ["unshare", *who, "-m", "sh", "-c", mounted, sys.executable, ON_A_FULL_DISK],
        env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr)
    reason = "the workers do not start: [Errno 28] No space left on device"
    assert done.stdout.startswith(reason), done.stdout
    advice = f"Make room in the temporary folder {tmp_path}, or set TMPDIR to another folder."
    assert done.stdout.endswith(f"{advice} ['all']\n")


def test_too_few_processes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(unidev.RunError, match=r"the workers do not start: .* \(`ulimit -u`\)"):
        unidev.run(len, "", backend="numpy")
