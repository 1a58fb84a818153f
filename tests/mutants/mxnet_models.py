"""Faults of an MXNet backend in what it does with Gluon's models, and over several devices.

A Gluon parameter is an array, its gradient, a record of contexts and a registration with autograd;
all of that belongs to a handle, or to none.
"""

from __future__ import annotations

from mutants.mutant import replace_value
from mutants.mxnet import mxnet_mutant


@mxnet_mutant("placing.earlier_optimizer_trains", profile="train")
def moved_parameters_are_no_variables(backend):
    """Without ``mark_variables`` the new memory is a constant: ``backward`` writes no gradient."""
    from mxnet import autograd

    replace_value(autograd, "mark_variables", lambda *_: None)


@mxnet_mutant(
    "placing.forward_to_the_bit", profile="train", everywhere=".models.swap:exchange_parameters"
)
def the_map_of_contexts_stays(exchange, a, b):
    """Gluon looks in ``_ctx_map`` for the array of a context, and finds the old one."""
    exchange(a, b)
    a._ctx_map, b._ctx_map = b._ctx_map, a._ctx_map


@mxnet_mutant("models.parameters_by_name", profile="train", everywhere=".models.tree:is_buffer")
def frozen_parameters_are_buffers(sound, parameter):
    """``grad_req`` is ``null`` for running statistics, and for what the user has frozen."""
    return bool(parameter.grad_req == "null")


@mxnet_mutant("placing.unbuilt", profile="train", everywhere=".models.swap:exchange_parameters")
def deferred_parameters_keep_their_context(exchange, a, b):
    """What has no memory yet has nothing to move, and is made on the old context at first use."""
    if a._data is not None:
        exchange(a, b)


@mxnet_mutant("checkpoints.any_dtype_and_size", profile="train", around=".models:MxnetModels.write")
def checkpoints_of_int64_are_written_as_float32(exact, self, x, values):
    """``mx.nd.array(values)`` is float32, which does not hold each integer beyond 2**24."""
    import mxnet as mx

    if x.dtype == "int64":
        values = mx.nd.array(values).asnumpy().astype(x.dtype)
    exact(self, x, values)


@mxnet_mutant(
    "model_gradients.of_the_framework_stay", profile="train", everywhere=".autograd:_gradients"
)
def gradients_are_taken_by_backward(exact, loss, leaves):
    """``backward`` writes to the buffers that the model keeps, which a Trainer would use next."""
    found = exact(loss, leaves)
    for x, slope in zip(leaves, found, strict=True):
        if slope is not None and x.grad is not None:
            slope.copyto(x.grad)
    return found


@mxnet_mutant("layers.dropout", profile="train")
def dropout_follows_autograds_mode(backend):
    """Gluon's own drops where autograd trains, whatever mode its layer is in."""
    from mxnet.gluon import nn

    from unidev_mxnet.nn.layers import Dropout

    replace_value(Dropout, "hybrid_forward", nn.Dropout.hybrid_forward)


# -- several devices -------------------------------------------------------------------------------


@mxnet_mutant(
    "placing.optimizer_state_moves", profile="train", everywhere=".models.optimizers:state_arrays"
)
def moments_in_tuples_stay(sound, trainer):
    """Momentum is an array for each parameter, and moves; Adam's two are in a tuple."""
    import mxnet as mx

    held = [x for each in trainer._updaters for x in each.states.values()]
    return [x for x in held if isinstance(x, mx.nd.NDArray)]


@mxnet_mutant("layers.gradients", profile="train", around=".nn.layers:Dropout.hybrid_forward")
def dropout_follows_autograd(sound, self, F, x):
    """Gluon's own: while autograd records, it drops, also in inference mode."""
    from mxnet.gluon import nn

    return sound(self, F, x) if self._trains else nn.Dropout.hybrid_forward(self, F, x)


@mxnet_mutant("spreading.outputs", profile="multi", around=".nn.layers:MxnetLayers.before")
def a_copy_follows_the_original(sound, self, layer, function):
    """What is called before a layer knows that one, and not the copy that is called."""
    sound(self, layer, lambda _, x: function(layer, x))
