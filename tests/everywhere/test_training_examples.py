"""The examples that train, on every framework that is installed here; NumPy says that it cannot.

With the core alone only that is tested. In a framework's environment,
``pytest tests/everywhere/test_training_examples.py`` tests that framework too.
"""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys

import pytest
from running_examples import (
    EXAMPLES,
    FRAMEWORKS,
    HERE,
    LEFT_OUT,
    ONE,
    copied,
    environment,
    imported,
    run_example,
)
from warm_programs import EXAMPLES as EXAMPLES_NEED
from warm_programs import run_program

import unidev

FIRST_LOSS = 1.2636
"""The mean loss of the first epoch, on every framework, within 0.001."""

NO_AUTOGRAD = "autograd is not supported: NumPy has no autograd"


def check_refused(done, name):
    """One line, and no traceback."""
    assert (done.returncode, done.stderr) == (1, f"{name}.py: {NO_AUTOGRAD}\n")


def check_drawn(path):
    picture = path.read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(picture) > 10_000


# -- train_digits --------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", HERE)
def test_train_digits_reads_97_percent(backend, tmp_path):
    done = run_example(tmp_path, "train_digits", "--json", "digits.json", backend=backend)
    if backend == "numpy":
        check_refused(done, "train_digits")
        assert [path.name for path in tmp_path.iterdir()] == ["train_digits.py"]
        return
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "digits.json").read_text())
    print(f"{backend}: {found['accuracies'][-1]:.4f} in {found['seconds']:.1f} s")  # noqa: T201  for -s
    assert found["backend"] == backend
    assert found["losses"][0] == pytest.approx(FIRST_LOSS, abs=1e-3)
    assert found["losses"][-1] < 0.1
    assert len(found["losses"]) == len(found["accuracies"]) == 15
    assert found["accuracies"][-1] >= 0.97
    check_drawn(tmp_path / "digits.png")


@pytest.mark.parametrize("backend", HERE)
def test_train_digits_trains_on_a_gpu_and_prints_plain_lines_in_a_pipe(backend, tmp_path):
    options = ("--epochs", 2, "--plot", "curves.png", "--json", "digits.json")
    done = run_example(tmp_path, "train_digits", *options, backend=backend, count=1)
    if backend == "numpy":
        check_refused(done, "train_digits")
        return
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "digits.json").read_text())
    assert found["device"] == "gpu:0"
    assert found["losses"][0] == pytest.approx(FIRST_LOSS, abs=1e-3)
    epoch = r"epoch  {}: loss \d\.\d{{4}}, test accuracy 0\.\d{{4}}\n"
    assert re.fullmatch(
        epoch.format(1)
        + epoch.format(2)
        + rf"test accuracy 0\.\d{{4}} on gpu:0 of {backend} in \d+\.\d s\n"
        + r"loss and accuracy are plotted in curves\.png\n",
        done.stdout,
    )
    check_drawn(tmp_path / "curves.png")


@pytest.mark.parametrize("backend", ["numpy", *ONE])
def test_train_digits_has_a_bar_on_a_terminal(backend, tmp_path):
    terminal, inside = pty.openpty()
    with subprocess.Popen(
        [sys.executable, EXAMPLES / "train_digits.py", "--epochs", "1"],
        env={**environment(backend), "TERM": "xterm", "COLUMNS": "80"},
        cwd=tmp_path, stdin=inside, stdout=inside, stderr=inside,
    ) as process:  # fmt: skip
        os.close(inside)
        said = "".join(iter(lambda: read_terminal(terminal), ""))
    os.close(terminal)
    assert process.returncode == (backend == "numpy")
    assert re.search(r"training .*━", said), said
    assert (NO_AUTOGRAD in said) == (backend == "numpy")
    assert ("100%" in said) == (backend != "numpy")
    assert "Traceback" not in said


