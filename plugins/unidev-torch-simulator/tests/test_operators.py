"""The short form of ``nox -s operators``, and that each kind of failure is found."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import run_operators

from unidev.errors import SimulationError
from unidev_torch_simulator import building
from unidev_torch_simulator.device_checks import checked_operators

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = run_operators.__file__
AS_NAMES = ("sim",) if building.installed_torch().accelerator else ("cuda", "sim")


@pytest.mark.parametrize(("late", "of"), [("", "30"), ("1", "50")])
def test_drawn_operators_do_as_on_the_cpu(late: str, of: str) -> None:
    # Drawn by what is judged: the same for one state of the simulator, others for the next.
    drawn = random.Random(repr(building._sources()))
    name, seed = drawn.choice(AS_NAMES), drawn.randrange(10**6)
    words = [PROGRAM, "--name", name, "--draw", of, "--seed", str(seed), "--processes", "1"]
    done = subprocess.run(
        [sys.executable, *words], env={**os.environ, "UNIDEV_SIMULATE_LATE": late},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nagain: python {' '.join(words)}"


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
