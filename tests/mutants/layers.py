"""Layers and functions that compute something else, or elsewhere."""

from __future__ import annotations

from typing import Any

from mutants.mutant import (
    in_place_of,
    mutant,
    replace,
    replace_value,
    torch_mutant,
)


@mutant("layers.same_seed_same_weights", profile="train")
def weights_by_the_frameworks_generator(backend: Any) -> None:
    """The framework draws the weights, so that they are other ones on each."""
    import numpy as np

    from unidev.numpy_backend.nn.layers import NumpyLayers

    make = NumpyLayers.dense

    @replace(NumpyLayers)
    def dense(self: Any, weight: Any, bias: Any) -> Any:
        drawn = np.random.Generator(np.random.Philox(5)).random(weight.shape, "float32")
        return make(self, drawn, bias)


@mutant("layers.dense", "layers.conv2d", profile="train")
def biases_are_forgotten(backend: Any) -> None:
    """Which nobody sees as long as they are zeros."""
    from unidev.numpy_backend.nn import layers as numpy_layers

    for name in ("Dense", "Conv2d"):
        _forget_bias(getattr(numpy_layers, name))


def _forget_bias(cls: Any) -> None:
    forward = cls._forward

    @replace(cls)
    def _forward(self: Any, x: Any) -> Any:
        own = self.parameters
        self.parameters = {name: value for name, value in own.items() if name != "bias"}
        try:
            return forward(self, x)
        finally:
            self.parameters = own


@mutant("layers.dense", "layers.sequential", profile="train")
def results_come_on_the_cpu(backend: Any) -> None:
    """What a layer computes is where new tensors are: TF's outside of a scope."""
    import unidev
    from unidev.numpy_backend.nn.layers import Layer

    call = Layer.__call__

    @replace(Layer)
    def __call__(self: Any, x: Any) -> Any:
        return unidev.as_in_device(call(self, x), "cpu") if self.parameters else call(self, x)


@mutant("layers.conv2d", profile="train")
def height_and_width_exchanged(backend: Any) -> None:
    """Strides are ``(x, y)`` in one framework, and ``(y, x)`` in another."""
    from unidev.numpy_backend.nn.layers import NumpyLayers

    make = NumpyLayers.conv2d

    @replace(NumpyLayers)
    def conv2d(self: Any, weight: Any, bias: Any, stride: Any, padding: Any) -> Any:
        return make(self, weight, bias, stride[::-1], padding)


@mutant("layers.pools", profile="train")
def every_pool_takes_means(backend: Any) -> None:
    """One kind of pool in place of the other."""
    from unidev.numpy_backend.nn.layers import NumpyLayers

    @replace(NumpyLayers)
    def max_pool2d(self: Any, kernel_size: Any, stride: Any) -> Any:
        return self.avg_pool2d(kernel_size, stride)


@mutant("layers.flatten_and_activations", "layers.sequential", profile="train")
def flatten_goes_by_pixels(backend: Any) -> None:
    """Channels last, as Keras computes: the next layer's weights are in another order."""
    import numpy as np

    from unidev.numpy_backend.nn.layers import Flatten

    forward = Flatten._forward

    @replace(Flatten)
    def _forward(self: Any, x: Any) -> Any:
        return forward(self, np.moveaxis(x, 1, -1) if x.ndim == 4 else x)


@mutant("layers.batch_norm", profile="train")
def momentum_the_other_way_round(backend: Any) -> None:
    """``running = (1 - momentum) * running + momentum * new``, as torch has it."""
    from unidev.numpy_backend.nn.layers import NumpyLayers

    make = NumpyLayers.batch_norm

    @replace(NumpyLayers)
    def batch_norm(self: Any, features: int, momentum: float, epsilon: float) -> Any:
        return make(features, 1 - momentum, epsilon)


@mutant("layers.batch_norm", "layers.dropout", profile="train")
def modes_are_ignored(backend: Any) -> None:
    """Whoever says "inference" is not heard, in a layer or in a net."""
    from unidev.numpy_backend.nn.layers import NumpyLayers

    replace_value(NumpyLayers, "set_mode", lambda self, model, is_training: None)


