"""Examples on several devices, on every framework that is installed here, on 1, 2 and 3 of them."""

from __future__ import annotations

import json

import pytest
from running_examples import HERE, run_example

FIRST_LOSS = {"multi_gpu": 0.80, "own_optimizer": 1.4294, "model_parallel": 1.2636}
"""The mean loss of the first epoch. Batch norm on several devices is another computation."""
TOLERANCE = {"multi_gpu": 0.02, "own_optimizer": 1e-3, "model_parallel": 1e-3}


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize(
    ("name", "count"), [("multi_gpu", 2), ("own_optimizer", 3), ("model_parallel", 3)]
)
def test_several_devices_learn_what_one_does(name, count, backend, tmp_path):
    options = ("--epochs", 1, "--devices", count, "--json", "found.json")
    done = run_example(tmp_path, name, *options, backend=backend, count=count)
    if backend == "numpy":
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert done.stderr.startswith(f"{name}.py: ")
        assert "is not supported" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    one, several = found["runs"]
    assert (one["devices"], several["devices"]) == (1, count)
    for run in (one, several):
        assert run["losses"][0] == pytest.approx(FIRST_LOSS[name], abs=TOLERANCE[name])
        assert run["accuracies"][0] > 0.7
        assert run["seconds"] > 0
    if name != "multi_gpu":
        assert one["losses"][0] == pytest.approx(several["losses"][0], abs=1e-4)
        assert one["accuracies"] == several["accuracies"]
    else:
        assert "reducing gradients takes " in done.stdout
        assert min(one["computing"], several["computing"]) > 0


def test_more_devices_than_there_are_is_an_error(tmp_path):
    done = run_example(tmp_path, "multi_gpu", backend="numpy", count=1)
    assert done.returncode == 2
    assert "UNIDEV_SIMULATE=2" in done.stderr
