"""Reads, copies and tensors made of values: what each moves, and what moves nothing."""

from __future__ import annotations

import copy
import io
import pickle
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]

from unidev_tensorflow.probe.transfers.place import MIXED, VALUES, Place, example, within

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.contract import TransferExample
    from unidev_tensorflow.probe.transfers.place import Row, Use


NUMBER: dict[str, Sequence[Use]] = {
    "Tensor.numpy": [lambda x: x.numpy()],
    "Tensor.__bool__": [bool, lambda x: 1 if x else 2],
    "Tensor.__int__": [int],
    "Tensor.__float__": [float, lambda x: "%.2f" % x],  # noqa: UP031  a user's
    "Tensor.__complex__": [complex],
    "Tensor.__str__": [str],
    "Tensor.__repr__": [repr],
    "Tensor.__format__": [lambda x: f"{x}", lambda x: f"{x:.2f}"],
    "Tensor.__array__": [lambda x: x.__array__()],
    "pickle": [pickle.dumps],
    "numpy.array": [
        lambda x: np.array(x, copy=True), lambda x: np.array([x, x]), lambda x: np.array((x, 1.0)),
        lambda x: np.array([[x, 1.0], [x, 1.0]]), lambda x: np.array(object=x),
    ],
    "numpy.asarray": [lambda x: np.asarray(x, None), lambda x: np.asarray(a=x)],
    "numpy.asanyarray": [lambda x: np.asanyarray(x, None)],
    "numpy.ascontiguousarray": [lambda x: np.ascontiguousarray(x, None)],
    "numpy.asfortranarray": [lambda x: np.asfortranarray(x, None)],
    "numpy.sum": [np.sum, lambda x: np.sum(a=x)],
    "numpy.isclose": [lambda x: np.isclose(x, 2.0)],
    "numpy.stack": [lambda x: np.stack([x, x])],
    "numpy.block": [lambda x: np.block([[x, x], [x, x]])],
    "numpy.save": [lambda x: np.save(io.BytesIO(), x)],
}  # fmt: skip
"""Reads of a tensor with one element, by the name that a trace has for them."""
_ON_THE_HOST: dict[str, Use] = {
    "tf.get_static_value": tf.get_static_value,
    "tf.make_tensor_proto": tf.make_tensor_proto,
    "tf.print": lambda x: tf.print(x, output_stream="file:///dev/null"),
}
"""Further reads, which are not of int32: that is their way to look at shapes."""


def reads(place: Place) -> Iterator[TransferExample]:
    """Numbers, indices and matrices, read into Python and NumPy."""
    number, index = np.float32(2.0), np.int64(1)
    for name, call in [
        *((name, call) for name, calls in NUMBER.items() for call in calls),
        *_ON_THE_HOST.items(),
    ]:
        yield place.reading(partial(call, place.make(number, place.gpu)), name, (4, ()))
        yield place.silent(partial(call, place.make(number, place.cpu)), place.cpu)
    for name, call in (
        ("Tensor.__index__", lambda x: "ab"[x]),
        ("Tensor.__index__", lambda x: np.zeros(2)[x]),
        ("Tensor.__getitem__", lambda x: tf.zeros(2)[x]),
        ("Tensor.__getitem__", lambda x: tf.zeros(2)[:x]),
        ("tf.range", tf.range),
        ("tf.expand_dims", lambda x: tf.expand_dims(tf.zeros(2), x)),
        ("tf.gather" + MIXED, lambda x: tf.gather(tf.zeros(2), x)),
    ):
        yield place.reading(partial(call, place.make(index, place.gpu)), name, (8, ()))
        yield place.silent(partial(call, place.make(index, place.cpu)), place.cpu)
    x = place.matrix(place.gpu)
    with tf.device(place.gpu.native):
        part = x[:, 1:]
    yield place.reading(lambda: [float(x[0, 0]) for _ in range(2)], "Tensor.__getitem__",
                        (24, (2, 3)))  # fmt: skip
    yield place.reading(lambda: [x.numpy() for _ in range(2)], "Tensor.numpy", *2 * [(24, (2, 3))])
    computed: Sequence[Row] = (
        ("Tensor.__bool__", lambda: 1 if x[0, 0] > 0 else 2, (1, ())),
        ("Tensor.__bool__", lambda: max(x[0]), *2 * [(1, ())]),
        ("Tensor.numpy", part.numpy, (16, (2, 2))),
        ("Tensor.__repr__", lambda: repr([x[0], x[1]]), *2 * [(12, (3,))]),
        ("numpy.concatenate", lambda: np.concatenate([x[0], x[1]]), *2 * [(12, (3,))]),
    )
    for name, call, *moved in computed:
        yield place.reading(call, name, *moved, at=place.gpu)
    for dtype, shape in (("float16", ()), ("int64", (0,)), ("bool", (2, 0, 3)),
                         ("complex128", (5, 1)), ("uint8", (3,))):  # fmt: skip
        array = np.zeros(shape, dtype)
        filled = place.make(array, place.gpu)
        yield place.reading(filled.numpy, "Tensor.numpy", (array.nbytes, shape))
        yield place.reading(partial(tf.identity, filled), "tf.identity", (array.nbytes, shape))


