"""Functions for writing a net by hand: each framework's own, with the same semantics everywhere.

Differentiable if the framework has autograd. Images are ``(batch, channels, height, width)``;
weights have their outputs first. The result is on the device of ``x``. The other tensors must be
on that device, too, or ``DeviceMismatchError`` is raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.backends.boundary import call
from unidev.backends.framework_errors import framework_error
from unidev.backends.loading import backend_of_type, device_getters
from unidev.contract.dtypes import DTYPES, portable_name
from unidev.contract.optional import Unsupported
from unidev.errors import FrameworkError, InvalidDataError, NotATensorError, UnsupportedOperation
from unidev.system.arguments import pair
from unidev.system.wording import kind_of
from unidev.tensors.checks import check_same_device
from unidev.tensors.kinds import backend_of_tensor, shape_unknown

if TYPE_CHECKING:
    from unidev.system.arguments import Pair

    Tensor = Any

__all__ = [
    "avg_pool2d", "conv2d", "flatten", "linear", "max_pool2d", "mean_squared_error", "relu",
    "softmax_cross_entropy", "tanh",
]  # fmt: skip


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.T + bias``: ``(…, inputs)`` to ``(…, outputs)``.

    ``weight`` is ``(outputs, inputs)``, ``bias`` ``(outputs,)``.
    """
    _check_memory(x)
    if len(_shape(weight)) != 2:
        raise InvalidDataError(f"a weight must be (outputs, inputs), not {_shape(weight)}.")
    _check_bias(bias, weight)
    return _call("linear", {"x": x, "weight": weight, "bias": bias})


def conv2d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    """Cross-correlate images with ``weight``, ``(out, in, height, width)``, and add ``bias``.

    ``bias`` is ``(out,)``; ``stride`` and ``padding`` (zeros) are integers or ``(height, width)``.
    """
    steps, edge = pair("stride", stride), pair("padding", padding, least=0)
    images, kernel = _shape_of_images(x), _shape(weight)
    # Frameworks would accept images without a batch, groups of channels, or windows too large.
    if len(images) != 4 or len(kernel) != 4 or not _fit(images[1:2], kernel[1:2]):
        raise InvalidDataError(
            f"a weight {kernel}, (out, in, height, width), does not match images {images}, "
            "(batch, in, height, width)."
        )
    _check_window(kernel[2:], images, edge)
    _check_bias(bias, weight)
    return _call("conv2d", {"x": x, "weight": weight, "bias": bias}, steps, edge)


def avg_pool2d(x: Tensor, kernel_size: Pair, *, stride: Pair | None = None) -> Tensor:
    """Average pooling over windows of ``kernel_size``; ``stride`` defaults to ``kernel_size``."""
    return _pooled("avg_pool2d", x, kernel_size, stride)


def max_pool2d(x: Tensor, kernel_size: Pair, *, stride: Pair | None = None) -> Tensor:
    """Max pooling over windows of ``kernel_size``; ``stride`` defaults to ``kernel_size``."""
    return _pooled("max_pool2d", x, kernel_size, stride)


def flatten(x: Tensor) -> Tensor:
    """``(batch, …)`` to ``(batch, rest)``, in the order channels, height, width."""
    if len(_shape(x)) < 2:
        raise InvalidDataError(f"flatten needs at least two dimensions, not {_shape(x)}.")
    return _call("flatten", {"x": x})


def relu(x: Tensor) -> Tensor:
    """``max(x, 0)``."""
    _check_memory(x)
    return _call("relu", {"x": x})


def tanh(x: Tensor) -> Tensor:
    """``tanh(x)``."""
    _check_memory(x)
    return _call("tanh", {"x": x})


