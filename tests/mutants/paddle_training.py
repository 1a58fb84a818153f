"""Models, gradients and reductions that a backend for Paddle gets wrong in Paddle's own way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mutants.mutant import replace, replace_value
from mutants.paddle import paddle_mutant

if TYPE_CHECKING:
    from collections.abc import Callable

    from mutants.mutant import Breaks, Mutant


def _train(*caught_by: str) -> Callable[[Breaks], Mutant]:
    return paddle_mutant(*caught_by, profile="train")


@_train("gradients.second_order")
def gradients_move_back_without_a_record(backend: Any) -> None:
    """The backward of a move copies by the same call as its forward, which no tape sees."""
    from unidev_paddle.copying import Move, move_cut

    @replace(Move)
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return move_cut(gradient, ctx.source)


@_train("gradients.land_on_the_sources_device")
def gradients_stay_where_the_copy_is(backend: Any) -> None:
    """The backward of a move returns what it is given: Paddle does not compare places."""
    from unidev_paddle.copying import Move

    @replace(Move)
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 1


@_train("value_and_grad.loss_is_detached")
def leaves_are_made_of_the_users_tensors(backend: Any) -> None:
    """``x.stop_gradient = False`` on the tensor that was given, and not on a detached one."""
    from unidev_paddle.autograd import PaddleAutograd

    @replace(PaddleAutograd)
    def leaf(self: Any, x: Any) -> Any:
        x.stop_gradient = False
        return x


@_train("value_and_grad.leaves_the_models_gradients")
def gradients_by_backward_are_cleared(backend: Any) -> None:
    """``backward``, and then ``clear_gradient``, which leaves zeros and not what was there."""
    from unidev_paddle.autograd import PaddleAutograd
    from unidev_paddle.framework import paddle

    @replace(PaddleAutograd)
    def gradients(self: Any, loss_of: Any, leaves: Any) -> Any:
        for x in leaves:
            x.clear_gradient()
        with paddle.enable_grad():
            loss = loss_of()
        if not loss.stop_gradient:
            loss.backward()
        found = [None if x.grad is None else x.grad.clone() for x in leaves]
        for x in leaves:
            x.clear_gradient()
        return loss.detach().clone(), found


@_train("value_and_grad.sgd_is_exact")
def a_step_in_place_takes_other_memory(backend: Any) -> None:
    """``subtract_`` falls back to the CPU on a plug-in device, and its result is new memory."""
    from unidev_paddle.autograd import PaddleAutograd
    from unidev_paddle.framework import paddle

    @replace(PaddleAutograd)
    def descend(self: Any, parameters: Any, gradients: Any, lr: float) -> Any:
        with paddle.no_grad():
            for x, gradient in zip(parameters, gradients, strict=True):
                paddle._C_ops.subtract_(x, paddle._C_ops.scale(gradient, lr, 0.0, True))
        return parameters


@_train("value_and_grad.sgd_refuses_what_does_not_fit")
def memory_anywhere_is_memory_on_the_cpu(backend: Any) -> None:
    """What is dense and has memory passes for a tensor of the CPU, where nothing is compared."""

    @replace(backend)
    def have_memory(self: Any, xs: Any) -> bool:
        return all(x.is_dense() and x._is_initialized() for x in xs)


@_train("models.parameters_by_name")
def statistics_are_parameters(backend: Any) -> None:
    """``named_parameters`` has running means and variances, which are frozen Parameters."""
    from unidev_paddle import models

    @replace(models)
    def named_parameters(model: Any) -> Any:
        return dict(model.named_parameters())


@_train("checkpoints.portable_names_and_layouts")
def statistics_keep_paddles_names(backend: Any) -> None:
    """They are stored as ``_mean`` and ``_variance``."""
    from unidev_paddle import models

    @replace(models)
    def _portable_name(entry: Any) -> str:
        return str(entry.name)


@_train("checkpoints.portable_names_and_layouts", "checkpoints.of_another_framework")
def weights_are_stored_as_paddle_has_them(backend: Any) -> None:
    """Inputs first, which other frameworks refuse, or take for something else if it is square."""
    from unidev_paddle import models

    @replace(models)
    def _axes(entry: Any) -> None: ...


@_train("checkpoints.round_trip")
def loaded_values_go_to_the_current_place(backend: Any) -> None:
    """``set_value`` allocates on Paddle's default device, whatever the parameter's is."""
    from unidev_paddle.models import PaddleModels

    @replace(PaddleModels)
    def write(self: Any, x: Any, values: Any) -> None:
        x.set_value(values)


@_train("placing.everything_arrives")
def gradients_are_moved_by_their_public_name(backend: Any) -> None:
    """``x.grad`` is another tensor each time: what is given to it is not given to ``x``."""
    from unidev_paddle import models

    @replace(models)
    def gradient_of(x: Any) -> Any:
        return None if x.grad is None else x.grad.clone()


@_train("failures.failure_while_swapping")
def memory_is_shared_and_not_exchanged(backend: Any) -> None:
    """``_share_data_with`` once, as in ``Layer.to``: the memory that was there is forgotten."""
    from unidev_paddle import models
    from unidev_paddle.models.swap import _dense

    @replace(models)
    def swap(part: Any, twin: Any, is_there: bool) -> None:
        _dense(part.tensor)._share_data_with(twin.there)


@_train("layers.batch_norm")
def momentum_is_that_of_torch(backend: Any) -> None:
    """The weight of the new value, where Paddle's is that of the old one."""
    from unidev_paddle.nn.layers import PaddleLayers

    sound = PaddleLayers.batch_norm

    @replace(PaddleLayers)
    def batch_norm(self: Any, features: int, momentum: float, epsilon: float) -> Any:
        return sound(self, features, 1 - momentum, epsilon)


