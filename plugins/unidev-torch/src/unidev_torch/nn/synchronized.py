"""Batch normalisation by the statistics of all workers."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812  its usual name
from torch import nn
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode

from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.contract import CombineMoments

_NARROW = (torch.float16, torch.bfloat16)


@contextmanager
def synchronized(model: nn.Module, combine: CombineMoments) -> Iterator[None]:
    """A block in which this thread's calls of ``F.batch_norm`` that train use ``combine``.

    Whichever layer calls it: other libraries' layers have a ``forward`` of their own around it.
    """
    _check(model)
    with _Synchronizing(combine):
        yield


def _check(model: nn.Module) -> None:
    doing = f"synchronizing the batch normalisation of a {type(model).__name__}"
    modules = list(model.modules())
    for each in modules:
        if isinstance(each, torch.jit.ScriptModule) or _is_compiled(each):
            raise UnsupportedOperation(
                doing,
                f"its {type(each).__name__} is compiled, and nothing can wait for other workers "
                "inside: pass the model before it is compiled",
            )
    if not any(isinstance(each, nn.modules.batchnorm._BatchNorm) for each in modules):
        raise UnsupportedOperation(doing, "it has no layers such as torch.nn.BatchNorm2d")


def _is_compiled(module: nn.Module) -> bool:
    dynamo: Any = sys.modules.get("torch._dynamo")  # to import it takes seconds
    is_wrapped = dynamo is not None and isinstance(module, dynamo.OptimizedModule)
    return is_wrapped or module._compiled_call_impl is not None


class _Synchronizing(TorchFunctionMode):
    def __init__(self, combine: CombineMoments) -> None:
        super().__init__()
        self._combine = combine

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.batch_norm:
            return self._batch_norm(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _batch_norm(  # noqa: PLR0913, PLR0917  F.batch_norm's own
        self,
        input: torch.Tensor,  # noqa: A002
        running_mean: torch.Tensor | None,
        running_var: torch.Tensor | None,
        weight: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> torch.Tensor:
        if not training:
            return F.batch_norm(
                input, running_mean, running_var, weight, bias, training, momentum, eps
            )
        x = input.float() if input.dtype in _NARROW else input
        others = [axis for axis in range(x.dim()) if axis != 1]
        along = [1, -1, *[1] * (x.dim() - 2)]
        count = x.numel() // x.shape[1]
        mean = x.sum(others) / max(count, 1)
        deviations = (x - mean.view(along)).square().sum(others)
        mean, variance, total = _Combined.apply(  # type: ignore[no-untyped-call]
            mean, deviations, count, self._combine
        )
        if running_mean is not None:
            _count(running_mean, mean, momentum)
        if running_var is not None:
            _count(running_var, variance * (total / (total - 1)), momentum)
        scale = torch.rsqrt(variance + eps)
        scale = scale if weight is None else scale * weight
        y = (x - mean.view(along)) * scale.view(along)
        y = y if bias is None else y + bias.view(along)
        narrowed: torch.Tensor = y.to(input.dtype)
        return narrowed


class _Combined(torch.autograd.Function):
    """The moments of all workers' values, from those of this worker's."""

    @staticmethod
    def forward(
        ctx: Any, mean: torch.Tensor, deviations: torch.Tensor, count: int, combine: CombineMoments
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Waits for the other workers."""
        found = combine(mean, deviations, count)
        ctx.gradients = found.gradients
        ctx.mark_non_differentiable(found.count)
        return found.mean, found.variance, found.count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *by: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Waits for them, too."""
        by_mean, by_variance, _ = by
        return (*ctx.gradients(by_mean, by_variance), None, None)


def _count(running: torch.Tensor, new: torch.Tensor, momentum: float) -> None:
    """``momentum`` is the weight of the new value."""
    with torch.no_grad():
        running.mul_(1 - momentum).add_(new.detach().to(running.dtype), alpha=momentum)
