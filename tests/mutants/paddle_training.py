"""Models, gradients and reductions that a backend for Paddle gets wrong in Paddle's own way."""

from __future__ import annotations

from functools import partial

import numpy as np

from mutants.mutant import replace, replace_value
from mutants.paddle import paddle_mutant
from unidev.contract.models import Models

_train = partial(paddle_mutant, profile="train")


@_train("gradients.land_on_the_sources_device")
def gradients_stay_where_the_copy_is(backend):
    """The backward of a move returns what it is given: Paddle does not compare places."""
    from unidev_paddle.copying import Move

    @replace(Move)
    @staticmethod
    def backward(ctx, gradient):
        return gradient * 1


@_train("value_and_grad.loss_is_detached", around=".autograd:PaddleAutograd.leaf")
def leaves_are_made_of_the_users_tensors(sound, self, x):
    """``x.stop_gradient = False`` on the tensor that was given, and not on a detached one."""
    x.stop_gradient = False
    return x


@_train("value_and_grad.sgd_is_exact", around=".autograd:PaddleAutograd.descend")
def a_step_in_place_takes_other_memory(sound, self, parameters, gradients, lr):
    """``subtract_`` falls back to the CPU on a plug-in device, and its result is new memory."""
    from unidev_paddle.framework import paddle

    with paddle.no_grad():
        for x, gradient in zip(parameters, gradients, strict=True):
            paddle._C_ops.subtract_(x, paddle._C_ops.scale(gradient, lr, 0.0, True))
    return parameters


@_train("checkpoints.portable_names_and_layouts", around=".models:_portable_name")
def statistics_keep_paddles_names(sound, entry):
    """They are stored as ``_mean`` and ``_variance``."""
    return str(entry.name)


@_train("checkpoints.round_trip", around=".models:PaddleModels.write")
def loaded_values_go_to_the_current_place(sound, self, x, values):
    """``set_value`` allocates on Paddle's default device, whatever the parameter's is."""
    x.set_value(values)


@_train("placing.everything_arrives", around=".models:gradient_of")
def gradients_are_moved_by_their_public_name(sound, x):
    """``x.grad`` is another tensor each time: what is given to it is not given to ``x``."""
    return None if x.grad is None else x.grad.clone()


@_train("failures.failure_while_swapping", around=".models:swap")
def memory_is_shared_and_not_exchanged(sound, part, twin, is_there):
    """``_share_data_with`` once, as in ``Layer.to``: the memory that was there is forgotten."""
    from unidev_paddle.models.swap import _dense

    _dense(part.tensor)._share_data_with(twin.there)


# -- several devices -------------------------------------------------------------------------------


_multi = partial(paddle_mutant, profile="multi")


@_multi("replicating.dtypes", around=".collectives:PaddleCollectives.pack")
def bits_of_bfloat16_travel_as_numbers(sound, self, tensors):
    """``numpy()`` shows the bits of bfloat16 as uint16: 16256 arrives in place of 1."""
    from unidev_paddle.framework import paddle

    if tensors[0].dtype != paddle.bfloat16:
        return sound(self, tensors)
    flat = np.concatenate([x.numpy().reshape(-1) for x in tensors]).astype(np.float32)
    return paddle.to_tensor(flat, place=tensors[0].place).cast(paddle.bfloat16)


@_multi("spreading.outputs", around=".nn.layers:PaddleLayers.before")
def a_hook_hands_on_a_list(sound, self, layer, function):
    """What a forward pre-hook returns is the arguments if it is a tuple, else one argument."""
    layer.register_forward_pre_hook(lambda _, inputs: [function(x) for x in inputs])


@_multi("data_parallel.statistics")
def statistics_go_by_torchs_names(backend):
    """Those whose names end in ``running_mean``: Paddle's end in ``_mean``, so there are none."""
    from unidev_paddle.models import PaddleModels

    replace_value(PaddleModels, "statistics", Models.statistics)
