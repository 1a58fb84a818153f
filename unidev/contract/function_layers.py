"""``FunctionLayers``: the layers of ``unidev.nn`` from a backend's ``Functions``; ``Layer``."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from unidev.contract.layers import Layers
from unidev.contract.models import found_in
from unidev.errors import InvalidDataError, UnsupportedOperation
from unidev.system.wording import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.layers import Array, Model, Pair, Tensor

_DEPTH = 6
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "dense": ("weight", "bias"), "conv2d": ("weight", "bias", "stride", "padding"),
    "avg_pool2d": ("kernel_size", "stride"), "max_pool2d": ("kernel_size", "stride"),
    "flatten": (), "relu": (), "tanh": (), "dropout": ("rate",),
}  # fmt: skip
"""The attributes of a layer that its function takes, in order."""


def _maker(kind: str) -> Any:
    def make(self: FunctionLayers, *options: Any) -> Layer:
        return self.layer(kind, **dict(zip(_OPTIONS[kind], options, strict=True)))

    return make


class Layer:
    """A layer of any kind: its settings and tensors are attributes, called as ``layer(x)``.

    A plugin derives one class from it, in a module of its own, together with the framework's base
    class of models if there is one, and names it as ``FunctionLayers.layer`` and in
    ``Backend.model_types``. The layers in a sequential one are attributes, too: ``"0"``, ``"1"``.
    """

    of: ClassVar[FunctionLayers]
    """What computes it, one for each process: layers can be copied and pickled."""

    def __init__(self, kind: str, **held: Any) -> None:
        super().__init__()
        self.kind = kind
        self.is_training = True
        self.before: tuple[Callable[[Any, Any], Any], ...] = ()
        """Applied to the layer and its input first."""
        for name, value in held.items():
            setattr(self, name, value)

    def __call__(self, x: Any) -> Any:
        """Apply the layer to ``x``."""
        for function in self.before:
            x = function(self, x)
        return self.of.apply(self, x)

    @property
    def layers(self) -> list[Any]:
        """Those of a sequential or residual one, in their order."""
        return [x for name, x in vars(self).items() if name.isdecimal()]

    def __repr__(self) -> str:
        held = {name: getattr(self, name, None) for name in ("weight", "bias")}
        shapes = [f"{name} {x.shape}" for name, x in held.items() if x is not None]
        name = self.kind.title().replace("_", "")
        return f"{name}({', '.join([*map(repr, self.layers), *shapes])})"


class FunctionLayers(Layers):
    """The fast way to ``Layers``: each computes by one of the backend's ``Functions``.

    Batch norm is arithmetic with ``reshape`` and Python's operators. A subclass gives its class of
    layers, and three methods.
    """

    layer: type[Layer]

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.layer.of = self

    @abstractmethod
    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and the variance (divided by n) over all axes but axis 1, differentiable."""

    @abstractmethod
    def renew(self, buffer: Tensor, value: Tensor) -> None:
        """Write ``value``, which may be differentiable, to a running statistic, in place."""

    @abstractmethod
    def dropped(self, x: Tensor, rate: float) -> Tensor:
        """``x`` with this fraction of its elements zero and the others scaled up."""

    def parameter(self, values: Array) -> Tensor:
        """A tensor of these values on the CPU, to be trained or not; by default ``from_numpy``."""
        dtype = self.backend.dtypes[values.dtype.name]
        return self.backend.from_numpy(values, dtype, self.backend.cpu)

    # -- as in ``Layers`` --------------------------------------------------------------------------

    def dense(self, weight: Array, bias: Array | None) -> Layer:
        """By ``linear``."""
        return self.layer("dense", **self._weights(weight, bias))

    def conv2d(self, weight: Array, bias: Array | None, stride: Pair, padding: Pair) -> Layer:
        """By ``conv2d``."""
        held = self._weights(weight, bias)
        return self.layer("conv2d", **held, stride=stride, padding=padding)

    avg_pool2d, max_pool2d, flatten, relu, tanh, dropout = map(_maker, (
        "avg_pool2d", "max_pool2d", "flatten", "relu", "tanh", "dropout",
    ))  # fmt: skip

    def batch_norm(self, features: int, momentum: float, epsilon: float) -> Layer:
        """By ``moments``."""
        import numpy as np

        ones, zeros = np.ones(features, "float32"), np.zeros(features, "float32")
        held = {"running_mean": self.parameter(zeros), "running_var": self.parameter(ones)}
        held |= self._weights(ones, zeros)
        return self.layer("batch_norm", **held, momentum=momentum, epsilon=epsilon)

    def sequential(self, layers: Sequence[Model]) -> Layer:
        """One after the other."""
        return self.layer("sequential", **{str(at): each for at, each in enumerate(layers)})

    def residual(self, layers: Sequence[Model], shortcut: Model | None = None) -> Layer:
        """A sum."""
        held = [*layers, *([] if shortcut is None else [shortcut])]
        named = {str(at): each for at, each in enumerate(held)}
        return self.layer("residual", has_shortcut=shortcut is not None, **named)

    def set_mode(self, model: Any, is_training: bool) -> None:
        """Of every layer in ``model``."""
        found = list(self._within(model))
        if not found:
            raise UnsupportedOperation(
                "switching between training and inference",
                f"a {kind_of(model)} without layers of unidev.nn has no mode; pass the mode as an "
                "argument to your own functions that compute with it",
            )
        for layer in found:
            layer.is_training = is_training

    def modes(self, model: Any) -> Iterable[tuple[Layer, bool]]:
        """The mode of every layer."""
        return [(layer, layer.is_training) for layer in self._within(model)]

    def sequence(self, model: Any) -> Sequence[Model]:
        """The layers of a sequential one."""
        is_one = isinstance(model, self.layer) and model.kind == "sequential"
        return model.layers if is_one else super().sequence(model)

    def before(self, layer: Model, function: Callable[[Model, Tensor], Tensor]) -> None:
        """Kept by the layer."""
        if not isinstance(layer, self.layer):
            super().before(layer, function)
        layer.before = (*layer.before, function)

    # -- what layers compute -----------------------------------------------------------------------

    def apply(self, layer: Any, x: Any) -> Any:
        """What a layer of any kind makes of ``x``."""
        if layer.kind == "batch_norm":
            return self._normalised(layer, x)
        if layer.kind == "dropout":
            return self.dropped(x, layer.rate) if layer.is_training else x
        if layer.kind not in ("sequential", "residual"):
            found = (getattr(layer, name) for name in _OPTIONS[layer.kind])
            name = "linear" if layer.kind == "dense" else layer.kind
            return getattr(self.backend.functions, name)(x, *found)
        layers, y = layer.layers, x
        short = layers.pop() if layer.kind == "residual" and layer.has_shortcut else None
        for each in layers:
            y = each(y)
        if layer.kind == "sequential":
            return y
        return (x if short is None else short(x)) + y

    def _normalised(self, layer: Any, x: Tensor) -> Tensor:
        features, shape = layer.weight.shape[0], tuple(x.shape)
        if len(shape) not in (2, 4) or shape[1] != features:
            raise InvalidDataError(
                f"batch_norm of {features} features takes (batch, {features}), or images with "
                f"{features} channels, not shape {shape}."
            )
        kept = layer.running_mean, layer.running_var
        mean, variance = self.moments(x) if layer.is_training else kept
        if layer.is_training:
            # Compute everything first, which proves that all is on one device; then change it.
            pairs = zip(kept, (mean, variance), strict=True)
            mixed = [layer.momentum * old + (1 - layer.momentum) * now for old, now in pairs]
            for old, new in zip(kept, mixed, strict=True):
                self.renew(old, new)
        along = (1, features, *(1 for _ in shape[2:]))
        scale = layer.weight / (variance + layer.epsilon) ** 0.5
        return (x - mean.reshape(along)) * scale.reshape(along) + layer.bias.reshape(along)

    def _weights(self, weight: Array, bias: Array | None) -> dict[str, Tensor | None]:
        held = None if bias is None else self.parameter(bias)
        return {"weight": self.parameter(weight), "bias": held}

    def _within(self, model: Any) -> Iterator[Layer]:
        """``model`` if it is a layer, and those in it, outer ones first."""
        if isinstance(model, self.layer):
            yield model
            for each in model.layers:
                yield from self._within(each)
            return
        for _, x in found_in(model, lambda x: isinstance(x, self.layer), deep=_DEPTH):
            yield from self._within(x)
