"""The lesson on training loops: its programs print the same losses, on the CPU and on GPUs."""

from __future__ import annotations

import functools
import re
import tempfile
from pathlib import Path

import pytest
from running_examples import FRAMEWORKS, run_example

LOSS = re.compile(r"epoch \d: loss (\d\.\d{4})")


def losses(folder, name, backend, count):
    done = run_example(folder, f"own_loop/{backend}_{name}", backend=backend, count=count)
    assert done.returncode == 0, done.stderr
    found = [float(loss) for loss in LOSS.findall(done.stdout)]
    assert len(found) == 5
    return found


@functools.cache
def losses_before(backend):
    with tempfile.TemporaryDirectory() as folder:
        return losses(Path(folder), "before", backend, 0)


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("name", ["after", "two_gpus"])
@pytest.mark.parametrize("backend", FRAMEWORKS)
def test_a_loop_by_unidev_has_the_losses_of_the_one_before(backend, name, count, tmp_path):
    before = losses_before(backend)
    assert losses(tmp_path, name, backend, count) == pytest.approx(before, abs=2e-3)
    assert before[-1] < before[0]
    assert (tmp_path / "net.safetensors").is_file()
