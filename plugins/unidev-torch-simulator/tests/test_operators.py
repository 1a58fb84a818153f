"""The short form of ``nox -s operators``, and that each kind of failure is found."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import run_operators
from run_operators import Job, Progress, Run, faults

from unidev.errors import SimulationError
from unidev_torch_simulator import building
from unidev_torch_simulator.device_checks import checked_operators

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = run_operators.__file__
AS_NAMES = ("sim",) if building.installed_torch().accelerator else ("cuda", "sim")


def test_a_drawn_twentieth_of_the_operators_does_as_on_the_cpu() -> None:
    # Drawn by what is judged: the same for one state of the simulator, others for the next.
    drawn = random.Random(repr(building._sources()))
    name, seed = drawn.choice(AS_NAMES), drawn.randrange(10**6)
    words = [PROGRAM, "--name", name, "--draw", "20", "--seed", str(seed), "--processes", "1"]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nagain: python {' '.join(words)}"


CHILD = """
import json, os, sys, time
print(json.dumps(["a", "b"]), flush=True)
for line in sys.stdin:
    operator, _ = json.loads(line)
    if operator == "crash":
        os.kill(os.getpid(), 11)
    if operator == "hang":
        time.sleep(600)
    print(json.dumps(operator), flush=True)
"""


def test_a_crash_and_a_hang_are_found_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "child.py").write_text(CHILD)
    monkeypatch.setattr(run_operators.Child, "program", tmp_path / "child.py")
    monkeypatch.setattr(run_operators, "HANGS_AFTER_S", 1.0)
    run = Run("cuda", Progress(5))
    assert run.operators() == ["a", "b"]
    words = ("right", "crash", "hang", "refused: so", "wrong: so")
    run.judge([Job(word, "float32") for word in words], processes=1)
    found = {job.operator: outcome for job, outcome in run.outcomes.items()}
    assert found == {
        "right": "right",
        "crash": "crash: the process ended with -11",
        "hang": "hang: no answer within 1 s",
        "refused: so": "refused: so",
        "wrong: so": "wrong: so",
    }
    listed = {Job(word, "float32"): "a reason" for word in words}
    assert [line.partition(" ")[0] for line in faults(run.outcomes, {})] == [
        "crash", "hang", "refused:", "wrong:",
    ]  # fmt: skip
    # A crash and a hang although they are listed; and what is right, because it is.
    assert [line.partition(" ")[0] for line in faults(run.outcomes, listed)] == [
        "crash", "hang", "right",
    ]  # fmt: skip


def test_the_operators_that_cuda_checks_are_those_that_torchs_generator_reads(
    tmp_path: Path,
) -> None:
    from torchgen.gen import parse_native_yaml
    from torchgen.model import DeviceCheckType, DispatchKey

    packages = building.installed_torch().folder.parent
    folder = packages / "torchgen" / "packaged" / "ATen" / "native"
    parsed = parse_native_yaml(
        *(str(folder / f"{name}.yaml") for name in ("native_functions", "tags"))
    )
    layouts = ("", "Sparse", "SparseCsr", "NestedTensor")
    keys = [DispatchKey[layout + name] for layout in layouts for name in ("CPU", "CUDA")]
    kernels = [parsed.backend_indices[key] for key in keys]
    functions = {str(f.func.name): f for f in parsed.native_functions if "autogen" not in f.tags}
    expected = []
    for name, function in functions.items():
        primary = functions[str(function.structured_delegate or name)]
        is_checked = function.device_check != DeviceCheckType.NoCheck
        if is_checked and any(each.has_kernel(primary) for each in kernels):
            expected.append(f'{{"{name}", true, {str(primary.structured).lower()}}},')
    assert checked_operators(packages).splitlines() == expected
    with pytest.raises(SimulationError, match=r"--force-reinstall torch\."):
        checked_operators(tmp_path)
