"""The examples print the same, byte for byte, on every backend that is installed here.

With the core alone that is NumPy. In a framework's environment, ``pytest tests/everywhere``
tests that framework too. What an example does with one GPU is tested on NumPy alone: how many
there are is what the conformance suite asks of each backend.
"""

from __future__ import annotations

import ast
import sys
from functools import partial

import pytest
from running_examples import EXAMPLES, HERE, run_example, run_fresh_example

import unidev

EXACT = ["use_gpu", "place_model", "logging_the_loss"]
OTHERS = {
    "flax", "jax", "keras", "matplotlib", "mxnet", "numpy", "optax", "paddle", "rich", "sklearn",
    "tensorflow", "torch",
}  # fmt: skip
"""What examples may import beside Python's own modules and unidev's public ones."""
ALL = sorted(
    str(path.relative_to(EXAMPLES).with_suffix(""))
    for pattern in ("*.py", "own_loop/*.py")
    for path in EXAMPLES.glob(pattern)
)


@pytest.fixture
def run(tmp_path):
    return partial(run_example, tmp_path)


def test_numpy_is_among_the_backends_that_are_tested():
    assert "numpy" in HERE


def names_of(example):
    """The modules that an example imports, and the names of unidev that it reads, dotted."""
    for node in ast.walk(ast.parse((EXAMPLES / f"{example}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "unidev":
            yield f"unidev.{node.attr}"


@pytest.mark.parametrize("example", ALL)
def test_an_example_stands_alone(example):
    public = {*unidev.__all__, "nn", "errors"}
    for name in names_of(example):
        package, *rest = name.split(".")
        if package == "unidev":
            assert set(rest[:1]) <= public, name
        else:
            assert package in OTHERS | sys.stdlib_module_names, name


@pytest.mark.first
@pytest.mark.parametrize("example", EXACT)
@pytest.mark.parametrize("backend", HERE)
def test_an_example_prints_what_is_expected(backend, example, tmp_path):
    run = run_fresh_example if example == EXACT[0] else run_example  # one of them as it is, too
    done = run(tmp_path, example, backend=backend, count=2)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (EXAMPLES / f"{example}.expected").read_text()


@pytest.mark.parametrize("example", EXACT)
def test_an_example_says_nothing_but_that(example, run):
    assert run(example, backend="numpy", count=2).stderr == ""


@pytest.mark.parametrize("backend", HERE)
def test_use_gpu_falls_back_to_the_cpu_where_there_is_no_gpu(backend, run):
    done = run("use_gpu", backend=backend, count=0)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    if lines[0] == "GPUs: 0":  # on a machine with GPUs, those are used
        assert lines[1:4] == ["try_gpu(): cpu:0", "try_gpu(10): cpu:0", "try_all_gpus(): cpu:0"]
        assert "X and Y are on the same device" in lines
    assert lines[-1] == "as_in_device(Z) is Z: True"


def test_use_gpu_runs_with_one_gpu(run):
    lines = run("use_gpu", backend="numpy", count=1).stdout.splitlines()
    assert lines[:3] == ["GPUs: 1", "try_gpu(): gpu:0", "try_gpu(10): cpu:0"]
    assert any(
        line.startswith("check_same_device(X, Y): ") and "Y: cpu:0" in line for line in lines
    )
    assert lines[-2:] == ["copy_to(Z) shares memory with Z: False", "as_in_device(Z) is Z: True"]


@pytest.mark.parametrize("backend", HERE)
def test_place_model_prints_the_same_numbers_where_there_is_no_gpu(backend, run):
    done = run("place_model", backend=backend, count=0)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    expected = (EXAMPLES / "place_model.expected").read_text().splitlines()
    if lines[2] == "the net is on cpu:0":  # on a machine with GPUs, those are used
        assert "the net and X are on the same device" in lines
        assert [line for line in lines if line[0] == " "] == [
            line for line in expected if line[0] == " "
        ]
    assert lines[-1] == "placed again, it has the same memory: True"


def test_place_model_with_one_gpu_refuses_what_is_on_the_cpu(run):
    done = run("place_model", backend="numpy", count=1)
    assert "check_same_device(net, X): {'net': 'gpu:0', 'X': 'cpu:0'}\n" in done.stdout
    assert done.stdout.splitlines()[-1] == "placed again, it has the same memory: True"


def test_logging_the_loss_has_nothing_to_find_where_there_is_no_gpu(run):
    done = run("logging_the_loss", backend="numpy", count=0)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    if lines[1] == "logged on each step: 0 transfers, 0 bytes":  # there may be a real GPU
        assert lines[2:] == [
            "nothing to forbid: everything is on cpu:0",
            "the mean loss is 0.883",
            "read once at the end, transfers: 0, 0 bytes",
        ]
    else:
        expected = (EXAMPLES / "logging_the_loss.expected").read_text().splitlines()
        assert lines == expected


def test_the_page_on_tracing_shows_what_logging_the_loss_prints():
    page = (EXAMPLES.parent / "docs/tracing.md").read_text()
    expected = (EXAMPLES / "logging_the_loss.expected").read_text()
    assert f"<!-- logging_the_loss -->\n```text\n{expected}```" in page


def test_logging_the_loss_shows_the_table_if_asked(run):
    done = run("logging_the_loss", "--table", backend="numpy", count=1)
    assert "`float()`, 100 times at " in done.stdout
    assert "in log_each: keep the sum on gpu:0 and read it once." in done.stdout
