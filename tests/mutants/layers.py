"""Layers and functions that compute something else, or elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

import unidev
from mutants.mutant import in_place_of, mutant, replace_value, torch_mutant
from unidev.backends.numpy_backend.nn import NumpyFunctions
from unidev.backends.numpy_backend.nn.layers import NumpyLayers
from unidev.backends.selection import active_backend
from unidev.parallel.exchange import accuracy


@mutant("layers.same_seed_same_weights", profile="train", around=".nn.layers:NumpyLayers.dense")
def weights_by_the_frameworks_generator(make, self, weight, bias):
    """The framework draws the weights, so that they are other ones on each."""
    drawn = np.random.Generator(np.random.Philox(5)).random(weight.shape, "float32")
    return make(self, drawn, bias)


@mutant("layers.dense", "layers.conv2d", profile="train")
def biases_are_forgotten(backend):
    """Which nobody sees as long as they are zeros."""

    for name in ("linear", "conv2d"):
        exact = getattr(NumpyFunctions, name)
        replace_value(NumpyFunctions, name, _without_bias(exact))


def _without_bias(exact: Any) -> Any:
    return staticmethod(lambda x, weight, _, *more: exact(x, weight, None, *more))


@mutant("layers.dense", "layers.sequential", profile="train", around=".nn.layers:Layer.__call__")
def results_come_on_the_cpu(call, self, x):
    """What a layer computes is where new tensors are: TF's outside of a scope."""
    return unidev.as_in_device(call(self, x), "cpu") if hasattr(self, "weight") else call(self, x)


@mutant("layers.conv2d", profile="train", around=".nn.layers:NumpyLayers.conv2d")
def height_and_width_exchanged(make, self, weight, bias, stride, padding):
    """Strides are ``(x, y)`` in one framework, and ``(y, x)`` in another."""
    return make(self, weight, bias, stride[::-1], padding)


@mutant("layers.pools", profile="train", around=".nn.layers:NumpyLayers.max_pool2d")
def every_pool_takes_means(sound, self, kernel_size, stride):
    """One kind of pool in place of the other."""
    return self.avg_pool2d(kernel_size, stride)


@mutant(
    "layers.flatten_and_activations",
    "layers.sequential",
    profile="train",
    around=".nn:NumpyFunctions.flatten",
)
def flatten_goes_by_pixels(forward, self, x):
    """Channels last, as Keras computes: the next layer's weights are in another order."""
    return forward(np.moveaxis(x, 1, -1) if x.ndim == 4 else x)


@mutant("layers.batch_norm", profile="train", around=".nn.layers:NumpyLayers.batch_norm")
def momentum_the_other_way_round(make, self, features, momentum, epsilon):
    """``running = (1 - momentum) * running + momentum * new``, as torch has it."""
    return make(self, features, 1 - momentum, epsilon)


@mutant("layers.batch_norm", "layers.dropout", profile="train")
def modes_are_ignored(backend):
    """Whoever says "inference" is not heard, in a layer or in a net."""

    replace_value(NumpyLayers, "set_mode", lambda self, model, is_training: None)


@mutant("layers.dropout", profile="train", around=".nn.layers:NumpyLayers.dropped")
def dropout_is_not_scaled(dropped, self, x, rate):
    """What is left is not scaled up, so that inference sees larger sums than training."""
    return dropped(self, x, rate) * type(x.flat[0])(1 - rate)


@mutant("layers.sequential", profile="train", around=".nn.layers:NumpyLayers.sequential")
def sequential_copies_its_layers(make, self, layers):
    """The net has layers of its own: what holds a layer holds no part of the net."""
    import copy

    return make(self, [copy.deepcopy(each) for each in layers])


@torch_mutant("layers.gradients", around=".autograd:TorchAutograd.gradients")
def biases_are_constants(exact, self, loss_of, leaves):
    """A parameter that was made too early is not trained."""
    loss, slopes = exact(self, loss_of, leaves)
    return loss, [None if x.dim() == 1 else s for x, s in zip(leaves, slopes, strict=True)]


@mutant("functional.values", profile="train", around=".nn:NumpyFunctions.mean_squared_error")
def the_loss_is_a_sum(mean, self, predictions, targets):
    """The sum over the batch in place of the mean: Gluon's losses, before ``step(batch_size)``."""
    loss = mean(predictions, targets)
    loss *= len(targets)
    return loss


@mutant(
    "functional.labels_of_any_integer",
    profile="train",
    around=".nn:NumpyFunctions.softmax_cross_entropy",
)
def labels_count_in_their_own_dtype(mean, self, logits, labels):
    """Labels are clipped to the classes in their own dtype: MXNet's ``pick`` of int8."""
    import numpy as np

    last = np.array(logits.shape[1] - 1).astype(labels.dtype)
    return mean(logits, np.minimum(labels, last) % logits.shape[1])


@mutant("functional.mixed_devices", profile="train", everywhere="unidev.nn.functional:_call")
def operands_are_brought_along(call, name, tensors, *options):
    """What is on another device is copied, every time, and nobody knows: TF's eager mode."""
    device = unidev.device_of(next(iter(tensors.values())))
    moved = {key: x if x is None else unidev.as_in_device(x, device) for key, x in tensors.items()}
    return call(name, moved, *options)


@mutant(
    "functional.shapes_that_do_not_fit",
    profile="train",
    everywhere="unidev.nn.functional:mean_squared_error",
)
def losses_broadcast(sound, predictions, targets):
    """(n, 1) less (n,) is (n, n), and the mean of that a number as good as any other."""
    return active_backend().functions.mean_squared_error(predictions, targets)


@torch_mutant("functional.gradients", around=".nn:TorchFunctions.tanh")
def tanh_lets_every_slope_through(sound, self, x):
    """A function of one's own whose backward was forgotten."""
    import torch

    return x + (torch.tanh(x) - x).detach()


@mutant("layers.dropout", profile="train")
def accuracy_is_a_mean_of_means(backend):
    """Each batch counts alike, also the last, which has fewer rows."""
    evaluate = accuracy.evaluate_accuracy

    @in_place_of(evaluate)
    def evaluate_accuracy(model, batches, /):
        return float(np.mean([evaluate(model, [each]) for each in batches]))
