"""The tensors of a ``Layer``: its sublayers, parameters and buffers, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.errors import InvalidDataError, UnsupportedOperation
from unidev_paddle.framework import paddle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.contract import Tensor

    Layer = Any

# Paddle keeps their statistics as frozen Parameters; elsewhere they are buffers.
_NORMS = (paddle.nn.BatchNorm, paddle.nn.layer.norm._BatchNormBase)
STATISTICS = {"_mean": "running_mean", "_variance": "running_var"}
"""Paddle's names for them, and the portable ones."""


class Entry(NamedTuple):
    """A tensor of a layer."""

    prefix: str
    """The layer's prefix: empty, or with a dot at its end."""
    layer: Layer
    key: str
    tensor: Tensor
    is_buffer: bool

    @property
    def name(self) -> str:
        """The name in ``named_parameters`` and ``state_dict``."""
        return self.prefix + self.key

    @property
    def is_statistic(self) -> bool:
        """Whether it is a running mean or variance."""
        return self.key in STATISTICS and isinstance(self.layer, _NORMS)


def unique_entries(model: Layer) -> Iterator[Entry]:
    """Each tensor under its first name, in Paddle's order: a layer's own before its sublayers'."""
    seen: set[int] = set()
    for prefix, layer in unique_layers(model, "", set()):
        for entry in own_entries(prefix, layer):
            if id(entry.tensor) not in seen:
                seen.add(id(entry.tensor))
                yield entry


def named_parameters(model: Layer) -> dict[str, Tensor]:
    """Each parameter under its first name, without statistics; it runs in every training step.

    Raises:
        UnsupportedOperation: a parameter is lazy.
    """
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for prefix, layer in unique_layers(model, "", set()):
        for key, x in layer._parameters.items():
            if x is not None and id(x) not in seen:
                seen.add(id(x))
                if key in STATISTICS and isinstance(layer, _NORMS):
                    continue
                if not x._is_initialized():
                    has_memory(Entry(prefix, layer, key, x, False))  # raises if it is lazy
                found[prefix + key] = x
    return found


def statistics_of(model: Layer) -> dict[str, Tensor]:
    """Running means and variances of all batch norms; it runs in every step of ``DataParallel``."""
    return {
        entry.name: entry.tensor
        for prefix, layer in unique_layers(model, "", set())
        if isinstance(layer, _NORMS)
        for entry in own_entries(prefix, layer)
        if entry.key in STATISTICS
    }


def unique_layers(layer: Layer, prefix: str, seen: set[int]) -> Iterator[tuple[str, Layer]]:
    """Each layer under its first name."""
    if id(layer) in seen:
        return
    seen.add(id(layer))
    yield prefix, layer
    for name, child in layer._sub_layers.items():
        if child is not None:
            yield from unique_layers(child, f"{prefix}{name}.", seen)


def all_entries(layer: Layer, prefix: str = "", above: tuple[Layer, ...] = ()) -> Iterator[Entry]:
    """Each tensor under each of its names, as in ``state_dict``."""
    if any(layer is other for other in above):
        raise InvalidDataError(f"this model contains itself, at {prefix[:-1]!r}.")
    yield from own_entries(prefix, layer)
    for name, child in layer._sub_layers.items():
        if child is not None:
            yield from all_entries(child, f"{prefix}{name}.", (*above, layer))


def own_entries(prefix: str, layer: Layer) -> Iterator[Entry]:
    """Parameters, then buffers."""
    for key, tensor in layer._parameters.items():
        if tensor is not None:
            yield Entry(prefix, layer, key, tensor, False)
    for key, tensor in layer._buffers.items():
        if tensor is not None:
            yield Entry(prefix, layer, key, tensor, True)


def has_memory(entry: Entry) -> bool:
    """False for a buffer without memory: an LSTM's dropout state, until cuDNN fills it.

    Raises:
        UnsupportedOperation: the parameter is lazy; says how to initialise it.
    """
    x = entry.tensor
    if x._is_initialized() or 0 in x.shape:
        return True
    if getattr(x, "_init_func", None) is not None:
        raise UnsupportedOperation(
            f"reading or moving the parameter {entry.name!r}",
            "it was made under paddle.LazyGuard and has no memory yet; initialize it first: "
            "for p in model.parameters(): p.initialize()",
        )
    return not (entry.is_buffer and _never_had_memory(x))


def _never_had_memory(x: Tensor) -> bool:
    try:
        return str(x.place).startswith("Place(undefined")
    except RuntimeError:  # it had memory, which was freed: the backend raises the error
        return False


def gradient_of(x: Tensor) -> Tensor | None:
    """The gradient of ``x``, on the memory that Paddle keeps it in, or None."""
    gradient = x._grad_ivar()  # x.grad is another tensor, with its own hooks
    return gradient if gradient is not None and gradient._is_initialized() else None
