"""Starting the simulator: what it refuses, and the building of it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from unidev.errors import SimulationError
from unidev_torch_simulator import building
from unidev_torch_simulator.building import InstalledTorch

if TYPE_CHECKING:
    from fresh_programs import Python

COUNT = "import unidev; print(len(unidev.try_all_gpus()), unidev.try_all_gpus()[-1].native)"


@pytest.mark.parametrize("count", [1, 3, 64])
def test_any_number_of_devices_can_be_had(warm_python: Python, count: int) -> None:
    done = warm_python(COUNT, UNIDEV_SIMULATE=str(count))
    assert (done.stdout, done.stderr) == (f"{count} sim:{count - 1}\n", "")


IN_FORKS = """
import os, signal, sys, threading, torch, unidev
sys.setswitchinterval(1e-5)
unidev.set_backend("torch")

def run_out_of_memory():  # which holds a device's lock as long as its error is made
    while True:
        try:
            torch.empty(1 << 30, device="sim:0")
        except torch.OutOfMemoryError:
            pass

def copy():
    while True:
        x.t().contiguous()

x = torch.ones(50, 60, device="sim:0")
x.t().contiguous()  # what torch does the first time only may not be forked
for work in (run_out_of_memory, copy, copy, copy):
    threading.Thread(target=work, daemon=True).start()
for _ in range(30):
    child = os.fork()
    if not child:
        signal.alarm(20)
        torch.empty(1, device="sim:0")
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("late", ["", "1"])
def test_forks_have_the_devices_whatever_other_threads_do_with_them(
    late: str, warm_python: Python
) -> None:
    variables = {"UNIDEV_SIMULATE_MEMORY": "1MiB", "UNIDEV_SIMULATE_LATE": late}
    done = warm_python(IN_FORKS, UNIDEV_SIMULATE="1", **variables)
    assert done.stdout == "0\n" * 30, done


def test_making_one_imports_neither_torch_nor_its_backend(python: Python) -> None:
    done = python(
        "import sys\n"
        "from unidev_torch_simulator import TorchSimulator\n"
        "TorchSimulator()\n"
        "print('torch' in sys.modules, 'unidev_torch.backend' in sys.modules)\n"
    )
    assert (done.stdout, done.stderr) == ("False False\n", "")


def test_nothing_is_simulated_unless_asked_for(python: Python) -> None:
    done = python(
        "import torch, unidev\n"
        "print(unidev.num_gpus() == torch.accelerator.device_count(), hasattr(torch, 'sim'))\n"
    )
    assert (done.stdout, done.stderr) == ("True False\n", "")


def test_a_program_runs_out_of_the_memory_that_the_command_line_gives(tmp_path: Path) -> None:
    # PyTorch imports NumPy, whose simulated GPUs have no limit, and batches are of its arrays.
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy, torch, unidev\n"
        "print(unidev.device_put(numpy.ones(3), 'gpu').device, unidev.try_gpu(free='1MiB'))\n"
        "torch.zeros(1 << 20, device='sim')\n"
    )
    words = ["simulate", "--gpus", "1", "--memory", "2MiB", "--", sys.executable, str(program)]
    done = subprocess.run(
        [sys.executable, "-m", "unidev", *words],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "UNIDEV_SIMULATE": ""},
    )  # fmt: skip
    assert done.stdout == "sim:0 gpu:0\n", done.stderr
    assert "torch.OutOfMemoryError: out of memory: tried to allocate 4.00 MiB." in done.stderr


def test_after_a_backward_pass_it_is_too_late(warm_python: Python) -> None:
    done = warm_python(
        "import torch, unidev\n"
        "torch.ones(1, requires_grad=True).sum().backward()\n"
        "unidev.simulate(2)\n"
        "try:\n"
        "    unidev.num_gpus()\n"
        "except unidev.SimulationError as error:\n"
        "    print(error, torch.accelerator.current_accelerator())\n"
    )
    assert "call unidev.set_backend('torch') before it" in done.stdout
    assert done.stdout.endswith(" None\n") or "cuda" in done.stdout


def test_before_a_backward_pass_it_is_started_as_the_error_says(warm_python: Python) -> None:
    done = warm_python(
        "import torch, unidev\n"
        "unidev.simulate(2)\n"
        "unidev.set_backend('torch')\n"
        "torch.ones(1, requires_grad=True).sum().backward()\n"
        "print(unidev.num_gpus())\n"
    )
    assert done.stdout == "2\n", done.stderr


def test_computing_without_a_backward_pass_does_not_make_it_too_late(warm_python: Python) -> None:
    done = warm_python(
        "import torch, unidev\n"
        "(torch.ones(3, requires_grad=True) * 2).sum()\n"
        "unidev.simulate(2)\n"
        "x = torch.ones(3, device=unidev.gpu(1).native, requires_grad=True)\n"
        "x.sum().backward()\n"
        "print(x.grad.device)\n"
    )
    assert (done.stdout, done.stderr) == ("sim:1\n", "")


