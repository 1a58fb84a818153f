"""Layers that build the same model with every framework, from the framework's own layers.

    net = unidev.nn.sequential(unidev.nn.dense(4, 8), unidev.nn.relu(), unidev.nn.dense(8, 2))

Small on purpose: just enough for examples. Images are ``(batch, channels, height, width)`` with
every framework. Weights are drawn by unidev's generator: after the same ``unidev.seed`` they are
equal, in float32, with every framework. Layers belong to the selected backend and are made on the
device of the innermost ``with device:``, or on ``cpu:0``. ``functional`` has the functions for
writing a net by hand. Backends without layers raise ``UnsupportedOperation``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.backends.boundary import call, errors_of
from unidev.backends.scopes import innermost_device
from unidev.backends.selection import active_backend
from unidev.errors import BackendMismatchError, NotAModelError
from unidev.models.placing import backend_of_model, place_on
from unidev.nn import functional as functional
from unidev.system.arguments import flag, fraction, pair, size
from unidev.tensors.generator import draw
from unidev.tensors.kinds import model_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from unidev.contract.layers import Layers
    from unidev.system.arguments import Pair

    Array = np.ndarray[Any, Any]
    Model = Any

__all__ = [
    "avg_pool2d", "batch_norm", "conv2d", "dense", "dropout", "eval_mode", "flatten", "functional",
    "max_pool2d", "relu", "residual", "sequential", "tanh", "train_mode",
]  # fmt: skip


def dense(inputs: int, outputs: int, *, bias: bool = True) -> Model:
    """A layer ``x @ weight.T + bias``: ``(batch, inputs)`` to ``(batch, outputs)``.

    Weights are drawn from Glorot's uniform distribution; biases are zero.

    Raises:
        InvalidDataError: a size is not a positive integer.
        UnsupportedOperation: the backend has no layers.
    """
    inputs, outputs = size("inputs", inputs), size("outputs", outputs)
    weight = _glorot((outputs, inputs), inputs, outputs)
    offset = _zeros(outputs) if flag("bias", bias) else None
    return _made(lambda layers: layers.dense(weight, offset))


def conv2d(  # noqa: PLR0913  the usual arguments of a convolution
    in_channels: int,
    out_channels: int,
    kernel_size: Pair,
    *,
    stride: Pair = 1,
    padding: Pair = 0,
    bias: bool = True,
) -> Model:
    """A convolution: ``(batch, in_channels, height, width)`` to ``(batch, out_channels, …)``.

    Weights are drawn from Glorot's uniform distribution; biases are zero. ``kernel_size``,
    ``stride`` and ``padding`` (zeros on each side) are integers, or pairs ``(height, width)``.

    Raises:
        InvalidDataError: a size is not valid.
        UnsupportedOperation: the backend has no layers.
    """
    in_channels = size("in_channels", in_channels)
    out_channels = size("out_channels", out_channels)
    height, width = pair("kernel_size", kernel_size)
    steps, edge = pair("stride", stride), pair("padding", padding, least=0)
    weight = _glorot(
        (out_channels, in_channels, height, width),
        in_channels * height * width,
        out_channels * height * width,
    )
    offset = _zeros(out_channels) if flag("bias", bias) else None
    return _made(lambda layers: layers.conv2d(weight, offset, steps, edge))


def avg_pool2d(kernel_size: Pair, *, stride: Pair | None = None) -> Model:
    """Average pooling over windows of ``kernel_size``; ``stride`` defaults to ``kernel_size``."""
    window, steps = _window(kernel_size, stride)
    return _made(lambda layers: layers.avg_pool2d(window, steps))


def max_pool2d(kernel_size: Pair, *, stride: Pair | None = None) -> Model:
    """Max pooling over windows of ``kernel_size``; ``stride`` defaults to ``kernel_size``."""
    window, steps = _window(kernel_size, stride)
    return _made(lambda layers: layers.max_pool2d(window, steps))


def flatten() -> Model:
    """Flatten ``(batch, …)`` to ``(batch, rest)``, in the order channels, height, width."""
    return _made(lambda layers: layers.flatten())


def relu() -> Model:
    """A layer ``max(x, 0)``."""
    return _made(lambda layers: layers.relu())


def tanh() -> Model:
    """A layer ``tanh(x)``."""
    return _made(lambda layers: layers.tanh())


def batch_norm(features: int, *, momentum: float = 0.9, epsilon: float = 1e-5) -> Model:
    """Batch normalisation over axis 1: of ``(batch, features)``, or of images with these channels.

    In training mode, ``running = momentum * running + (1 - momentum) * batch``. Whether the running
    variance is the biased or the unbiased one depends on the framework.
    """
    count = size("features", features)
    kept, small = fraction("momentum", momentum), fraction("epsilon", epsilon)
    return _made(lambda layers: layers.batch_norm(count, kept, small))


def dropout(rate: float) -> Model:
    """In training mode, set a fraction ``rate`` of the elements to zero and scale up the others.

    The elements are drawn by the framework's own generator.
    """
    share = fraction("rate", rate)
    return _made(lambda layers: layers.dropout(share))


def sequential(*layers: Model) -> Model:
    """Apply the layers one after another. The layers themselves are used, not copies.

    Raises:
        NotAModelError: an argument is not a layer.
        BackendMismatchError: the layers belong to different frameworks.
    """
    return _combined("sequential", layers)


def residual(*layers: Model, shortcut: Model | None = None) -> Model:
    """A layer ``x + sequential(*layers)(x)``, whose layers keep the shape.

    Where they do not, ``shortcut`` is a layer that changes ``x`` to the new shape, in ResNets a
    convolution of 1 by 1: ``shortcut(x) + sequential(*layers)(x)``.

    Raises:
        NotAModelError: an argument is not a layer.
        BackendMismatchError: the layers belong to different frameworks.
    """
    return _combined("residual", layers, *([] if shortcut is None else [shortcut]))


def train_mode(model: Model, /) -> Model:
    """Put ``model`` into training mode, the mode of new models; returns ``model``.

    Dropout drops elements, and batch normalisation updates its running statistics.

    Raises:
        UnsupportedOperation: this kind of model has no such mode; the message says what to do.
    """
    return _in_mode(model, True)


def eval_mode(model: Model, /) -> Model:
    """Put ``model`` into inference mode; returns it. The opposite of ``train_mode``."""
    return _in_mode(model, False)


def _combined(name: str, layers: tuple[Model, ...], *beside: Model) -> Model:
    given = [*layers, *beside]
    if any(isinstance(layer, (list, tuple)) for layer in given):
        raise NotAModelError(f"{name} takes layers, not a list: call {name}(*layers).")
    backends = [backend_of_model(layer) for layer in given] or [active_backend()]
    for other in backends:
        if other is not backends[0]:
            raise BackendMismatchError(
                f"{name} got layers of two backends, {backends[0].name} and {other.name}.",
                backend=other.name,
            )
    with errors_of(backends[0], f"making a {name}"):
        return getattr(backends[0].layers, name)(layers, *beside)


def _in_mode(model: Model, is_training: bool) -> Model:
    found = model_of(model)
    backend_of_model(found).layers.set_mode(found, is_training)
    return model


def _made(make: Callable[[Layers], Model]) -> Model:
    backend = active_backend()
    made = call(backend, make, backend.layers, doing="making a layer")
    device = innermost_device(backend.name)
    if device is not None and device is not backend.cpu:
        made, _ = place_on(device, made, None, backend)
    return made


def _window(kernel_size: Pair, stride: Pair | None) -> tuple[tuple[int, int], tuple[int, int]]:
    window = pair("kernel_size", kernel_size)
    return window, window if stride is None else pair("stride", stride)


def _glorot(shape: tuple[int, ...], fan_in: int, fan_out: int) -> Array:
    import numpy as np

    limit = np.float32((6.0 / (fan_in + fan_out)) ** 0.5)
    drawn: Array = draw("random", shape, "float32")
    drawn *= np.float32(2)  # in place: there may be no room for three of them
    drawn -= np.float32(1)
    drawn *= limit
    return drawn


def _zeros(count: int) -> Array:
    import numpy as np

    return np.zeros(count, dtype="float32")
