"""Copies: new memory, the device asked for, every dtype, every kind of tensor."""

import numpy as np
import pytest
import tensorflow as tf

import unidev
from unidev_tensorflow.deep_copy import eager as shortcut

# Those that this TensorFlow has: float8_e4m3fnuz came after 2.16.
EXOTIC = [
    dtype.name
    for name in ("float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "int4", "uint4")
    if (dtype := getattr(tf.dtypes.experimental, name, None)) is not None
]
QUANTIZED = {"qint8": "int8", "quint8": "uint8", "qint16": "int16", "quint16": "uint16",
             "qint32": "int32"}  # fmt: skip


def address(x):
    with tf.device(x.device):
        return np.asarray(tf.reshape(x, [-1])).__array_interface__["data"][0]


def raw(x):
    return np.asarray(x.numpy()).tobytes()


def full_name(index):
    return f"/job:localhost/replica:0/task:0/device:CPU:{index}"


@pytest.fixture
def _public(monkeypatch):
    """The suite takes the shortcut."""
    monkeypatch.setattr(shortcut, "context", None)


def test_the_shortcut_is_taken_on_this_tensorflow():
    x = tf.ones((2, 3))
    made = shortcut.eager_copy(x, full_name(2), shortcut.CPU_NUMBERS)
    assert made is not None
    assert made.device == full_name(2)


def test_lack_of_memory_is_said_after_one_attempt(monkeypatch):
    attempts = []

    def fail(*arguments):
        attempts.append(arguments)
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    monkeypatch.setattr(shortcut.pywrap_tfe, "TFE_Py_Execute", fail)
    with pytest.raises(unidev.OutOfDeviceMemoryError):
        unidev.copy_to(tf.ones(3), "gpu:1")
    assert len(attempts) == 1


def of_each_kind():
    bits = np.array([0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000, 1, 0x007FFFFF], "uint32")
    yield tf.constant(bits.view("float32"))
    for shape in ((), (0,), (3, 0, 2), (1,), (1000, 1000)):
        yield tf.fill(shape, 2.5)
    for name in unidev.active_backend().dtypes:
        yield tf.cast(tf.constant([0, 1, 1]), name)


@pytest.mark.usefixtures("_public")
@pytest.mark.parametrize("target", ["cpu", "gpu:0", "gpu:3"])
@pytest.mark.parametrize("scope", [None, "/CPU:1", "/job:localhost/CPU:3"])
def test_the_public_way_copies_each_kind_whatever_scope_there_is(target, scope):
    index, soft = unidev.list_devices().index(unidev.as_device(target)), soft_placement()
    for x in of_each_kind():
        with tf.device(scope):
            copied = unidev.copy_to(x, target)
            assert tf.ones(3).device == full_name(int(scope[-1]) if scope else 0)
        assert copied.device == copied.backing_device == full_name(index)
        assert (copied.dtype, copied.shape) == (x.dtype, x.shape)
        assert copied is not x
        assert raw(copied) == raw(x)
        assert 0 in x.shape or address(copied) != address(x)
    assert soft_placement() == soft


def soft_placement():
    return tf.config.get_soft_device_placement()


@pytest.mark.parametrize("shape", [(), (4,), (2, 2)])
@pytest.mark.parametrize("name", [*EXOTIC, *QUANTIZED])
def test_dtypes_that_deep_copy_refuses_are_copied(name, shape):
    if name in QUANTIZED:
        x = tf.bitcast(tf.fill(shape, tf.constant(3, QUANTIZED[name])), tf.as_dtype(name))
    else:
        own = tf.as_dtype(name)
        x = tf.constant(np.full(shape, 1).astype(own.as_numpy_dtype), dtype=own)
    copied = unidev.copy_to(x, "gpu:1")
    assert copied.dtype == x.dtype
    assert copied.shape == x.shape
    assert raw(copied) == raw(x)
    assert not unidev.shares_memory(copied, x)
    assert unidev.shares_memory(x, tf.identity(x))
    assert str(unidev.device_of(copied)) == "gpu:1"
    if name in QUANTIZED:  # NumPy has no such numbers, and what is stored is not their values
        with pytest.raises(unidev.UnsupportedDtypeError, match=r"tf\.dequantize"):
            unidev.to_numpy(copied)
    else:
        assert unidev.to_numpy(copied).tobytes() == raw(x)


def test_strings_are_copied_and_stay_where_they_were_put():
    x = tf.constant([["a", "bc" * 100]])
    copied = unidev.copy_to(x, "gpu:1")
    assert copied.numpy().tolist() == x.numpy().tolist()
    assert str(unidev.device_of(copied)) == "gpu:1"
    assert unidev.as_in_device(copied, "gpu:1") is copied
    with pytest.raises(unidev.UnsupportedOperation, match="memory of its own"):
        unidev.shares_memory(x, copied)


class Pair(tf.experimental.ExtensionType):
    first: tf.Tensor
    second: tf.Tensor


def composites():
    dense = [[0.0, 1.0], [2.0, 0.0]]
    return {
        "ragged": tf.ragged.constant([[[1.0], [2.0, 3.0]], [[4.0]]]),
        "ragged strings": tf.ragged.constant([["a", "b"], ["c"]]),
        "sparse": tf.sparse.from_dense(dense),
        "slices": tf.IndexedSlices(tf.constant(dense), tf.constant([0, 1])),
        "extension": Pair(tf.ones(2), tf.zeros(3)),
    }


def test_a_ragged_tensor_has_its_like_and_others_are_refused_by_name():
    for name, x in composites().items():
        if name == "ragged":
            made = unidev.ones_like(x, device="gpu:1")
            assert (type(made), str(unidev.device_of(made))) == (tf.RaggedTensor, "gpu:1")
            assert made.to_list() == [[[1.0], [1.0, 1.0]], [[1.0]]]
        elif name in ("sparse", "extension"):
            with pytest.raises(unidev.UnsupportedOperation, match=f"like a {type(x).__name__}"):
                unidev.zeros_like(x)


def test_a_composite_whose_parts_lie_apart_has_no_device_and_can_be_brought_together():
    pair = Pair(unidev.ones(2, device="gpu:0"), unidev.ones(3, device="gpu:1"))
    with pytest.raises(unidev.UnsupportedOperation, match="gpu:0, gpu:1"):
        unidev.device_of(pair)
    assert str(unidev.device_of(unidev.copy_to(pair, "gpu:2"))) == "gpu:2"


def test_too_large_a_tensor_is_lack_of_memory():
    # More than fits in 32 bits: as an int32 it would be 0. TensorFlow waits 10 s for memory.
    with pytest.raises(unidev.OutOfDeviceMemoryError):
        unidev.empty((1 << 45,), device="gpu:0")


def test_a_full_gpu_in_tensorflows_words_is_lack_of_memory(monkeypatch):
    def fails(*_):
        raise tf.errors.InternalError(None, None, "Dst tensor is not initialized.")

    monkeypatch.setattr(unidev.active_backend(), "copy_to", fails)
    with pytest.raises(unidev.OutOfDeviceMemoryError, match="not initialized"):
        unidev.copy_to(tf.ones((2, 3)), "gpu:1")


def test_the_bytes_of_a_tensor_that_tensorflow_names_are_counted(monkeypatch):
    def fails(*_):
        said = (
            "OOM when allocating tensor with shape[1000,20] and type double on "
            "/job:localhost/replica:0/task:0/device:GPU:0"
        )
        raise tf.errors.ResourceExhaustedError(None, None, said)

    monkeypatch.setattr(unidev.active_backend(), "copy_to", fails)
    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught:
        unidev.copy_to(tf.ones((2, 3)), "gpu:1")
    assert caught.value.requested_bytes == 160_000


@pytest.mark.parametrize("shape", [None, [None, 2]], ids=str)
@pytest.mark.parametrize(
    "call", [unidev.zeros_like, unidev.ones_like, unidev.empty_like], ids=lambda f: f.__name__
)
def test_the_shape_of_a_variable_may_be_unknown(call, shape):
    x = tf.Variable([[1.0, 2.0]], shape=tf.TensorShape(shape))
    with pytest.raises(unidev.InvalidDataError, match=r"copy_to\(x, device\) has one"):
        call(x)
    assert call(unidev.copy_to(x, "cpu")).shape == (1, 2)


def test_a_variable_of_unknown_shape_is_no_raw_error():
    x = tf.Variable([1.0, 2.0], shape=tf.TensorShape(None))
    with pytest.raises(unidev.InvalidDataError, match="shape of this tensor is not known"):
        unidev.sgd(x, tf.ones(2), lr=1.0)
    with pytest.raises(unidev.InvalidDataError, match="shape of this tensor is not known"):
        unidev.nn.functional.mean_squared_error(x, x)