@_train("layers.dropout")
def dropout_scales_in_inference(backend: Any) -> None:
    """``mode="downscale_in_infer"``, the first of Paddle's two ways to drop out."""
    from functools import partial

    from unidev_paddle.framework import paddle
    from unidev_paddle.nn.layers import PaddleLayers

    dropout = staticmethod(partial(paddle.nn.Dropout, mode="downscale_in_infer"))
    replace_value(PaddleLayers, "dropout", dropout)


# -- several devices -------------------------------------------------------------------------------


def _multi(*caught_by: str) -> Callable[[Breaks], Mutant]:
    return paddle_mutant(*caught_by, profile="multi")


@_multi("replicating.dtypes")
def bits_of_bfloat16_travel_as_numbers(backend: Any) -> None:
    """``numpy()`` shows the bits of bfloat16 as uint16: 16256 arrives in place of 1."""
    import numpy as np

    from unidev_paddle.collectives import PaddleCollectives
    from unidev_paddle.framework import paddle

    sound = PaddleCollectives.pack

    @replace(PaddleCollectives)
    def pack(self: Any, tensors: Any) -> Any:
        if tensors[0].dtype != paddle.bfloat16:
            return sound(self, tensors)
        flat = np.concatenate([x.numpy().reshape(-1) for x in tensors]).astype(np.float32)
        return paddle.to_tensor(flat, place=tensors[0].place).cast(paddle.bfloat16)


@_multi("spreading.outputs")
def a_hook_hands_on_a_list(backend: Any) -> None:
    """What a forward pre-hook returns is the arguments if it is a tuple, else one argument."""
    from unidev_paddle.nn.layers import PaddleLayers

    @replace(PaddleLayers)
    def before(self: Any, layer: Any, function: Any) -> None:
        layer.register_forward_pre_hook(lambda _, inputs: [function(x) for x in inputs])


@_multi("data_parallel.statistics")
def statistics_go_by_torchs_names(backend: Any) -> None:
    """Those whose names end in ``running_mean``: Paddle's end in ``_mean``, so there are none."""
    from unidev.contract.models import Models
    from unidev_paddle.models import PaddleModels

    replace_value(PaddleModels, "statistics", Models.statistics)
