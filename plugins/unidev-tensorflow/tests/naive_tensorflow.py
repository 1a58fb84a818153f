"""What TensorFlow's own calls make of "copy"."""

from mutants.naive import NaiveBackend

import unidev_tensorflow


def _identity(x, device):
    import tensorflow as tf

    with tf.device(device.native_name):
        return tf.identity(x)


def _add_zero(x, device):
    import tensorflow as tf

    with tf.device(device.native_name):
        if x.dtype.is_floating or x.dtype.is_integer:
            return x + tf.zeros([], x.dtype)
        return tf.raw_ops.DeepCopy(x=x)


def _deep_copy(x, device):
    """TensorFlow brings ``x`` over first, and keeps that with ``x``."""
    import tensorflow as tf

    with tf.device(device.native_name):
        return tf.raw_ops.DeepCopy(x=x)


def _constant(x, device):
    import tensorflow as tf

    with tf.device(device.native_name):
        return tf.constant(x)


def _ours(x, device):
    from unidev_tensorflow.deep_copy.public import copied

    return copied(x, f"/job:localhost/replica:0/task:0{device.native_name}")


identity = NaiveBackend("identity", unidev_tensorflow, _identity)
add_zero = NaiveBackend("add_zero", unidev_tensorflow, _add_zero)
deep_copy = NaiveBackend("deep_copy", unidev_tensorflow, _deep_copy)
ours = NaiveBackend("ours", unidev_tensorflow, _ours)
constant = NaiveBackend("constant", unidev_tensorflow, _constant)
