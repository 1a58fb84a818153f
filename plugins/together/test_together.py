"""PyTorch, TensorFlow, PaddlePaddle and MXNet in one environment, and in one process.

What the order of their imports does not matter to runs in a copy of a process that has them.
"""

import json
import os
import subprocess
import sys
from itertools import pairwise

import pytest
from several_frameworks import ROOT, results, run

FRAMEWORKS = ("torch", "tensorflow", "paddle", "mxnet")
BACKENDS = ("numpy", *FRAMEWORKS)
RING = list(pairwise((*FRAMEWORKS, FRAMEWORKS[0])))  # each saves once, and each loads once
# Each is first once, and directly after each other once. TensorFlow before Paddle is what kills the
# process if nothing is done about it.
ORDERS = [[FRAMEWORKS[(first + step) % 4] for step in (0, 1, 3, 2)] for first in range(4)]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_all_work_in_one_process_in_this_order(order):
    code = f"""
copied = {{}}
for name in {order!r}:
    with unidev.use_backend(name):
        x = unidev.array([1.5, -2.0], device="gpu:1")
        y = unidev.copy_to(x, "gpu:1")
        z = unidev.copy_to(x, "cpu")
        copied[name] = [
            unidev.to_numpy(y).tolist(), unidev.to_numpy(z).tolist(),
            y is not x and not unidev.shares_memory(x, y),
            unidev.as_in_device(y, "gpu:1") is y, str(unidev.device_of(y)),
        ]
print(json.dumps(copied))
"""
    expected = [[1.5, -2.0], [1.5, -2.0], True, True, "gpu:1"]
    assert results(code, is_fresh=True) == dict.fromkeys(order, expected)


def test_a_tensor_goes_to_its_own_backend_and_another_backends_device_is_refused():
    code = f"""
names = {BACKENDS!r}
tensors = {{}}
for name in names:
    with unidev.use_backend(name):
        tensors[name] = unidev.ones((2, 3), device="gpu:0")
found = {{}}
with unidev.use_backend("tensorflow"):
    for name, x in tensors.items():
        if name != "numpy":  # which has GPUs only where it is selected
            assert unidev.device_of(unidev.copy_to(x, "gpu:1")).backend == name
        for other in names:
            with unidev.use_backend(other):
                device = unidev.gpu(1)
            try:
                unidev.copy_to(x, device)
                found[name + other] = "copied"
            except unidev.BackendMismatchError as error:
                found[name + other] = "refused" if other in str(error) else str(error)
print(json.dumps(found))
"""
    found = results(code)
    for name in BACKENDS:
        for other in BACKENDS:
            assert found[name + other] == ("copied" if name == other else "refused")


def test_a_mismatch_over_frameworks_names_them():
    code = """
with unidev.use_backend("torch"):
    x = unidev.ones(3)
with unidev.use_backend("mxnet"):
    y = unidev.ones(3)
try:
    unidev.check_same_device(x=x, y=y)
except unidev.DeviceMismatchError as error:
    print(json.dumps(str(error)))
"""
    message = results(code)
    assert "x: cpu:0 of torch" in message
    assert "y: cpu:0 of mxnet" in message


def test_several_installed_frameworks_are_no_choice():
    code = """
try:
    unidev.active_backend()
except unidev.AmbiguousBackendError as error:
    print(json.dumps(str(error)))
"""
    message = results(code, simulate="0", is_fresh=True)
    assert all(name in message for name in FRAMEWORKS)
    assert "UNIDEV_BACKEND=" in message


def test_the_one_that_is_imported_is_chosen():
    code = "import torch\nprint(json.dumps(unidev.active_backend().name))"
    assert results(code, simulate="0", is_fresh=True) == "torch"


def run_example(name, *options, backend):
    return run([ROOT / "examples" / f"{name}.py", *options], backend=backend).stdout


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_example_prints_the_same_bytes(backend):
    expected = ROOT / "examples" / "place_model.expected"
    assert run_example("place_model", backend=backend) == expected.read_text()


def test_the_first_epoch_has_the_same_loss_everywhere(tmp_path):
    losses = {}
    for backend in FRAMEWORKS:
        file = tmp_path / f"{backend}.json"
        files = ("--plot", tmp_path / "digits.png", "--json", file)
        run_example("train_digits", "--epochs", "1", *files, backend=backend)
        found = json.loads(file.read_text())
        assert (found["backend"], found["device"]) == (backend, "gpu:0")
        (losses[backend],) = found["losses"]
    assert min(losses.values()) > 1
    assert max(losses.values()) - min(losses.values()) < 1e-3, losses


@pytest.mark.parametrize(("first", "second"), RING)
def test_training_carries_on_in_another_framework(first, second, tmp_path):
    def stage(name, backend):
        options = ("--stage", name, "--folder", tmp_path, "--epochs", "1")
        return run_example("checkpoint_across", *options, backend=backend).splitlines()

    saved, loaded = stage("save", first), stage("load", second)
    tested = [line.partition(": ") for line in [*saved, *loaded] if ": test loss " in line]
    assert [name for name, _, _ in tested] == [
        f"{name} on gpu:0" for name in (first, second, second)
    ]
    assert any(line.startswith("epoch  2: ") for line in loaded)
    (difference,) = (line.split()[-3] for line in loaded if line.startswith("its outputs differ"))
    assert float(difference) < 1e-5


def test_the_page_of_capabilities_is_the_table_of_today():
    page = "docs/capabilities.md"
    command = [sys.executable, "-m", "unidev", "info", "--capabilities", "--check", page]
    # Their plugin is here, and they are not.
    environment = os.environ | {"UNIDEV_DISABLED_PLUGINS": "cupy,dpnp"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
