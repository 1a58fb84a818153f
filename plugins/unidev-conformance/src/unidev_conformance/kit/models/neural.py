"""References for layers and functions: plain loops in float64.

Nothing of unidev is used here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Array = np.ndarray[Any, Any]
    Pair = tuple[int, int]


def linear(x: Array, weight: Array, bias: Array | None) -> Array:
    """``x @ weight.T + bias``."""
    product: Array = x @ weight.T
    return product if bias is None else product + bias


def conv2d(x: Array, weight: Array, bias: Array | None, stride: Pair, padding: Pair) -> Array:
    """Cross-correlation, channels first."""
    edges = ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2)
    found = _windows(
        np.pad(x, edges),
        (weight.shape[2], weight.shape[3]),
        stride,
        lambda window: np.einsum("ncij,ocij->no", window, weight),
    )
    return found if bias is None else found + bias[:, None, None]


def avg_pool2d(x: Array, kernel_size: Pair, stride: Pair) -> Array:
    """Means of complete windows."""
    return _windows(x, kernel_size, stride, lambda window: window.mean((2, 3)))


def max_pool2d(x: Array, kernel_size: Pair, stride: Pair) -> Array:
    """Maxima of complete windows."""
    return _windows(x, kernel_size, stride, lambda window: window.max((2, 3)))


def batch_norm(
    x: Array, means: Array, variances: Array, has: dict[str, Array], epsilon: float
) -> Array:
    """Normalises axis 1 by these statistics; ``has`` has the ``weight`` and the ``bias``."""
    along = (slice(None), *(None,) * (x.ndim - 2))
    scales = has["weight"] / np.sqrt(variances + epsilon)
    result: Array = (x - means[along]) * scales[along] + has["bias"][along]
    return result


def statistics(x: Array) -> tuple[Array, Array]:
    """Means and variances of the batch, along axis 1."""
    others = (0, *range(2, x.ndim))
    return x.mean(others), x.var(others)


def running_statistics(
    shares: Sequence[Array], biases: Sequence[Array], momentum: float
) -> list[Array]:
    """Running means of batch norms before a relu, from 0; shares count by their rows.

    With the two running variances, from 1, of which a framework has one: biased and unbiased.
    """
    found = [np.zeros((3, len(bias))) for bias in biases]
    for each in found:
        each[1:] = momentum
    rows = sum(map(len, shares))
    for share in shares:
        x = share.astype("float64")
        for number, bias in enumerate(biases):
            means, variances = statistics(x)
            now = np.stack([means, variances, variances * len(share) / (len(share) - 1)])
            found[number] += (1 - momentum) * now * (len(share) / rows)
            has = {"weight": np.ones(len(bias)), "bias": bias}
            x = np.maximum(batch_norm(x, means, variances, has, 1e-5), 0)
    return found


def softmax_cross_entropy(logits: Array, labels: Array) -> Array:
    """The mean of -log softmax(logits)[label]."""
    shifted = logits - logits.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return np.asarray(-logs[np.arange(len(labels)), labels].mean())


def grads(function: Callable[..., Array], xs: Sequence[Array]) -> list[Array]:
    """The gradients of the sum of ``function(*xs)``, by central differences."""
    step = 1e-5
    given = [x.astype("float64") for x in xs]
    found = []
    for x in given:
        grad = np.zeros_like(x)
        for place in np.ndindex(x.shape):
            value = x[place]
            sums = []
            for moved in (value + step, value - step):
                x[place] = moved
                sums.append(function(*given).sum())
            x[place] = value
            grad[place] = (sums[0] - sums[1]) / (2 * step)
        found.append(grad)
    return found


def _windows(x: Array, kernel_size: Pair, stride: Pair, of: Callable[[Array], Array]) -> Array:
    rows = range(0, x.shape[2] - kernel_size[0] + 1, stride[0])
    columns = range(0, x.shape[3] - kernel_size[1] + 1, stride[1])
    lines = [
        np.stack([of(x[:, :, i : i + kernel_size[0], j : j + kernel_size[1]]) for j in columns], -1)
        for i in rows
    ]
    stacked: Array = np.stack(lines, -2)
    return stacked