def read_terminal(terminal):
    try:
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError:  # Linux's way to say that nobody is at the other end any more
        return ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--seed", "many"], "argument --seed: invalid int value: 'many'"),
        (["--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_train_digits_refuses_options_that_cannot_be_before_it_trains(options, said, tmp_path):
    done = run_example(tmp_path, "train_digits", *options, backend="numpy")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("example", ["train_digits", "checkpoint_across", "multi_gpu_from_scratch"])
def test_help_says_what_it_does_and_lists_the_options(example, tmp_path):
    done = run_example(tmp_path, example, "--help")
    assert done.returncode == 0
    options = {
        "train_digits": ["--epochs", "--seed", "--plot", "--json"],
        "checkpoint_across": ["--backends", "--epochs", "--seed", "--folder"],
        "multi_gpu_from_scratch": ["--devices", "--epochs", "--seed", "--plot", "--json"],
    }[example]
    assert all(f"{option} " in done.stdout for option in options)
    assert f"examples/{example}.py" in done.stdout
    assert "--stage" not in done.stdout


@pytest.mark.parametrize(
    ("example", "missing"),
    [
        ("train_digits", ["sklearn"]),
        ("train_digits", ["matplotlib", "sklearn"]),
        ("train_digits", ["rich"]),
        ("batch_size", ["matplotlib"]),
        ("checkpoint_across", ["sklearn"]),
        ("many_machines", ["sklearn"]),
        ("model_parallel", ["sklearn"]),
        ("multi_gpu", ["sklearn"]),
        ("multi_gpu_from_scratch", ["matplotlib", "sklearn"]),
        ("own_optimizer", ["sklearn"]),
    ],
)
def test_an_example_says_first_what_is_missing_and_how_to_install_it(example, missing, tmp_path):
    program = f"""
import runpy, sys
for module in {missing!r}:
    sys.modules[module] = None
sys.argv = ["{example}.py"]
runpy.run_path({str(EXAMPLES / f"{example}.py")!r}, run_name="__main__")
"""
    done = subprocess.run(  # with a backend that is not there, as none is looked for yet
        [sys.executable, "-c", program],
        env=environment("nobody"), cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    names = {"sklearn": "scikit-learn", "matplotlib": "matplotlib", "rich": "rich"}
    packages = [package for module, package in names.items() if module in missing]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"this example needs {' and '.join(packages)}: pip install {' '.join(packages)}, or, in "
        "unidev's repository, pip install '.[examples]'\n"
    )


@pytest.mark.parametrize("example", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_each_example_that_imports_a_package_is_tested_without_it(example):
    text = (EXAMPLES / f"{example}.py").read_text(encoding="utf-8")
    wanted = {name for name in ("sklearn", "matplotlib", "rich") if f"from {name}." in text}
    marks = test_an_example_says_first_what_is_missing_and_how_to_install_it.pytestmark
    cases = [set(missing) for name, missing in marks[0].args[1] if name == example]
    assert set().union(*cases) == wanted


POSITIVE = {
    "train_digits": ["--epochs"],
    "batch_size": ["--batches", "--devices", "--epochs", "--drawn"],
    "checkpoint_across": ["--epochs"],
    "cpu_or_gpu": ["--epochs", "--drawn"],
    "jacobian": ["--rows", "--batch"],
    "many_machines": ["--workers", "--epochs"],
    "model_parallel": ["--devices", "--epochs"],
    "multi_gpu": ["--devices", "--epochs"],
    "multi_gpu_from_scratch": ["--devices", "--epochs"],
    "neural_ode": ["--iterations"],
    "own_optimizer": ["--devices", "--epochs"],
    "resnet": ["--steps", "--batch", "--width"],
}
"""The options that count something."""
OTHERS = ("checkpoint_across", "many_machines")
"""The first has no ``--json``; of the second, only the process that writes needs the folder."""


@pytest.mark.parametrize("number", ["0", "-1", "1.5", "many"])
@pytest.mark.parametrize(
    ("example", "option"), [(name, option) for name in POSITIVE for option in POSITIVE[name]]
)
def test_a_count_that_cannot_be_is_refused_before_anything(example, option, number, tmp_path):
    done = run_example(tmp_path, example, f"{option}={number}", backend="nobody")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"argument {option}: not a positive integer: '{number}'\n")


@pytest.mark.parametrize("path", ["nowhere/file", "."])
@pytest.mark.parametrize(
    ("example", "option"),
    [
        *((name, "--json") for name in POSITIVE if name not in OTHERS),
        *((name, "--plot") for name in ("train_digits", "batch_size", "multi_gpu_from_scratch")),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_anything(example, option, path, tmp_path):
    done = run_example(tmp_path, example, option, path, backend="nobody")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(
        f"argument {option}: not a file in a folder that is there: '{path}'\n"
    )


@pytest.mark.parametrize("backend", ONE)
@pytest.mark.parametrize(
    ("example", "options"),
    [
        ("train_digits", ["--epochs", "1"]),
        ("batch_size", ["--batches", "64", "--drawn", "64", "--epochs", "1"]),
        ("multi_gpu_from_scratch", ["--devices", "1", "--epochs", "1"]),
    ],
)
def test_what_is_measured_is_written_before_it_is_drawn(example, options, backend, tmp_path):
    copied(tmp_path, example)
    undrawn = tmp_path / "undrawn.py"
    undrawn.write_text(
        f"import sys, {example}\n"
        f"{example}.plot = lambda *_: sys.exit('no picture')\n"
        f"{example}.main()\n"
    )
    done = run_program(
        [str(undrawn), *options, "--json", str(tmp_path / "found.json")], backend=backend,
        also=EXAMPLES_NEED, environment=environment(backend, 1), folder=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (1, ["no picture"])
    assert json.loads((tmp_path / "found.json").read_text())["backend"] == backend


def test_train_digits_says_which_backends_there_are_if_there_is_none_of_that_name(tmp_path):
    done = run_example(tmp_path, "train_digits", backend="nobody")
    assert done.returncode == 1
    assert done.stderr.startswith("train_digits.py: UNIDEV_BACKEND=nobody: ")
    assert len(done.stderr.splitlines()) == 1


# -- checkpoint_across ---------------------------------------------------------------------------


@pytest.mark.parametrize("backend", HERE)
def test_checkpoint_across_carries_on_with_the_outputs_that_were_saved(backend, tmp_path):
    options = ("--backends", backend, backend, "--epochs", 1, "--folder", tmp_path / "kept")
    done = run_example(tmp_path, "checkpoint_across", *options, count=1)
    if backend == "numpy":
        check_refused(done, "checkpoint_across")
        return
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    first, second = (i for i, line in enumerate(lines) if line == f"-- {backend}")
    assert [line.split(":")[0] for line in lines if line.startswith("epoch")] == [
        "epoch  1", "epoch  2",
    ]  # fmt: skip
    saved, loaded = lines[first + 2], lines[second + 1]
    assert saved == loaded
    assert re.fullmatch(rf"{backend} on gpu:0: test loss 0\.\d+, accuracy 0\.8\d+", saved)
    assert float(lines[second + 2].split()[-3]) < 1e-5
    assert (tmp_path / "kept" / "digits.safetensors").stat().st_size > 10_000


def test_checkpoint_across_takes_the_frameworks_that_are_here_or_says_that_there_is_none(
    tmp_path, monkeypatch
):
    checkpoint_across = imported("checkpoint_across")
    stages = []
    monkeypatch.setattr(checkpoint_across, "run_stage", lambda *stage: stages.append(stage))
    monkeypatch.setattr("sys.argv", ["checkpoint_across.py"])
    if there := {*FRAMEWORKS, *LEFT_OUT}:
        checkpoint_across.main()
        *looks, (save, first, _, folder), (load, second, _, same) = stages
        assert [each[:2] for each in looks] == [("look", second)] * (first != second)
        assert (save, load) == ("save", "load")
        assert folder == same
        assert not folder.exists()  # as it was a temporary one
        assert {first, second} <= there
        assert len({first, second}) == min(2, len(there))
    else:
        with pytest.raises(SystemExit, match="this example needs one of torch, tensorflow, "):
            checkpoint_across.main()
        assert stages == []


def test_checkpoint_across_looks_for_the_second_backend_before_it_trains_the_first(tmp_path):
    done = run_example(tmp_path, "checkpoint_across", "--backends", HERE[0], "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no backend 'nobody'" in done.stderr


def test_checkpoint_across_fails_if_the_outputs_are_not_those_that_were_saved(
    tmp_path, monkeypatch
):
    import numpy as np

    checkpoint_across = imported("checkpoint_across")
    net = object()
    np.save(tmp_path / "outputs.npy", np.zeros((2, 3)))
    monkeypatch.setattr(checkpoint_across, "make_net", lambda: net)
    monkeypatch.setattr("unidev.load_parameters", lambda net, path, device: net)
    monkeypatch.setattr(checkpoint_across, "train", lambda *_, **__: pytest.fail("it trained"))
    monkeypatch.setattr(checkpoint_across, "report", lambda net: np.full((2, 3), 1e-4))
    not_the_net = pytest.raises(SystemExit, match="this is not the net that was saved")
    with unidev.use_backend("numpy"), not_the_net:
        checkpoint_across.load_and_carry_on(tmp_path, 1, 0)


# -- multi_gpu_from_scratch ----------------------------------------------------------------------


@pytest.mark.parametrize("backend", HERE)
def test_multi_gpu_from_scratch_gets_the_weights_of_one_device(backend, tmp_path):
    options = ("--devices", 3, "--epochs", 1, "--plot", "plot.png", "--json", "found.json")
    done = run_example(tmp_path, "multi_gpu_from_scratch", *options, backend=backend, count=3)
    if backend == "numpy":
        check_refused(done, "multi_gpu_from_scratch")
        return
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["equal"]
    assert 0 < found["difference"] < 1e-5
    one, three = found["runs"]
    assert (one["devices"], three["devices"]) == (1, 3)
    assert three["losses"] == pytest.approx(one["losses"], abs=1e-4)
    assert min(one["computing"], one["reducing"], three["computing"], three["reducing"]) > 0
    assert "3 devices: " in done.stdout
    assert "t1, reducing, is " in done.stdout
    check_drawn(tmp_path / "plot.png")


def test_multi_gpu_from_scratch_says_how_to_get_gpus(tmp_path):
    done = run_example(tmp_path, "multi_gpu_from_scratch", backend="numpy")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there are 0: set UNIDEV_SIMULATE=2" in done.stderr
