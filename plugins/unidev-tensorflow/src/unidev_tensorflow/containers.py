"""TensorFlow's own containers: of tensors, ``tf.TensorArray``; of batches, ``tf.data``."""

from __future__ import annotations

from itertools import chain, islice
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]
from tensorflow.python.ops import tensor_array_ops  # type: ignore[import-untyped]
from tensorflow.python.util import tf_should_use  # type: ignore[import-untyped]

from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.contract import Children

LOADERS: tuple[type, ...] = (tf.data.Dataset, tf.data.Iterator)


def _apart(array: Any) -> tuple[list[Any], Any]:
    """The elements written, and not cleared by a read since; and the array's implementation."""
    own = array._implementation
    if not isinstance(own, tensor_array_ops._EagerTensorArray):
        raise UnsupportedOperation(
            "moving a tf.TensorArray inside a tf.function",
            "it is a value of the graph there: move array.stack(), or array.read(i)",
        )
    return [each for each in own._tensor_array if each is not None], own


def _together(own: Any, written: Sequence[Any]) -> tf.TensorArray:
    """An array of the same size and settings, with these in place of what was written."""
    made = tf.TensorArray(
        own._dtype,
        size=len(own._tensor_array),
        dynamic_size=own._dynamic_size,
        clear_after_read=own._clear_after_read,
        infer_shape=own._infer_shape,
        element_shape=own._element_shape,
    )
    values = iter(written)
    inside = made._implementation
    inside._tensor_array = [None if each is None else next(values) for each in own._tensor_array]
    inside._previously_read_indices = [*own._previously_read_indices]
    return made


def _class_in_wrapper(cls: type) -> type:
    """The class of what ``write`` returns, which warns if it is never used.

    TensorFlow makes it from the wrapped one when it is first needed, which may be now.
    """
    used = SimpleNamespace(sate=lambda: None)
    return type(tf_should_use._get_wrapper(object.__new__(cls), used))


CONTAINERS = MappingProxyType(
    dict.fromkeys((tf.TensorArray, _class_in_wrapper(tf.TensorArray)), (_apart, _together))
)
"""By class, functions as for ``register_container``."""


def opened(x: Any) -> Children | None:
    """As ``Backend.opened``, by the protocol by which a class takes part in ``tf.nest``.

    TensorFlow 2.21: ``tensorflow.python.util.custom_nest_protocol``. A class may have a metaclass
    that answers to any name, so the classes' own namespaces are read.
    """
    if not any("__tf_flatten__" in base.__dict__ for base in type(x).__mro__):
        return None
    metadata, components = x.__tf_flatten__()
    children = {f"[{number}]": component for number, component in enumerate(components)}
    return children, lambda new: type(x).__tf_unflatten__(metadata, tuple(new))


def batches_of(loader: Any) -> Iterator[Any]:
    """The batches of a dataset, or those left of its iterator, without an error at the end.

    ``next`` learns of the end by an operation that fails. When one fails, TensorFlow aborts what
    the operations of all threads meet by, and one that is at work on another device at that moment
    fails with the same error: a step on ``GPU:0``, with "End of sequence". So only as many batches
    are asked for by ``next`` as there are, and more, if that is not known, as optional ones.
    """
    iterator: Iterator[Any] = iter(loader)
    known = int(loader.cardinality()) if isinstance(loader, tf.data.Dataset) else 0
    if known == tf.data.INFINITE_CARDINALITY:
        return iterator
    return chain(islice(iterator, max(known, 0)), _until_empty(iterator))


def _until_empty(iterator: Any) -> Iterator[Any]:
    while (found := iterator.get_next_as_optional()).has_value():
        yield found.get_value()
