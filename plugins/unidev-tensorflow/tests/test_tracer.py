"""What the suite's examples of the tracer leave: unidev's own calls, real GPUs, and blind spots."""

import tensorflow as tf
from traced import TRACER, matrix, recording

import unidev
from unidev.contract import PlannedTransfer
from unidev_tensorflow.tracer.operations import CONFLICT, Operations
from unidev_tensorflow.tracer.transfers import Sight


def test_what_unidev_moves_is_reported_by_what_it_calls_and_arrives():
    x = matrix()
    with recording() as found:
        y = unidev.copy_to(x, "gpu:1")
    assert found == [("Tensor._copy", "gpu:0", "gpu:1", 24, (2, 3))]
    assert unidev.device_of(y) is unidev.gpu(1)


def test_advice_about_a_loop_of_keras_is_to_call_it_less_often():
    moved = PlannedTransfer("Sequential.fit", unidev.gpu(0), unidev.cpu(), 8, ())
    with unidev.trace_transfers() as trace:
        for _ in range(12):
            TRACER.recording.call([moved], int)
    (total,) = trace.by_line()
    assert total.advice.startswith("`.fit()`, 12 times at ")
    assert "it moves data and results itself; call it on more data, less often" in total.advice


def test_each_blind_spot_has_its_reason():
    for what, why in unidev.active_backend().tracer.blind_spots.items():
        assert what
        assert why


class Hardware:
    """A backend of a machine with real GPUs: what the tracer uses of it."""

    simulated_count = 0
    cpu = "cpu:0"

    def device(self, kind, index):
        return f"{kind}:{index}"

    def device_count(self, _):
        return 2

    def parse_native(self, spec):
        parsed = tf.DeviceSpec.from_string(spec)
        return parsed.device_type.lower(), parsed.device_index


def test_on_real_gpus_tensorflow_names_what_moves_and_int32_stays_on_the_host():
    operations = Operations(Sight(Hardware()), TRACER.recording)
    local = "/job:localhost/replica:0/task:0/device:"
    message = (
        f"Tensors on conflicting devices: cannot compute GatherV2 as input #0 was expected to be "
        f"on {local}GPU:1 but is actually on {local}CPU:0 (operation running on {local}GPU:1) "
        f"Tensors can be copied explicitly"
    )
    x, integers, fraction = tf.ones(3), tf.constant([1, 2]), tf.constant(0.5)
    ways = operations._ways([x, integers, fraction], CONFLICT.match(message))
    assert [(id(x), *way) for x, *way in ways] == [
        (id(x), "cpu:0", "gpu:1"),
        (id(fraction), "cpu:0", "gpu:1"),
    ]
    ways = operations._ways([integers, x], CONFLICT.match(message))  # named, so it does move
    assert next(ways)[1:] == ("cpu:0", "gpu:1")
    assert Sight(Hardware()).default(None) == "gpu:0"
    assert Sight(Hardware()).default(f"{local}GPU:7") == "gpu:0"  # missing: soft placement
    assert Sight(Hardware()).device_read(integers, is_direct=True) == "cpu:0"
