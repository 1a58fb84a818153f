"""Faults that a tracer of Paddle's calls has: operands, numbers, places and names taken wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mutants.mutant import replace, replace_value
from mutants.paddle import paddle_mutant

if TYPE_CHECKING:
    from collections.abc import Callable

    from mutants.mutant import Breaks, Mutant


def _calls() -> Callable[[Breaks], Mutant]:
    return paddle_mutant("tracer.each_call_of_the_framework")


@_calls()
def counts_on_the_gpu_are_operands(backend: Any) -> None:
    """The number of inputs is not looked up: a tensor for a count seems to be computed with."""
    _change_operands(lambda inputs, stays: (None, stays))


@_calls()
def numbers_are_indices(backend: Any) -> None:
    """``x[n]`` with a tensor without axes is taken for a lookup on the GPU; Paddle reads ``n``."""
    from unidev_paddle.tracer import operations

    replace_value(operations, "_is_number", lambda index: False)


@_calls()
def numbers_in_lists_are_not_seen(backend: Any) -> None:
    """Tensors in a shape, ``[n, 2]``, or in a slice are overlooked, and so is their read."""
    from unidev_paddle.tracer import operations

    replace_value(operations, "tensors_in", lambda several: [])


@_calls()
def output_is_an_operand(backend: Any) -> None:
    """``paddle.add(x, x, out=y)`` seems to move ``x`` to where ``y`` is."""
    from unidev_paddle.tracer import operations

    sound = operations._operands

    @replace(operations)
    def _operands(arguments: Any, options: Any, inputs: Any, stays: Any) -> Any:
        operands = sound(arguments, options, inputs, stays)
        operands.add(options.get("out"))
        return operands


@_calls()
def every_tensor_of_a_list_decides(backend: Any) -> None:
    """``concat([x, y])`` seems to go to the GPU of ``y``; Paddle looks at ``x`` alone."""
    from unidev_paddle.tracer import transfers

    sound = transfers.Operands.add

    @replace(transfers.Operands)
    def add(self: Any, x: Any) -> None:
        sound(self, x)
        self.first = list(self.tensors)


@_calls()
def first_gpu_decides(backend: Any) -> None:
    """Of operands on two GPUs, the second seems to move: Paddle computes where the last is."""
    from unidev_paddle.tracer.transfers import Sight

    sound = Sight._target

    @replace(Sight)
    def _target(self: Any, operands: Any, places: Any) -> Any:
        return sound(self, operands, places[::-1])


@_calls()
def seeds_and_powers_of_beta_move(backend: Any) -> None:
    """All inputs seem to move to the GPU; kernels read powers of beta and seeds where they are."""
    _change_operands(lambda inputs, stays: (inputs, ()))


@_calls()
def arrays_are_no_operands(backend: Any) -> None:
    """``x + array`` seems to move nothing: only tensors are looked at."""
    import numpy as np

    from unidev_paddle.tracer import transfers

    sound = transfers.Operands.add

    @replace(transfers.Operands)
    def add(self: Any, x: Any) -> None:
        if not isinstance(x, np.ndarray):
            sound(self, x)


@_calls()
def no_place_is_the_cpu(backend: Any) -> None:
    """A call that names no place is thought to make a tensor on the CPU, not on the default."""
    from unidev_paddle.tracer.transfers import Sight

    sound = Sight.device_at

    @replace(Sight)
    def device_at(self: Any, place: Any) -> Any:
        return self._cpu if place is None else sound(self, place)


@_calls()
def sparse_tensors_have_no_indices(backend: Any) -> None:
    """The bytes of a sparse tensor that moves are those of its values alone."""
    from unidev_paddle.tracer import transfers

    sound = transfers.nbytes_of

    @replace(transfers)
    def nbytes_of(x: Any) -> int:
        is_sparse = not isinstance(x, transfers.DenseTensor) and not x.is_dense()
        return sound(x.values() if is_sparse else x)


@_calls()
def wrappers_are_named(backend: Any) -> None:
    """``paddle.zeros`` is reported as ``wrapped_func``, the decorator's function around it."""
    from unidev_paddle.tracer import names

    replace_value(names, "_DECORATORS", set())


def _change_operands(changed: Callable[[Any, Any], tuple[Any, Any]]) -> None:
    """Have operands found by another number of inputs, and others that stay where they are."""
    from unidev_paddle.tracer import operations

    sound = operations._operands

    @replace(operations)
    def _operands(arguments: Any, options: Any, inputs: Any, stays: Any) -> Any:
        return sound(arguments, options, *changed(inputs, stays))
