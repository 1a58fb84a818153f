"""examples/why_is_my_gpu_slow.py, on every framework that is installed here.

With the core alone that is NumPy. In a framework's environment, ``pytest`` of this file tests that
framework too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from running_examples import HERE, imported, run_example

import unidev
from unidev.bench.report import DeviceReport, Trial
from unidev.bench.spread import Summary

if TYPE_CHECKING:
    from pathlib import Path

QUESTIONS = [
    "1. A tiny net, 10 to 10 to 1, takes a step at a batch of 10. Is the GPU worth it?",
    "2. 10 rows of a net's Jacobian at a batch of 100. Is the GPU worth it?",
    "3. 10 rows of a net's Jacobian at a batch of 1,000. Is the GPU worth it?",
    "4. A product of 200 by 200. Is the GPU worth it?",
]


def lines_of(folder: Path, backend: str, count: int) -> list[str]:
    done = run_example(folder, "why_is_my_gpu_slow", backend=backend, count=count)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("backend", HERE)
def test_each_question_is_asked_measured_and_explained(backend: str, tmp_path: Path) -> None:
    lines = lines_of(tmp_path, backend, 0)
    assert [line for line in lines if line.endswith("?")] == QUESTIONS
    refused = [
        line for line in lines if line.startswith("This cannot be measured: autograd is not ")
    ]
    assert len(refused) == (3 if backend == "numpy" else 0)
    measured = len(QUESTIONS) - len(refused)
    tables = [line for line in lines if line.startswith("cpu:0  ")]
    assert len(tables) == measured
    told = ("No GPU was measured here.", "It does not matter", "The GPU is ")
    assert len([line for line in lines if line.startswith(told)]) == measured
    assert max(map(len, lines)) < 130


def test_a_simulated_gpu_is_never_reported_as_a_speed(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "numpy", 1)
    about = [line for line in lines[1:] if "gpu:0" in line]
    assert about
    assert all(line.startswith("gpu:0 is left out: it is simulated") for line in about)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [((1.0, 5.0), "The GPU is slower here: it. Pays."),
     ((5.0, 1.0), "The GPU is faster here. When it is not: it. Pays."),
     ((1.0, 1.0), "The difference does not matter here. In general: it. Pays."),
     ((1.0,), "No GPU was measured here. What may slow one down: it. Pays.")],
)  # fmt: skip
def test_the_explanation_follows_from_the_timings(two_gpus, seconds, told) -> None:
    why_is_my_gpu_slow = imported("why_is_my_gpu_slow")
    none = Summary(0, 0, 0, 9)
    trials = tuple(
        Trial(device=unidev.as_device(name), there=none, back=none, computing=timing, total=timing)
        for name, median in zip(("cpu", "gpu:0"), seconds, strict=False)
        for timing in [Summary(median, median * 0.9, median * 1.1, 9)]
    )
    report = DeviceReport(trials=trials, left_out={})
    question = why_is_my_gpu_slow.TINY._replace(why="it", advice="Pays.")
    assert why_is_my_gpu_slow.explanation(question, report) == told