def softmax_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over the batch of -log softmax(logits)[label], a scalar tensor of shape ``()``.

    ``logits`` is ``(batch, classes)``; ``labels``, of any integer dtype, is ``(batch,)``.
    """
    outputs = _shape(logits)
    if len(outputs) != 2 or not _fit(_shape(labels), outputs[:1]):
        raise _misfit(logits=logits, labels=labels)
    # Some frameworks accept floats and round them.
    backend = backend_of_tensor(labels)
    if labels.dtype != backend.dtypes["int64"]:  # the usual one, at once: on the hot path
        name = portable_name(labels.dtype, backend)
        if name is None or DTYPES[name].kind not in "iu":
            raise InvalidDataError(f"labels must be integers, not {name or labels.dtype}.")
    return _call("softmax_cross_entropy", {"logits": logits, "labels": labels})


def mean_squared_error(predictions: Tensor, targets: Tensor) -> Tensor:
    """The mean squared difference over all elements, of shape ``()``; both shapes must be equal."""
    # A framework would silently broadcast (n, 1) against (n,) to (n, n).
    if not _fit(_shape(predictions), _shape(targets)):
        raise _misfit(predictions=predictions, targets=targets)
    return _call("mean_squared_error", {"predictions": predictions, "targets": targets})


def _pooled(name: str, x: Tensor, kernel_size: Pair, stride: Pair | None) -> Tensor:
    window = pair("kernel_size", kernel_size)
    steps = window if stride is None else pair("stride", stride)
    # For a window that does not fit, one framework returns nothing, another a partial result.
    images = _shape_of_images(x)
    if len(images) != 4:
        raise InvalidDataError(
            f"images must be (batch, channels, height, width), not of shape {images}."
        )
    _check_window(window, images)
    return _call(name, {"x": x}, window, steps)


def _call(name: str, tensors: dict[str, Tensor], *options: Any) -> Tensor:
    # The memory of each tensor has been checked, by `_shape` where its shape was of interest.
    backend = backend_of_tensor(next(iter(tensors.values())))
    if len(tensors) > 1:
        _check_together(tensors)
    try:
        return call(
            backend, getattr(backend.functions, name), *tensors.values(), *options,
            doing=lambda: (_doing(name, tensors),),
        )  # fmt: skip
    except FrameworkError:
        if not isinstance(backend.collectives, Unsupported):  # of a sparse one, they say so
            backend.collectives.check_dense([*_given(tensors).values()], True)
        raise
    except IndexError as error:  # PyTorch's error for a label out of range
        raise framework_error(error, backend.name, _doing(name, tensors)) from error


def _given(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key: x for key, x in tensors.items() if x is not None}


def _doing(name: str, tensors: dict[str, Tensor]) -> str:
    shapes = [f"{key} {_shape(x)}" for key, x in _given(tensors).items()]
    return f"computing {name} of {', '.join(shapes)}"


def _check_together(tensors: dict[str, Tensor]) -> None:
    try:
        devices = {device_getters[type(x)](x) for x in tensors.values() if x is not None}
    except KeyError:  # one of them is not a tensor
        for x in _given(tensors).values():
            backend_of_tensor(x)
        raise
    except UnsupportedOperation:
        return  # while a graph is traced, tensors have no device yet
    if len(devices) > 1:
        check_same_device(**_given(tensors))  # raises, with a detailed message


def _check_window(
    window: tuple[Any, ...], images: tuple[Any, ...], padding: tuple[int, int] = (0, 0)
) -> None:
    for size, needed, edge in zip(images[2:], window, padding, strict=True):
        if None not in (size, needed) and size + 2 * edge < needed:
            around = f" with padding {padding}" if any(padding) else ""
            raise InvalidDataError(
                f"a window of {window} does not fit into images {images}{around}."
            )


def _check_bias(bias: Tensor | None, weight: Tensor) -> None:
    # Some frameworks would broadcast a bias of another shape.
    if bias is not None and not _fit(_shape(bias), _shape(weight)[:1]):
        raise InvalidDataError(f"a bias {_shape(bias)} does not match a weight {_shape(weight)}.")


def _shape(x: Tensor) -> tuple[Any, ...]:
    """The shape; None for a size that is unknown while a graph is traced (-1 in Paddle)."""
    _check_memory(x)
    try:
        shape = tuple(x.shape)
        return tuple(None if size == -1 else size for size in shape) if -1 in shape else shape
    except (AttributeError, TypeError) as error:  # TypeError: a class of tensors
        raise NotATensorError(f"a tensor is required, not {kind_of(x)}.") from error
    except (ValueError, RuntimeError) as error:
        raise shape_unknown() from error


def _check_memory(x: Tensor) -> None:
    """Before anything else is asked of ``x``, which may be no tensor at all."""
    backend = backend_of_type(type(x))
    if backend is not None:
        backend.check_memory(x)


def _shape_of_images(x: Tensor) -> tuple[Any, ...]:
    try:
        return _shape(x)
    except InvalidDataError:  # in a TensorFlow graph, for a tensor of unknown rank
        return (None,) * 4


def _fit(shape: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether the shapes are equal; an unknown size (None) matches any other."""
    return shape == other or (
        len(shape) == len(other)
        and all(None in (a, b) or a == b for a, b in zip(shape, other, strict=True))
    )


def _misfit(**tensors: Tensor) -> InvalidDataError:
    found = " and ".join(f"{name} {_shape(x)}" for name, x in tensors.items())
    return InvalidDataError(f"these shapes do not match: {found}.")
