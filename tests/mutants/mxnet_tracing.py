"""Faults of MXNet's tracer: transfers that it misses, counts or names wrongly, or makes up.

Its reads by ``asnumpy`` are right, and only the calls that the probe names show the rest.
"""

from __future__ import annotations

from typing import Any

from mutants.mutant import in_place_of, replace, when_restored
from mutants.mxnet import mxnet_mutant

_CALLS = "tracer.each_call_of_the_framework"


@mxnet_mutant(_CALLS)
def items_are_called_asnumpy(backend: Any) -> None:
    """A read is called ``asnumpy``, by which ``item``, ``print`` and metrics read, too."""
    import sys

    from unidev_mxnet.tracer import names

    @in_place_of(names.outermost_call)
    def outermost_call() -> str:
        frame = sys._getframe(1)
        while frame.f_back is not None and not names._is_mxnets(frame):
            frame = frame.f_back
        return names._name(frame)


@mxnet_mutant(_CALLS)
def saved_lists_are_unseen(backend: Any) -> None:
    """``MXNDArraySave``, which is given all arrays at once, is not replaced."""
    from unidev_mxnet.tracer.readings import Readings

    replaced = Readings.by_name

    @replace(Readings)
    def by_name(self: Any) -> Any:
        return (each for each in replaced(self) if each[0] != "MXNDArraySave")


@mxnet_mutant(_CALLS)
def sparse_arrays_move_their_shape(backend: Any) -> None:
    """The bytes of a sparse array are counted as if it were dense."""
    from unidev_mxnet.tracer import arrays

    @in_place_of(arrays.size_at)
    def size_at(handle: Any) -> Any:
        array = arrays.Borrowed(handle)
        return array.shape, arrays._nbytes(array)


@mxnet_mutant(_CALLS)
def results_elsewhere_are_unseen(backend: Any) -> None:
    """Where the inputs of an operator are is compared, and not where its results are put."""
    from unidev_mxnet.tracer.operations import Operations

    crossings = Operations._crossings

    @replace(Operations)
    def _crossings(self: Any, operator: str, inputs: Any, given: Any) -> Any:
        return crossings(self, operator, inputs, [])


@mxnet_mutant(_CALLS)
def tensordot_is_unseen(backend: Any) -> None:
    """``tensordot`` is called by MXNet's newer interface, ``MXNetFuncCall``."""
    from unidev_mxnet.tracer.operations import Operations

    replaced = Operations.by_name

    @replace(Operations)
    def by_name(self: Any) -> Any:
        return (each for each in replaced(self) if each[0] != "MXNetFuncCall")


@mxnet_mutant(_CALLS)
def constants_once_used_have_gradients(backend: Any) -> None:
    """A constant is in autograd's graph once it was used, and is taken for a variable."""
    from unidev_mxnet.tracer import gradients

    @replace(gradients)
    def _has_gradient(handle: Any) -> bool:
        return gradients._symbol(handle) is not None


@mxnet_mutant(_CALLS)
def all_variables_are_asked_for(backend: Any) -> None:
    """``autograd.grad`` is taken for ``backward``: it goes back only for the variables given."""
    from unidev_mxnet.tracer import gradients

    @replace(gradients)
    def _depends(node: Any, operand: int, wanted: Any) -> bool:
        return True


@mxnet_mutant(_CALLS)
def retained_graphs_are_gone(backend: Any) -> None:
    """``retain_graph`` is overlooked: the second backward pass has nothing to go back over."""
    from unidev_mxnet.tracer import operations

    found = operations.gradients

    @replace(operations)
    def gradients(kept: Any, heads: Any, variables: Any) -> Any:
        passed = list(found(kept, heads, variables))
        for name, _ in passed:
            kept.pop(name, None)
        return passed


@mxnet_mutant(_CALLS)
def stores_never_return(backend: Any) -> None:
    """Whether a KVStore is running is set before each push, and reset after none."""
    from unidev_mxnet.tracer.patches import MxnetRecording

    @replace(MxnetRecording)
    def call_store(self: Any, function: Any, *arguments: Any) -> Any:
        self.is_in_store = True
        when_restored(lambda: setattr(self, "is_in_store", False))
        return function(*arguments)