@mutant("layers.dropout", profile="train")
def dropout_is_not_scaled(backend: Any) -> None:
    """What is left is not scaled up, so that inference sees larger sums than training."""
    from unidev.numpy_backend.nn.layers import Dropout

    forward = Dropout._forward

    @replace(Dropout)
    def _forward(self: Any, x: Any) -> Any:
        y = forward(self, x)
        return y * type(x.flat[0])(1 - self.rate) if self.is_training else y


@mutant("layers.sequential", profile="train")
def sequential_copies_its_layers(backend: Any) -> None:
    """The net has layers of its own: what holds a layer holds no part of the net."""
    import copy

    from unidev.numpy_backend.nn.layers import NumpyLayers

    make = NumpyLayers.sequential

    @replace(NumpyLayers)
    def sequential(self: Any, layers: Any) -> Any:
        return make([copy.deepcopy(each) for each in layers])


@torch_mutant("layers.gradients")
def biases_are_constants(backend: Any) -> None:
    """A parameter that was made too early is not trained."""
    from unidev_torch.autograd import TorchAutograd

    exact = TorchAutograd.gradients

    @replace(TorchAutograd)
    def gradients(self: Any, loss_of: Any, leaves: Any) -> Any:
        loss, slopes = exact(self, loss_of, leaves)
        return loss, [None if x.dim() == 1 else s for x, s in zip(leaves, slopes, strict=True)]


@mutant("functional.values", profile="train")
def the_loss_is_a_sum(backend: Any) -> None:
    """The sum over the batch in place of the mean: Gluon's losses, before ``step(batch_size)``."""
    from unidev.numpy_backend.nn import NumpyFunctions

    mean = NumpyFunctions.mean_squared_error

    @replace(NumpyFunctions)
    def mean_squared_error(self: Any, predictions: Any, targets: Any) -> Any:
        loss = mean(predictions, targets)
        loss *= len(targets)
        return loss


@mutant("functional.labels_of_any_integer", profile="train")
def labels_count_in_their_own_dtype(backend: Any) -> None:
    """Labels are clipped to the classes in their own dtype: MXNet's ``pick`` of int8."""
    from unidev.numpy_backend.nn import NumpyFunctions

    mean = NumpyFunctions.softmax_cross_entropy

    @replace(NumpyFunctions)
    def softmax_cross_entropy(self: Any, logits: Any, labels: Any) -> Any:
        import numpy as np

        last = np.array(logits.shape[1] - 1).astype(labels.dtype)
        return mean(logits, np.minimum(labels, last) % logits.shape[1])


@mutant("functional.labels_of_any_integer", profile="train")
def labels_are_of_one_dtype(backend: Any) -> None:
    """Labels must be int64: PyTorch's ``cross_entropy``."""
    import numpy as np

    from unidev.numpy_backend.nn import NumpyFunctions

    mean = NumpyFunctions.softmax_cross_entropy

    @replace(NumpyFunctions)
    def softmax_cross_entropy(self: Any, logits: Any, labels: Any) -> Any:
        if labels.dtype != np.int64:
            raise TypeError(f"expected labels of int64, not {labels.dtype}")
        return mean(logits, labels)


@mutant("functional.mixed_devices", profile="train")
def operands_are_brought_along(backend: Any) -> None:
    """What is on another device is copied, every time, and nobody knows: TF's eager mode."""
    import unidev
    from unidev.nn import functional

    call = functional._call

    @in_place_of(call)
    def bring(name: str, tensors: Any, *options: Any) -> Any:
        device = unidev.device_of(next(iter(tensors.values())))
        moved = {
            key: x if x is None else unidev.as_in_device(x, device) for key, x in tensors.items()
        }
        return call(name, moved, *options)


@mutant("functional.shapes_that_do_not_fit", profile="train")
def losses_broadcast(backend: Any) -> None:
    """(n, 1) less (n,) is (n, n), and the mean of that a number as good as any other."""
    from unidev.nn import functional
    from unidev.registry.selection import active_backend

    @in_place_of(functional.mean_squared_error)
    def mean_squared_error(predictions: Any, targets: Any) -> Any:
        return active_backend().functions.mean_squared_error(predictions, targets)


@torch_mutant("functional.gradients")
def tanh_lets_every_slope_through(backend: Any) -> None:
    """A function of one's own whose backward was forgotten."""
    import torch

    from unidev_torch.nn import TorchFunctions

    @replace(TorchFunctions)
    def tanh(self: Any, x: Any) -> Any:
        return x + (torch.tanh(x) - x).detach()
