"""Objects of classes that take part in ``tf.nest`` by its protocol."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import unidev


class Masked:
    """As in TensorFlow's own example, but not a dataclass."""

    def __init__(self, mask: bool, values: Any) -> None:
        self._kept = lambda: (mask, values)

    @property
    def mask(self) -> bool:
        return self._kept()[0]

    @property
    def values(self) -> Any:
        return self._kept()[1]

    def __tf_flatten__(self) -> Any:
        return (self.mask,), (self.values,)

    @classmethod
    def __tf_unflatten__(cls, metadata: Any, components: Any) -> Masked:
        assert type(components) is tuple
        return cls(*metadata, *components)


def test_one_is_moved_and_differentiated() -> None:
    one = Masked(True, tf.ones(2))
    assert tf.nest.is_nested(one)
    moved = unidev.copy_to({"one": one}, "cpu")["one"]
    assert moved.mask is True
    assert moved.values is not one.values
    assert unidev.device_of(one) is unidev.cpu()
    _, gradients = unidev.value_and_grad(lambda one: tf.reduce_sum(3 * one.values))(one)
    assert gradients.values.numpy().tolist() == [3, 3]
    trained = unidev.sgd(one, gradients, lr=1.0)
    assert trained.values.numpy().tolist() == [-2, -2]
    assert one.values.numpy().tolist() == [1, 1]