@pytest.mark.parametrize("name", [{}, {"UNIDEV_SIMULATE_AS": "cuda"}])
def test_a_process_that_ends_right_after_a_backward_pass_ends_well(
    python: Python, name: dict[str, str]
) -> None:
    # One in eight was killed by autograd's threads, which still wanted Python's lock.
    for _ in range(6):
        done = python(
            "import unidev, torch\n"
            "x = torch.ones(3, device=unidev.gpu(1).native, requires_grad=True)\n"
            "x.sum().backward()\n",
            UNIDEV_SIMULATE="2",
            UNIDEV_BACKEND="torch",
            **name,
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_a_forked_child_computes_and_ends_well(warm_python: Python) -> None:
    done = warm_python(
        "import os, sys, torch, unidev\n"
        "x = torch.ones(3, device=unidev.gpu(1).native)\n"
        "if os.fork() == 0:\n"
        "    print((x * 2).sum().item(), flush=True)\n"
        "    sys.exit()\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))\n",
        UNIDEV_SIMULATE="2",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "6.0\n0\n", "")


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "PASSIVE"}, "0")],
)
def test_threads_that_wait_do_not_spin(python: Python, given: dict[str, str], spins: str) -> None:
    done = python(
        "import os, unidev\n"
        "unidev.num_gpus()\n"
        "print({name for name in os.environ if 'GOMP' in name or 'OMP_WAIT' in name})\n",
        UNIDEV_SIMULATE="1",
        OMP_DISPLAY_ENV="verbose",
        **given,
    )
    assert f"GOMP_SPINCOUNT = '{spins}'" in done.stderr
    assert done.stdout == f"{set(given) or set()}\n"


def test_another_privateuse1_backend_is_not_pushed_out(warm_python: Python) -> None:
    done = warm_python(
        "import torch, unidev\n"
        "from torch.utils.backend_registration import rename_privateuse1_backend\n"
        "rename_privateuse1_backend('npu')\n"
        "unidev.simulate(2)\n"
        "try:\n"
        "    unidev.num_gpus()\n"
        "except unidev.SimulationError as error:\n"
        "    print(error)\n"
    )
    assert "'npu' is registered already" in done.stdout


def test_without_a_compiler_the_error_says_what_to_install(python: Python, tmp_path: Path) -> None:
    done = python(
        "import unidev\n"
        "try:\n"
        "    unidev.num_gpus()\n"
        "except unidev.SimulationError as error:\n"
        "    print(error)\n",
        UNIDEV_SIMULATE="2",
        UNIDEV_CACHE=str(tmp_path),
        PATH=str(tmp_path),
        CXX=None,
    )
    assert "apt install g++" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -v")
    with pytest.raises(SimulationError, match="'no-such-compiler' named by CXX was not found"):
        building._compiler()


def test_a_compiler_whose_quotes_do_not_close_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "'g++")
    with pytest.raises(
        SimulationError, match=r"CXX='g\+\+ names no compiler: No closing quotation"
    ):
        building._compiler()


def test_the_compiler_of_the_environment_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", f"{sys.executable} -m compiler")
    assert building._compiler() == [sys.executable, "-m", "compiler"]


def test_what_the_compiler_says_stands_in_the_error(tmp_path: Path) -> None:
    failing = [sys.executable, "-c", "import sys; sys.exit('no such header')"]
    with pytest.raises(SimulationError, match="did not compile") as caught:
        building._build(failing, [], tmp_path / building.LIBRARY)
    assert "no such header" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", ["2.8.0", "1.13.1+cpu"])
def test_an_old_torch_is_refused_with_the_version_that_would_do(version: str) -> None:
    with pytest.raises(SimulationError, match=r"torch 2\.9 or newer"):
        building.check_system(version)


def test_the_library_is_built_anew_for_another_torch_or_compiler() -> None:
    keys = {
        building._key(InstalledTorch(Path("torch"), *build), compiler, flags)
        for build in (("2.13.0", None), ("2.13.0", "cuda 13.0"))
        for compiler in (["g++"], ["clang++"])
        for flags in (["-O1"], ["-O2"])
    }
    assert len(keys) == 8


def test_environments_with_the_same_torch_share_the_library() -> None:
    here = building.installed_torch()
    elsewhere = replace(here, folder=Path("/elsewhere/site-packages/torch"))
    keys = {
        building._key(torch, ["g++"], building._flags(torch, as_cuda=True))
        for torch in (here, elsewhere)
    }
    assert len(keys) == 1


def test_two_processes_at_once_build_it_once(tmp_path: Path, python: Python) -> None:
    # A compiler that only notes that it was called, so that this takes no half a minute.
    notes = tmp_path / "notes"
    program = (
        "import sys, unidev.backends.simulation\n"
        "from unidev_torch_simulator import building\n"
        "fake = [sys.executable, '-c', 'import sys; "
        f'open("{notes}", "a").write("built "); '
        "open(sys.argv[sys.argv.index(chr(45) + chr(111)) + 1], chr(119)).write(chr(120))']\n"
        "build = lambda path: building._build(fake, [], path)\n"
        "print(unidev.contract.build_once('torch', 'key', 'lib.so', build).read_text())\n"
    )
    environment = {**os.environ, "UNIDEV_CACHE": str(tmp_path / "cache")}
    both = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=300)[0] for process in both]
    assert outputs == [b"x\n", b"x\n"]
    assert notes.read_text() == "built "
