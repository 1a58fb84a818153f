"""Faults that a tracer of Paddle's calls has: operands, numbers, places and names taken wrongly."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mutants.mutant import around, replace_value
from mutants.paddle import paddle_mutant

if TYPE_CHECKING:
    from collections.abc import Callable


_calls = partial(paddle_mutant, "tracer.each_call_of_the_framework")


@_calls()
def counts_on_the_gpu_are_operands(backend):
    """The number of inputs is not looked up: a tensor for a count seems to be computed with."""
    _change_operands(lambda inputs, stays: (None, stays))


@_calls()
def numbers_are_indices(backend):
    """``x[n]`` with a tensor without axes is taken for a lookup on the GPU; Paddle reads ``n``."""
    from unidev_paddle.tracer import operations

    replace_value(operations, "_is_number", lambda index: False)


@_calls()
def numbers_in_lists_are_not_seen(backend):
    """Tensors in a shape, ``[n, 2]``, or in a slice are overlooked, and so is their read."""
    from unidev_paddle.tracer import operations

    replace_value(operations, "tensors_in", lambda several: [])


@_calls(around=".tracer.operations:_operands")
def output_is_an_operand(sound, arguments, options, inputs, stays):
    """``paddle.add(x, x, out=y)`` seems to move ``x`` to where ``y`` is."""
    operands = sound(arguments, options, inputs, stays)
    operands.add(options.get("out"))
    return operands


@_calls(around=".tracer.transfers:Operands.add")
def every_tensor_of_a_list_decides(sound, self, x):
    """``concat([x, y])`` seems to go to the GPU of ``y``; Paddle looks at ``x`` alone."""
    sound(self, x)
    self.first = list(self.tensors)


@_calls(around=".tracer.transfers:Sight._target")
def first_gpu_decides(sound, self, operands, places):
    """Of operands on two GPUs, the second seems to move: Paddle computes where the last is."""
    return sound(self, operands, places[::-1])


@_calls()
def seeds_and_powers_of_beta_move(backend):
    """All inputs seem to move to the GPU; kernels read powers of beta and seeds where they are."""
    _change_operands(lambda inputs, stays: (inputs, ()))


@_calls(around=".tracer.transfers:Operands.add")
def arrays_are_no_operands(sound, self, x):
    """``x + array`` seems to move nothing: only tensors are looked at."""
    if not isinstance(x, np.ndarray):
        sound(self, x)


@_calls(around=".tracer.transfers:Sight.device_at")
def no_place_is_the_cpu(sound, self, place):
    """A call that names no place is thought to make a tensor on the CPU, not on the default."""
    return self._cpu if place is None else sound(self, place)


@_calls(around=".tracer.transfers:nbytes_of")
def sparse_tensors_have_no_indices(sound, x):
    """The bytes of a sparse tensor that moves are those of its values alone."""
    from unidev_paddle.tracer import transfers

    is_sparse = not isinstance(x, transfers.DenseTensor) and not x.is_dense()
    return sound(x.values() if is_sparse else x)


@_calls()
def wrappers_are_named(backend):
    """``paddle.zeros`` is reported as ``wrapped_func``, the decorator's function around it."""
    from unidev_paddle.tracer import names

    replace_value(names, "_DECORATORS", set())


def _change_operands(changed: Callable[[Any, Any], tuple[Any, Any]]) -> None:
    """Have operands found by another number of inputs, and others that stay where they are."""
    from unidev_paddle.tracer import operations

    @around(operations)
    def _operands(sound: Any, arguments: Any, options: Any, inputs: Any, stays: Any) -> Any:
        return sound(arguments, options, *changed(inputs, stays))
