"""The six operators under ``SyncBatchNorm``, for which PyTorch has kernels on CUDA only.

Written by PyTorch's own operations. Statistics of half precision are computed and returned in
float32, as by CUDA's kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

_kept: list[Any] = []
"""The registration, which ends with its object."""


def register(key: str) -> None:
    """Register the kernels for devices with the dispatch key ``key``."""
    library = torch._C._dispatch_library("IMPL", "aten", "", __file__, 1)
    _kept.append(library)
    for function in (
        batch_norm_stats,
        batch_norm_elemt,
        batch_norm_gather_stats,
        batch_norm_gather_stats_with_counts,
        batch_norm_backward_reduce,
        batch_norm_backward_elemt,
    ):
        library.impl(function.__name__, key, function)


def batch_norm_stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:  # noqa: A002
    """The mean and the inverse standard deviation of each channel."""
    values, over = _precise(input), _all_but_channels(input)
    variance, mean = torch.var_mean(values, over, correction=0)
    return mean, (variance + eps).rsqrt()


def batch_norm_elemt(  # noqa: PLR0913, PLR0917  torch's signature
    input: Tensor,  # noqa: A002
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    invstd: Tensor,
    eps: float,  # noqa: ARG001  invstd has it
) -> Tensor:
    """The normalized input."""
    result = (_precise(input) - _shaped(mean, input)) * _shaped(invstd, input)
    if weight is not None:
        result = result * _shaped(weight, input)
    if bias is not None:
        result = result + _shaped(bias, input)
    return result.to(input.dtype)


def batch_norm_gather_stats(  # noqa: PLR0913, PLR0917  torch's signature
    input: Tensor,  # noqa: A002
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    count: int,
) -> tuple[Tensor, Tensor]:
    """The statistics of all ranks together, of which each has ``count`` values."""
    counts = torch.full((mean.shape[0],), count, dtype=mean.dtype, device=mean.device)
    return batch_norm_gather_stats_with_counts(
        input, mean, invstd, running_mean, running_var, momentum, eps, counts
    )


def batch_norm_gather_stats_with_counts(  # noqa: PLR0913, PLR0917  torch's signature
    input: Tensor,  # noqa: A002, ARG001  the running statistics' type, on CUDA
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """The statistics of all ranks together, whose rows are ``mean`` and ``invstd``."""
    means, weights = _precise(mean), _precise(counts).to(_precise(mean).dtype).reshape(-1, 1)
    variances = _precise(invstd).pow(-2) - eps
    total = weights.sum()
    together = (weights * means).sum(0) / total
    squares = (weights * (variances + (means - together) ** 2)).sum(0)
    if running_mean is not None:
        running_mean.lerp_(together.to(running_mean.dtype), momentum)
    if running_var is not None:
        running_var.lerp_((squares / (total - 1)).to(running_var.dtype), momentum)
    return together, (squares / total + eps).rsqrt()


def batch_norm_backward_reduce(  # noqa: PLR0913, PLR0917  torch's signature
    grad_out: Tensor,
    input: Tensor,  # noqa: A002
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,  # noqa: ARG001  SyncBatchNorm drops what it did not ask for
    weight_g: bool,  # noqa: ARG001
    bias_g: bool,  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums of the gradient over each channel, and the gradients of weight and bias."""
    gradient, over = _precise(grad_out), _all_but_channels(input)
    sum_dy = gradient.sum(over)
    sum_dy_xmu = (gradient * (_precise(input) - _shaped(mean, input))).sum(over)
    dtype = mean.dtype if weight is None else weight.dtype
    return sum_dy, sum_dy_xmu, (sum_dy_xmu * invstd).to(dtype), sum_dy.to(dtype)


def batch_norm_backward_elemt(  # noqa: PLR0913, PLR0917  torch's signature
    grad_out: Tensor,
    input: Tensor,  # noqa: A002
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """The gradient of the input, from sums over all ranks."""
    total = count.sum()
    slope = _shaped(sum_dy_xmu / total * invstd**2, input)
    scale = _shaped(invstd if weight is None else invstd * weight, input)
    centered = _precise(input) - _shaped(mean, input)
    gradient = _precise(grad_out) - _shaped(sum_dy / total, input) - centered * slope
    return (gradient * scale).to(input.dtype)


def _precise(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in {torch.float16, torch.bfloat16} else tensor


def _all_but_channels(tensor: Tensor) -> list[int]:
    return [0, *range(2, tensor.dim())]


def _shaped(per_channel: Tensor, like: Tensor) -> Tensor:
    return per_channel.reshape(1, -1, *[1] * (like.dim() - 2))
