"""Torch's layers behind ``unidev.nn``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from unidev.contract import Layers
from unidev_torch import tensors
from unidev_torch.nn.synchronized import synchronized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract import Array, CombineMoments, Pair

_UNFILLED: Any = {"device": "meta", "dtype": torch.float32}
"""Layers are made without weights: torch would draw them from the user's generator."""


class BatchNorm(nn.modules.batchnorm._BatchNorm):
    """``BatchNorm1d`` and ``BatchNorm2d`` in one, without the counter of batches.

    The counter is unused with a fixed momentum, and no other framework has it.
    """

    num_batches_tracked: torch.Tensor | None

    def __init__(self, features: int, momentum: float, epsilon: float) -> None:
        # torch's momentum is the weight of the new value.
        super().__init__(
            features, eps=epsilon, momentum=1 - momentum, device="cpu", dtype=torch.float32
        )
        self.num_batches_tracked = None

    # _BatchNorm's would add the counter to files without one, and then report it as unexpected.
    _load_from_state_dict = nn.Module._load_from_state_dict

    def _check_input_dim(self, input: torch.Tensor) -> None:  # noqa: A002  torch's own name
        if input.dim() not in (2, 4):
            raise ValueError(
                f"batch_norm takes (batch, features) or (batch, channels, height, width), not an "
                f"input of shape {tuple(input.shape)}"
            )


class Residual(nn.Sequential):
    """Adds its input to the result, or what a shortcut, its last layer, makes of it."""

    def __init__(self, *layers: nn.Module, has_shortcut: bool) -> None:
        super().__init__(*layers)
        self.has_shortcut = has_shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``shortcut(x) + layers(x)``."""
        if not self.has_shortcut:
            return x + super().forward(x)  # type: ignore[no-any-return, no-untyped-call]
        *layers, shortcut = self
        given = x
        for layer in layers:
            x = layer(x)
        return x + shortcut(given)  # type: ignore[no-any-return]


class TorchLayers(Layers):
    """The layers of ``torch.nn``, except for batch normalisation."""

    avg_pool2d = nn.AvgPool2d
    max_pool2d = nn.MaxPool2d
    flatten = nn.Flatten
    relu = nn.ReLU
    tanh = nn.Tanh
    dropout = nn.Dropout
    batch_norm = BatchNorm

    def dense(self, weight: Array, bias: Array | None) -> nn.Module:
        """``nn.Linear``."""
        outputs, inputs = weight.shape
        return _filled(nn.Linear(inputs, outputs, bias is not None, **_UNFILLED), weight, bias)

    def conv2d(self, weight: Array, bias: Array | None, stride: Pair, padding: Pair) -> nn.Module:
        """``nn.Conv2d``."""
        out_channels, in_channels, height, width = weight.shape
        layer = nn.Conv2d(
            in_channels,
            out_channels,
            (height, width),
            stride,
            padding,
            bias=bias is not None,
            **_UNFILLED,
        )
        return _filled(layer, weight, bias)

    def sequential(self, layers: Sequence[nn.Module]) -> nn.Module:
        """``nn.Sequential``."""
        return nn.Sequential(*layers)

    def residual(self, layers: Sequence[nn.Module], shortcut: nn.Module | None = None) -> nn.Module:
        """A ``Sequential`` that adds its input."""
        if shortcut is None:
            return Residual(*layers, has_shortcut=False)
        return Residual(*layers, shortcut, has_shortcut=True)

    def set_mode(self, model: nn.Module, is_training: bool) -> None:
        """``Module.train``."""
        model.train(is_training)

    def modes(self, model: nn.Module) -> Iterable[tuple[nn.Module, bool]]:
        """The mode of every module."""
        return [(module, module.training) for module in model.modules()]

    def sequence(self, model: nn.Module) -> Sequence[nn.Module]:
        """The layers of ``nn.Sequential``, unless a subclass has a ``forward`` of its own."""
        if isinstance(model, nn.Sequential) and type(model).forward is nn.Sequential.forward:
            return list(model)
        return super().sequence(model)

    def synchronized(
        self, model: nn.Module, combine: CombineMoments
    ) -> AbstractContextManager[None]:
        """Whatever calls ``torch.nn.functional.batch_norm``."""
        return synchronized(model, combine)

    def before(self, layer: nn.Module, function: Callable[[nn.Module, Any], Any]) -> None:
        """A forward pre-hook."""
        layer.register_forward_pre_hook(partial(_given, function))


def _given(function: Callable[..., Any], module: nn.Module, inputs: tuple[Any, ...]) -> Any:
    """In a ``partial``, a forward pre-hook that can be copied and pickled with its module."""
    return tuple(function(module, x) for x in inputs)


def _filled(layer: nn.Linear | nn.Conv2d, weight: Array, bias: Array | None) -> nn.Module:
    layer.weight = _parameter(weight)
    if bias is not None:
        layer.bias = _parameter(bias)
    return layer


def _parameter(values: Array) -> nn.Parameter:
    return nn.Parameter(tensors.from_numpy(values, torch.float32, torch.device("cpu")))