def copies(place: Place) -> Iterator[TransferExample]:
    """Calls that copy to where they compute, both ways; and between GPUs."""
    for name, call in (
        ("tf.identity", tf.identity),
        ("tf.raw_ops.Identity", lambda x: tf.raw_ops.Identity(input=x)),
        ("tf.identity_n", lambda x: tf.identity_n([x, x])),
        ("Tensor._copy", lambda x: x._copy()),
        ("tf.raw_ops.DeepCopy", lambda x: tf.raw_ops.DeepCopy(x=x)),
        ("tf.raw_ops.Snapshot", lambda x: tf.raw_ops.Snapshot(input=x)),
        ("Tensor.__getitem__", lambda x: x[:, 1]),
        ("tf.reshape", lambda x: tf.reshape(x, (3, 2))),
        ("tf.cast", lambda x: tf.cast(x, tf.float16)),
        ("tf.stack", lambda x: tf.stack([x, x])),
        ("Tensor.__add__", lambda x: tf.Variable(x + x)),
    ):
        yield place.sending(partial(call, place.matrix(place.cpu)), name, (24, (2, 3)))
        yield place.reading(partial(call, place.matrix(place.gpu)), name, (24, (2, 3)))
        yield place.silent(partial(call, place.matrix(place.gpu)))
        yield place.silent(partial(call, place.matrix(place.cpu)), place.cpu)
    x, y = place.matrix(place.gpu), place.matrix(place.cpu)
    yield place.reading(x.cpu, "Tensor.cpu", (24, (2, 3)), at=place.gpu)
    yield place.silent(y.cpu)
    yield place.silent(lambda: x._copy(device_name=x.device))
    yield place.reading(lambda: list(x), "Tensor.__iter__", (24, (2, 3)))
    yield place.sending(lambda: tf.identity_n([x, y]), "tf.identity_n" + MIXED, (24, (2, 3)))
    if place.other is not None:
        ways = place.gpu, place.other
        yield example(within(place.other.native, partial(tf.identity, x)), "tf.identity",
                       [(24, (2, 3))], *ways)  # fmt: skip


def made(place: Place) -> Iterator[TransferExample]:
    """Tensors of Python's and NumPy's data."""
    whole = (24, (2, 3))
    rows: Sequence[Row] = (
        ("tf.constant", lambda: tf.constant(VALUES), whole),
        ("tf.constant", lambda: tf.constant(VALUES, tf.float64), (48, (2, 3))),
        ("tf.constant", lambda: tf.constant(VALUES, shape=(3, 2)), whole),
        ("tf.constant", lambda: tf.constant(np.array([2.0]), shape=(3, 2)), (8, (1,))),
        ("tf.constant", lambda: tf.constant(np.array(2.0)), (8, ())),
        ("tf.constant", lambda: tf.constant([1.0, 2.0]), (8, (2,))),
        ("tf.constant", lambda: tf.constant((1, 2.0)), (8, (2,))),
        ("tf.constant", lambda: tf.constant([True, False]), (2, (2,))),
        ("tf.constant", lambda: tf.constant([1j]), (16, (1,))),
        ("tf.constant", lambda: tf.constant([2**40]), (8, (1,))),
        ("tf.constant", lambda: tf.constant([1, 2], tf.int64), (16, (2,))),
        ("tf.constant", lambda: tf.constant(range(3), tf.int64), (24, (3,))),
        ("tf.constant", lambda: tf.constant([np.float64(1.0)]), (8, (1,))),
        ("tf.constant", lambda: tf.constant([np.ones(2), np.ones(2)]), (32, (2, 2))),
        ("tf.convert_to_tensor", lambda: tf.convert_to_tensor(VALUES[:0]), (0, (0, 3))),
        ("tf.cast", lambda: tf.cast(VALUES, tf.float16), whole),
        ("tf.stack", lambda: tf.stack([VALUES, VALUES]), (48, (2, 2, 3))),
        ("Variable.__init__", lambda: tf.Variable(VALUES), whole),
        ("tf.raw_ops.Neg", lambda: tf.raw_ops.Neg(x=VALUES), whole),
        ("tf.raw_ops.Neg", lambda: tf.raw_ops.Neg(x=[1.0, 2.0]), (8, (2,))),
        ("tf.maximum", lambda: tf.maximum(VALUES, VALUES), whole, whole),
        ("tf.concat", lambda: tf.concat([VALUES, tf.ones((1, 3))], 0), whole),
        ("tf.add_n", lambda: tf.add_n([VALUES, tf.ones((2, 3)), VALUES]), whole, whole),
        ("Tensor.__matmul__", lambda: tf.ones((3, 2)) @ VALUES, whole),
        ("Tensor.__rsub__", lambda: VALUES - tf.ones((2, 3)), whole),
        ("Tensor.__mul__", lambda: tf.ones(3) * [1.0, 2.0, 3.0], (12, (3,))),
    )
    for name, call, *moved in rows:
        yield place.sending(call, name, *moved)
        yield place.silent(call, place.cpu)


def nothing(place: Place) -> Iterator[TransferExample]:
    """Work on one device; numbers, strings and shapes; graphs, and what only refers to memory."""
    x = place.matrix(place.gpu)
    with tf.device(place.gpu.native):
        v = tf.Variable(VALUES)
    calls: Sequence[Use] = (
        lambda: tf.constant(x), lambda: tf.convert_to_tensor(x), lambda: copy.copy(x),
        lambda: copy.deepcopy(x), lambda: x.shape, lambda: len(x), lambda: list(x),
        lambda: tf.ones((2, 3)), lambda: tf.random.normal((2, 3)), lambda: x + 2.0 + np.float32(1),
        lambda: tf.constant(2.0), lambda: tf.constant(2.0, shape=(2, 3)),
        lambda: tf.constant(["a", "b"]).numpy(), lambda: tf.identity(tf.constant(["a"])),
        lambda: tf.identity(v.handle), lambda: tf.reduce_sum(tf.nn.softmax(x[:, 1:]), axis=[0, 1]),
        lambda: tf.boolean_mask(x, x > 2), lambda: np.array([1.0, [2]], object),
        lambda: np.sum([1, 2]),
    )  # fmt: skip
    yield from map(place.silent, calls)
