"""Faults of MXNet's tracer: transfers that it misses, counts or names wrongly, or makes up.

Its reads by ``asnumpy`` are right, and only the calls that the probe names show the rest.
"""

from __future__ import annotations

from mutants.mutant import when_restored
from mutants.mxnet import mxnet_mutant

_CALLS = "tracer.each_call_of_the_framework"


@mxnet_mutant(_CALLS, everywhere=".tracer.names:outermost_call")
def items_are_called_asnumpy(sound):
    """A read is called ``asnumpy``, by which ``item``, ``print`` and metrics read, too."""
    import sys

    from unidev_mxnet.tracer import names

    frame = sys._getframe(1)
    while frame.f_back is not None and not names._is_mxnets(frame):
        frame = frame.f_back
    return names._name(frame)


@mxnet_mutant(_CALLS, around=".tracer.readings:Readings.by_name")
def saved_lists_are_unseen(replaced, self):
    """``MXNDArraySave``, which is given all arrays at once, is not replaced."""
    return (each for each in replaced(self) if each[0] != "MXNDArraySave")


@mxnet_mutant(_CALLS, everywhere=".tracer.arrays:size_at")
def sparse_arrays_move_their_shape(sound, handle):
    """The bytes of a sparse array are counted as if it were dense."""
    from unidev_mxnet.tracer import arrays

    array = arrays.Borrowed(handle)
    return array.shape, arrays._nbytes(array)


@mxnet_mutant(_CALLS, around=".tracer.operations:Operations._crossings")
def results_elsewhere_are_unseen(crossings, self, operator, inputs, given):
    """Where the inputs of an operator are is compared, and not where its results are put."""
    return crossings(self, operator, inputs, [])


@mxnet_mutant(_CALLS, around=".tracer.operations:Operations.by_name")
def tensordot_is_unseen(replaced, self):
    """``tensordot`` is called by MXNet's newer interface, ``MXNetFuncCall``."""
    return (each for each in replaced(self) if each[0] != "MXNetFuncCall")


@mxnet_mutant(_CALLS, around=".tracer.gradients:_has_gradient")
def constants_once_used_have_gradients(sound, handle):
    """A constant is in autograd's graph once it was used, and is taken for a variable."""
    from unidev_mxnet.tracer import gradients

    return gradients._symbol(handle) is not None


@mxnet_mutant(_CALLS, around=".tracer.gradients:_depends")
def all_variables_are_asked_for(sound, node, operand, wanted):
    """``autograd.grad`` is taken for ``backward``: it goes back only for the variables given."""
    return True


@mxnet_mutant(_CALLS, around=".tracer.operations:gradients")
def retained_graphs_are_gone(found, kept, heads, variables):
    """``retain_graph`` is overlooked: the second backward pass has nothing to go back over."""
    passed = list(found(kept, heads, variables))
    for name, _ in passed:
        kept.pop(name, None)
    return passed


@mxnet_mutant(_CALLS, around=".tracer.recording:MxnetRecording.call_store")
def stores_never_return(sound, self, function, *arguments):
    """Whether a KVStore is running is set before each push, and reset after none."""
    self.is_in_store = True
    when_restored(lambda: setattr(self, "is_in_store", False))
    return function(*arguments)
