"""Transfers of Paddle's functions that read a tensor, move it, or fill it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev_paddle.framework import core, paddle
from unidev_paddle.tracer.transfers import NOTHING

if TYPE_CHECKING:
    from unidev_paddle.tracer.transfers import Sight, Transfers

Tensor: Any = paddle.Tensor
DenseTensor: Any = core.DenseTensor


class Calls:
    """The transfers of each function; a method takes the arguments of the function it describes."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight

    # -- of a tensor ------------------------------------------------------------------------------

    def numpy(self, x: Any, *_: Any, **__: Any) -> Transfers:
        """``Tensor.numpy``."""
        return self._sight.read(x, "Tensor.numpy")

    def element(self, x: Any, *_: Any) -> Transfers:
        """``Tensor._getitem_from_offset``, behind ``item``: a single element."""
        nbytes = None if math.prod(x.shape) == 1 else x.element_size()
        return self._sight.read(x, "Tensor.item", nbytes)

    def copy_to(self, x: Any, place: Any = None, *_: Any, **__: Any) -> Transfers:
        """``Tensor._copy_to``, the operation ``copy_to``, and ``DenseTensor._copy``."""
        name = "DenseTensor._copy" if isinstance(x, DenseTensor) else "Tensor._copy_to"
        return self._sight.move(x, self._sight.device_at(place), name)

    def to_host(self, x: Any, *_: Any) -> Transfers:
        """The operation ``memcpy_d2h``."""
        return self._sight.read(x, "memcpy_d2h")

    def tensor_copy(self, x: Any, _: Any = None, place: Any = None, *__: Any) -> Transfers:
        """``core.eager.tensor_copy``, behind ``_copy_to`` of a parameter."""
        return self._sight.move(x, self._sight.device_at(place), "Tensor._copy_to")

    def take(self, x: Any, source: Any = None, *_: Any) -> Transfers:
        """``Tensor.copy_`` and ``set_tensor``; a target without memory follows the source."""
        target = self._sight.device_of(x) if x._is_initialized() else None
        return self._sight.move(source, target, "Tensor.copy_")

    # -- new values --------------------------------------------------------------------------------

    def make(self, _: Any, *arguments: Any, **options: Any) -> Transfers:
        """``Tensor.__init__``, from an array or another tensor."""
        value = options.get("value", arguments[0] if arguments else None)
        place = options.get("place", arguments[1] if len(arguments) > 1 else None)
        if isinstance(value, np.ndarray):
            target = self._sight.device_at(place)
            return self._sight.fill(value.nbytes, value.shape, target, "paddle.Tensor")
        if isinstance(value, (Tensor, DenseTensor)) and place is not None:
            return self._sight.move(value, self._sight.device_at(place), "paddle.Tensor")
        return NOTHING

    def assign_value(
        self, output: Any, shape: Any, _: Any, __: Any, place: Any = None
    ) -> Transfers:
        """The operation ``assign_value_``, whose values are a list."""
        target = self._sight.device_at(place)
        nbytes = math.prod(shape) * output.element_size()
        return self._sight.fill(nbytes, shape, target, "paddle.assign")

    def dense_numpy(self, x: Any, *_: Any, **__: Any) -> Transfers:
        """``DenseTensor.__array__``, on the dense tensor behind a tensor."""
        return self._sight.read(x, "DenseTensor.__array__")

    def dense_take(self, _: Any, source: Any, place: Any, *__: Any) -> Transfers:
        """``DenseTensor._copy_from``."""
        return self._sight.move(source, self._sight.device_at(place), "DenseTensor._copy_from")

    def dense_get_element(self, x: Any, *_: Any) -> Transfers:
        """``DenseTensor._get_float_element`` and the like."""
        return self._sight.read(x, "DenseTensor._get_element", _element_bytes(x))

    def dense_set_element(self, x: Any, *_: Any) -> Transfers:
        """``DenseTensor._set_float_element`` and the like."""
        target = self._sight.device_of(x)
        return self._sight.fill(_element_bytes(x), (), target, "DenseTensor._set_element")

    def dense_set(self, _: Any, array: Any, place: Any, *__: Any) -> Transfers:
        """``DenseTensor.set``, behind ``Tensor.set_value``."""
        target = self._sight.device_at(place)
        if isinstance(array, DenseTensor):
            return self._sight.move(array, target, "DenseTensor.set")
        values = np.asarray(array) if isinstance(array, list) else array
        if not isinstance(values, np.ndarray):
            return NOTHING
        return self._sight.fill(values.nbytes, values.shape, target, "DenseTensor.set")


def _element_bytes(x: Any) -> int:
    return int(core.size_of_dtype(x._dtype()))
