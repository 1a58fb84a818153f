"""unidev's own verbs are told once, by their own names, on every backend that is installed here.

With the core alone that is NumPy; in a framework's environment, also that framework, whose tracer
sees the same bytes move and must not be heard a second time.
"""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from running_examples import HERE

PROGRAM = textwrap.dedent(
    """
    import json, os, sys, unidev
    from unidev import nn

    file = os.path.join(sys.argv[1], "net.safetensors")
    with unidev.trace_transfers() as trace, unidev.transfer_guard("forbid"):
        x = unidev.array([1, 2, 3], dtype="float32", device="gpu:0")
        unidev.arange(4, dtype="int64", device="gpu:1")
        unidev.rand((2, 2), device="gpu:0")
        unidev.copy_to(x, "gpu:1")
        unidev.copy_to(x, "gpu:0")
        unidev.as_in_device({"x": x}, "cpu")
        unidev.array(x, device="gpu:1")
        unidev.array(x, dtype="int64", device="gpu:1")
        unidev.zeros(3, device="gpu:1"), unidev.full(3, 2, device="gpu:0")
        unidev.ones_like(x), unidev.empty((2,), device="gpu:1")
        unidev.device_of(x), unidev.shares_memory(x, x), unidev.check_same_device(x, x)
        with unidev.transfer_guard("allow"):
            unidev.to_numpy(x)
        if unidev.active_backend().name == "numpy":
            net = {"bias": unidev.zeros(2)}
        else:
            with unidev.gpu(0):
                net = nn.batch_norm(2)
        unidev.place(net, "gpu:1")
        unidev.save_parameters(net, file)
        unidev.load_parameters(net, file, device="gpu:0")
    if sys.argv[2]:
        imported, question = sys.argv[2:]
        namespace = {}
        exec(f"import {imported}", namespace)
        function = eval(question.partition("(")[0], namespace)
        with unidev.trace_transfers() as asked:
            assert not eval(question, namespace)
        assert list(asked.gpu_queries) == [question.partition("(")[0]], asked
        assert eval(question.partition("(")[0], namespace) is function
    print(json.dumps([[each.operation, str(each.source), str(each.target), each.nbytes]
                      for each in trace.transfers]))
    """
)
QUESTIONS = {
    "torch": ("torch", "torch.cuda.is_available()"),
    "tensorflow": ("tensorflow as tf", "tf.config.list_physical_devices('GPU')"),
    "paddle": ("paddle", "paddle.device.cuda.device_count()"),
    "mxnet": ("mxnet", "mxnet.context.num_gpus()"),
}
"""For each framework: how it is imported, and a question that simulated GPUs do not answer."""
TENSORS = [
    ["array", "cpu:0", "gpu:0", 12],
    ["arange", "cpu:0", "gpu:1", 32],
    ["rand", "cpu:0", "gpu:0", 16],
    ["copy_to", "gpu:0", "gpu:1", 12],
    ["as_in_device", "gpu:0", "cpu:0", 12],
    ["array", "gpu:0", "gpu:1", 12],
    ["array", "gpu:0", "cpu:0", 12],  # its values are checked on the host
    ["array", "gpu:0", "gpu:1", 12],
    ["to_numpy", "gpu:0", "cpu:0", 12],
]


@pytest.mark.parametrize("backend", HERE)
def test_every_verb_is_told_once_and_is_asked_for(backend, tmp_path):
    own = {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path, *QUESTIONS.get(backend, [""])],
        env={**own, "UNIDEV_BACKEND": backend, "UNIDEV_SIMULATE": "2"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told[: len(TENSORS)] == TENSORS
    models = told[len(TENSORS) :]
    tensors = 1 if backend == "numpy" else 4  # a parameter; two, and two buffers
    reading, writing = ["gpu:0", "cpu:0", 8], ["cpu:0", "gpu:0", 8]
    placed = models[: -3 * tensors - 1]
    assert [each[0] for each in placed] == ["place"] * (1 if backend == "numpy" else 2)
    assert placed[-1][2] == "gpu:1"
    assert (
        models[-3 * tensors - 1 : -2 * tensors - 1]
        == [["save_parameters", "gpu:1", "cpu:0", 8]] * tensors
    )
    assert models[-2 * tensors - 1][:3] == ["load_parameters", "gpu:1", "gpu:0"]
    assert models[-2 * tensors :] == [
        ["load_parameters", *reading], ["load_parameters", *writing],
    ] * tensors  # fmt: skip


SEVERAL = textwrap.dedent(
    """
    import json, unidev
    from unidev import nn

    if unidev.active_backend().name == "numpy":
        net = {"bias": unidev.zeros(2, device="gpu:0")}
    else:
        with unidev.gpu(0):
            net = nn.sequential(nn.dense(2, 2), nn.batch_norm(2))
    x = unidev.ones((4, 2), device="gpu:0")
    with unidev.trace_transfers() as trace, unidev.transfer_guard("forbid"):
        both = unidev.DataParallel(net, ["gpu:0", "gpu:1"])
        if unidev.active_backend().name != "numpy":
            both(x)
        with both.replica(1):
            pass
    assert trace.count, "nothing was recorded"
    assert all(each.is_explicit for each in trace.transfers)
    print(json.dumps(sorted({each.operation for each in trace.transfers})))
    with unidev.trace_transfers() as trace:
        for _ in unidev.prefetch([(unidev.ones(2), unidev.ones(3), unidev.ones(1))] * 4, "gpu:0"):
            pass
    (line,) = trace.by_line()
    print(json.dumps([line.count, line.calls("prefetch")]))
    """
)


@pytest.mark.parametrize("backend", HERE)
def test_several_devices_and_batches_ahead_move_what_they_were_given(backend):
    """No transfer of ``DataParallel`` is one that the user never wrote; a batch is one call."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_")}
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL],
        env={**own, "UNIDEV_BACKEND": backend, "UNIDEV_SIMULATE": "2"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    verbs, ahead = map(json.loads, done.stdout.splitlines()[-2:])
    assert set(verbs) <= {"DataParallel", "split_batch", "gather"}
    assert ahead == [12, 4]
