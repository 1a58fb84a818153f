"""Simulated GPUs that answer to ``cuda``: how programs get them, and when it is too late."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import unidev_torch_simulator as simulator
from unidev.contract import SimulatedGpus
from unidev.errors import SimulationError
from unidev_torch_simulator import TorchSimulator
from unidev_torch_simulator.building import InstalledTorch

if TYPE_CHECKING:
    from fresh_programs import Python

CUDA = {"UNIDEV_SIMULATE": "2", "UNIDEV_SIMULATE_AS": "cuda"}
PROGRAM = """\
import torch

def test_two_gpus():
    net = torch.nn.Linear(4, 2).cuda(1)
    loss = net(torch.ones(3, 4, device="cuda:1")).sum()
    loss.backward()
    assert torch.cuda.device_count() == 2
    assert net.weight.grad.device == torch.device("cuda", 1)

if __name__ == "__main__":
    test_two_gpus()
    print(torch.cuda.get_device_name(1))
"""
"""A program that knows nothing of unidev."""
COMMANDS = {
    "python": [sys.executable, "program.py"],
    "torchrun": ["torchrun", "--nproc-per-node", "1", "program.py"],
    "pytest": ["pytest", "-q", "program.py"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_program_that_knows_nothing_of_unidev_has_them(
    command: list[str], tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    words = ["simulate", "--as", "cuda", "--gpus", "2", "--like", "L4", "--", *command]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-m", "unidev", *words],
        env={**os.environ, "UNIDEV_SIMULATE": "0", "UNIDEV_BACKEND": "", "PATH": path},
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("1 passed" if command[0] == "pytest" else "NVIDIA L4 (simulated)\n") in done.stdout


COMPILED = """\
import torch
from torch import nn
from torch.nn import functional

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(16, 8), nn.LayerNorm(8)
        self.mix, self.out = nn.Linear(8, 24), nn.Linear(8, 16)

    def forward(self, tokens):
        x = self.embed(tokens)
        q, k, v = self.mix(self.norm(x)).split(8, dim=-1)
        x = x + functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return functional.cross_entropy(self.out(x).flatten(0, 1), tokens.flatten())

def losses(compile):
    torch.manual_seed(0)
    net = Net().cuda()
    step, optimizer = compile(net), torch.optim.AdamW(net.parameters(), lr=0.1)
    tokens = torch.randint(16, (2, 6), device="cuda")
    for _ in range(4):
        optimizer.zero_grad()
        loss = step(tokens)
        loss.backward()
        optimizer.step()
        yield loss.item()

assert [*losses(torch.compile)] == [*losses(lambda net: net)]
torch.compile(lambda x: x.cuda() + 1, backend="inductor")(torch.ones(2))
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_inductor_is_replaced_and_trains_as_without(backend: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(COMPILED)
    options = ["--as", "cuda", "--gpus", "1", "--compile", backend]
    done = subprocess.run(
        [sys.executable, "-m", "unidev", "simulate", *options, "--", sys.executable, "program.py"],
        env={**os.environ, "UNIDEV_SIMULATE": "0", "UNIDEV_BACKEND": ""},
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr.splitlines()) == (0, [
        f"unidev: torch.compile uses '{backend}' in place of Inductor on simulated GPUs "
        "(UNIDEV_SIMULATE_COMPILE)."
    ])  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _built(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The simulator is built once before, since that shows its progress on stderr."""
    given = {**os.environ, **CUDA}
    command = [sys.executable, "-c", "import unidev, torch"]
    folder = tmp_path_factory.mktemp("built")
    subprocess.run(command, env=given, cwd=folder, check=True, capture_output=True, timeout=600)


def test_unidev_first_and_its_gpus_are_torchs(python: Python) -> None:
    done = python(
        "import unidev, torch\n"
        "gpus = unidev.try_all_gpus()\n"
        "x = unidev.copy_to(torch.ones(3, device='cuda:1'), 'gpu:0')\n"
        "print([g.native_name for g in gpus], unidev.device_of(x), x.device)\n"
        "print(gpus[1].name, gpus[1].is_simulated, unidev.memory('gpu:1').total_bytes)\n",
        UNIDEV_SIMULATE_MEMORY="2GiB", UNIDEV_SIMULATE_LIKE="H100", **CUDA,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (
        "['cuda:0', 'cuda:1'] gpu:0 cuda:0\nNVIDIA H100 80GB HBM3 (simulated) True 2147483648\n",
        "",
    )


@pytest.mark.parametrize(
    ("visible", "count", "first"), [("1", 1, 1), ("1,0", 2, 1), ("0,7,1", 1, 0), ("", 0, None)]
)
def test_unidev_counts_what_cuda_visible_devices_leaves(
    python: Python, visible: str, count: int, first: int | None
) -> None:
    done = python(
        "import unidev, torch\n"
        "print(unidev.num_gpus(), torch.cuda.device_count(), torch.cuda.is_available())\n"
        "if unidev.num_gpus():\n"
        "    print(torch.cuda.get_device_properties(0).pci_bus_id, unidev.num_gpus())\n",
        CUDA_VISIBLE_DEVICES=visible,
        **CUDA,
    )
    own = f"{first} {count}\n" if count else ""
    assert (done.stdout, done.stderr) == (f"{count} {count} {count > 0}\n{own}", "")


def test_a_trace_imports_torch_with_them(python: Python) -> None:
    done = python(
        "import unidev\n"
        "with unidev.trace_transfers() as trace:\n"
        "    import torch\n"
        "    torch.ones(3, device='cuda:1').cpu()\n"
        "print([(str(t.source), str(t.target), t.nbytes) for t in trace.transfers])\n",
        **CUDA,
    )
    assert (done.stdout, done.stderr) == ("[('gpu:1', 'cpu:0', 12)]\n", "")


def test_after_torch_it_is_too_late(python: Python) -> None:
    done = python(
        "import torch\n"
        "try:\n"
        "    import unidev\n"
        "except RuntimeError as error:\n"
        "    print(error, torch.cuda.is_available())\n",
        **CUDA,
    )
    assert "import unidev first, or run the program with `unidev simulate --as cuda" in done.stdout
    assert done.stdout.endswith(" False\n")


def test_a_process_has_one_name_for_them(python: Python) -> None:
    done = python(
        "import unidev, torch\n"
        "from unidev_torch_simulator import TorchSimulator\n"
        "try:\n"
        "    TorchSimulator().start(2)\n"
        "except unidev.SimulationError as error:\n"
        "    print(error)\n",
        **CUDA,
    )
    assert "this process simulates GPUs named `cuda` already" in done.stdout


def test_what_the_simulator_moves_is_of_the_users_line(python: Python) -> None:
    done = python(
        "import unidev, torch\n"
        "from torch.nn.parallel import comm\n"
        "x = torch.ones(4, 2, device='cuda:0')\n"
        "with unidev.trace_transfers() as trace:\n"
        "    comm.scatter(x, [0, 1])\n"
        "print(len(trace.transfers), *{each.line.file for each in trace.transfers})\n",
        UNIDEV_BACKEND="torch", **CUDA,
    )  # fmt: skip
    assert done.stdout == "1 <string>\n"


def test_without_the_variables_torch_is_imported_as_ever(python: Python) -> None:
    done = python(
        "import sys, unidev, torch\n"
        "print(hasattr(torch._C, '_cuda_getDevice'), 'unidev_torch_simulator.cuda.devices' in "
        "sys.modules, [type(f).__module__ for f in sys.meta_path if 'unidev' in str(type(f))])\n"
    )
    assert (done.stdout, done.stderr) == ("False False []\n", "")


def test_a_build_that_fails_leaves_torch_unimported(python: Python, tmp_path: Path) -> None:
    done = python(
        "import unidev, sys\n"
        "for attempt in range(2):\n"
        "    try:\n"
        "        import torch\n"
        "    except unidev.SimulationError as error:\n"
        "        print('apt install g++' in str(error), 'torch._C' in sys.modules)\n",
        UNIDEV_CACHE=str(tmp_path), PATH=str(tmp_path), CXX=None, **CUDA,
    )  # fmt: skip
    assert done.stdout == "True False\n" * 2


@pytest.mark.parametrize("accelerator", ["cuda 13.0", "hip 7.2"])
def test_a_build_for_an_accelerator_is_refused_with_where_the_other_is(
    monkeypatch: pytest.MonkeyPatch, accelerator: str
) -> None:
    installed = InstalledTorch(Path("torch"), "2.13.0", accelerator)
    monkeypatch.setattr(simulator, "installed_torch", lambda: installed)
    reason = TorchSimulator().refusal(SimulatedGpus(count=2, name="cuda"))
    assert reason is not None
    assert f"this torch 2.13.0 was built for {accelerator}" in reason
    assert reason.endswith("--index-url https://download.pytorch.org/whl/cpu")
    assert TorchSimulator().refusal(SimulatedGpus(count=2)) is None


@pytest.mark.parametrize(
    ("gpus", "reason"),
    [
        (SimulatedGpus(count=2, name="rocm"), "answer to cuda, not to 'rocm'"),
        (SimulatedGpus(count=2, like="B9"), "none of H100, A100, L4, T4"),
        (SimulatedGpus(count=2, name="cuda", compile="triton"), "none of eager, aot_eager"),
        (SimulatedGpus(count=2, compile="eager"), "set UNIDEV_SIMULATE_AS=cuda"),
    ],
)
def test_other_names_and_models_are_refused(gpus: SimulatedGpus, reason: str) -> None:
    assert reason in str(TorchSimulator().refusal(gpus))


def test_a_name_before_torch_only() -> None:
    assert "torch" in sys.modules  # this process has it, with devices called sim
    with pytest.raises(SimulationError, match="torch is imported already"):
        TorchSimulator().before_import(SimulatedGpus(count=2, name="cuda"))


@pytest.mark.parametrize("named", [{}, CUDA], ids=["sim", "cuda"])
def test_free_memory_is_that_of_each_gpus_limit(python: Python, named: dict[str, str]) -> None:
    done = python(
        "import unidev\n"
        "unidev.set_backend('torch')\n"
        "kept = unidev.zeros(10 << 20, device='gpu:0')\n"
        "print(unidev.try_gpu(free='24MiB'), unidev.try_gpu(free='25MiB'))\n"
        "print(unidev.try_gpu(0, free='25MiB'), unidev.try_gpu(most_free=True))\n"
        "print(unidev.try_gpu(free='65MiB'), unidev.try_all_gpus(free='64MiB'))\n"
        "try:\n"
        "    unidev.gpu(free='65MiB')\n"
        "except unidev.DeviceNotFoundError as error:\n"
        "    print(error)\n",
        **{"UNIDEV_SIMULATE": "2", "UNIDEV_SIMULATE_MEMORY": "64MiB", **named},
    )  # fmt: skip
    assert done.stdout.startswith(
        "gpu:0 gpu:1\ncpu:0 gpu:1\ncpu:0 [<Device gpu:1 of torch>]\n"
        "no GPU has 65 MiB of free memory: gpu:0 has 24 MiB of 64 MiB free; gpu:1 has 64 MiB of "
        "64 MiB free."
    )


def test_free_memory_is_read_without_initialising_cuda(python: Python) -> None:
    done = python(
        "import unidev, torch\n"
        "print(unidev.try_gpu(1, free='24MiB'), unidev.try_all_gpus(free='65MiB'))\n"
        "print(torch.cuda.is_initialized())\n",
        UNIDEV_SIMULATE_MEMORY="64MiB", **CUDA,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("gpu:1 [<Device cpu:0 of torch>]\nFalse\n", "")


def test_sim_has_a_limit_and_a_model_as_well(python: Python) -> None:
    done = python(
        "import unidev, torch\n"
        "gpu = unidev.gpu(1)\n"
        "print(gpu.name, gpu.native, unidev.memory(gpu).total_bytes)\n"
        "try:\n"
        "    torch.empty(2049, dtype=torch.uint8, device=gpu.native)\n"
        "except torch.OutOfMemoryError as error:\n"
        "    print(error)\n",
        UNIDEV_SIMULATE="2", UNIDEV_SIMULATE_MEMORY="2KiB", UNIDEV_SIMULATE_LIKE="T4",
    )  # fmt: skip
    assert done.stdout.startswith(
        "Tesla T4 (simulated) sim:1 2048\nout of memory: tried to allocate 2.00 KiB. "
        "sim:1 has a total capacity of 2.00 KiB of which 2.00 KiB is free."
    )
