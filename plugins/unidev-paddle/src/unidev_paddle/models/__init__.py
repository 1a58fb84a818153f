"""Paddle's models: any ``Layer``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import Models, Stored
from unidev.errors import UnsupportedOperation
from unidev_paddle.framework import check_eager, paddle
from unidev_paddle.models import optimizers
from unidev_paddle.models.swap import Part, Twin, parts_of, swap
from unidev_paddle.models.tree import (
    STATISTICS,
    Entry,
    all_entries,
    gradient_of,
    has_memory,
    named_parameters,
    statistics_of,
    unique_entries,
    unique_layers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from unidev.contract import Array, Device, Tensor

    Layer = Any


class PaddleModels(Models):
    """Parameters stay the same objects and exchange their memory: see ``swap.py``."""

    def parameters(self, model: Layer) -> Mapping[str, Tensor]:
        """``named_parameters``, without the statistics of batch norm, which are not trained."""
        return named_parameters(model)

    def trainable(self, model: Layer) -> Mapping[str, Tensor]:
        """Parameters without ``stop_gradient``."""
        return {name: x for name, x in named_parameters(model).items() if not x.stop_gradient}

    def tensors(self, model: Layer) -> Mapping[str, Tensor]:
        """Parameters and buffers; gradients are named ``NAME.grad``."""
        found: dict[str, Tensor] = {}
        for entry in unique_entries(model):
            if has_memory(entry):
                found[entry.name] = entry.tensor
                gradient = gradient_of(entry.tensor)
                if gradient is not None:
                    found[f"{entry.name}.grad"] = gradient
        return found

    registering = "with register_buffer, or layers in a paddle.nn.LayerList"

    def layers(self, model: Layer) -> Sequence[tuple[str, Layer]]:
        """As ``named_sublayers``."""
        return list(unique_layers(model, "", set()))

    def beside(self, layer: Layer) -> Iterator[tuple[str, Any]]:
        """Without results of computations, as weight_norm's, and what has no memory yet."""
        for name, x in super().beside(layer):
            if isinstance(x, paddle.nn.Layer) or (x.is_leaf and x._is_initialized()):
                yield name, x

    # -- moving it ---------------------------------------------------------------------------------

    places_optimizers = True

    def parts(self, model: Layer | None, optimizer: Any) -> Sequence[Part]:
        """All tensors that have memory, and the optimizer's for them."""
        check_eager("place")
        if model is None:
            return parts_of(_moving_state(optimizer, None))
        _check_single(model)
        tensors = self.tensors(model)
        for name, x in tensors.items():
            if not (x.is_dense() or x.is_selected_rows()):
                raise UnsupportedOperation(
                    f"placing a model with {name!r}, a tensor that is distributed or sparse",
                    "it is several tensors: replace it with a dense one",
                )
            self.backend.device_of(x)  # raises if its memory is gone
        state = [] if optimizer is None else _moving_state(optimizer, tensors)
        return parts_of([*tensors.values(), *_flat_weights(model), *state])

    def is_on(self, part: Part, device: Device) -> bool:
        """Whether the part's tensor is on ``device``."""
        return self.backend.device_of(part.tensor) is device

    def twin(self, part: Part, device: Device) -> Twin:
        """Not a part: holds a copy of the part's memory on ``device``."""
        return Twin(part, device)

    def swap(self, part: Part, twin: Twin) -> None:
        """Exchange the memory, in either direction."""
        swap(part, twin, self.backend.device_of(part.tensor) is twin.device)

    def is_placed(self, model: Layer, device: Device) -> bool:
        """Stops at the first tensor that is not on ``device``."""
        device_of = self.backend.device_of
        for entry in unique_entries(model):
            x = entry.tensor
            if not x._is_initialized():
                if entry.is_buffer and not has_memory(entry):
                    continue
                return False  # parts gives the reason
            if device_of(x) is not device:
                return False
            gradient = gradient_of(x)
            if gradient is not None and device_of(gradient) is not device:
                return False
        layers = {type(layer) for _, layer in unique_layers(model, "", set())}
        are_paddles = all(cls.__module__.startswith("paddle.nn.") for cls in layers)
        return are_paddles or not self.left_behind(model, device)

    # -- several devices ---------------------------------------------------------------------------

    def copy(self, model: Layer) -> Layer:
        """``copy.deepcopy``; what ``to_static`` has wrapped would compute with the original."""
        for prefix, layer in unique_layers(model, "", set()):
            if hasattr(type(layer.forward), "concrete_program"):
                raise UnsupportedOperation(
                    f"a copy of a Layer that to_static wraps, at {prefix[:-1] or 'the root'!r},",
                    "it would compute with the original's parameters: unidev.DataParallel(model, "
                    "devices) needs no copy",
                )
        return super().copy(model)

    def namespaces(self, model: Layer) -> Iterator[dict[str, Any]]:
        """The attributes, parameters and buffers of each layer: weight_norm binds one anew."""
        for _, layer in unique_layers(model, "", set()):
            yield from (layer.__dict__, layer._parameters, layer._buffers)

    def statistics(self, model: Layer) -> Mapping[str, Tensor]:
        """The running statistics of every batch norm."""
        return statistics_of(model)

    # -- checkpoints -------------------------------------------------------------------------------

    def stored(self, model: Layer) -> Mapping[str, Stored]:
        """``state_dict``, with weights of ``Linear`` and statistics in the portable form.

        Applies to every ``Linear`` and batch norm, not only unidev's: a square weight that is not
        transposed would load into another framework's layer without an error.
        """
        return {
            _portable_name(entry): Stored(entry.tensor, _axes(entry))
            for entry in all_entries(model)
            if _is_saved(entry)
        }

    def unstorable(self, x: Tensor) -> str | None:
        """Sparse tensors, of which ``numpy()`` ends the process."""
        return None if x.is_dense() else "it is sparse: keep x.to_dense()"

    def read(self, x: Tensor) -> Array:
        """The memory of ``x`` itself, if that is on the CPU."""
        check_eager("save_parameters")
        self.backend.device_of(x)  # Paddle returns an empty array for a deleted tensor
        # NumPy has no bfloat16; Paddle returns int16 for uint16, which it reads as bfloat16.
        is_bfloat16 = x.dtype == paddle.bfloat16
        shown = x.detach().view(paddle.int16) if is_bfloat16 else x.detach()
        values: Array = np.from_dlpack(shown) if x.place.is_cpu_place() else shown.numpy()
        return values.view(np.uint16) if is_bfloat16 else values

    def write(self, x: Tensor, values: Array) -> None:
        """Into the same memory; ``set_value`` would allocate on Paddle's default device."""
        check_eager("load_parameters")
        if 0 in x.shape:  # copy_ would leave it on the CPU
            return
        shown = self.read(x) if x.place.is_cpu_place() else None
        if shown is not None and shown.flags.writeable:  # NumPy 1 makes it read-only
            shown[...] = values
        else:
            x.copy_(paddle.to_tensor(values, place=paddle.CPUPlace()), True)
        x._bump_inplace_version()  # a backward that needs the old values then fails

    def optimizer_state(self, optimizer: Any) -> Mapping[str, Array]:
        """Accumulators, master weights and the learning rate."""
        return optimizers.state_of(optimizer)

    def load_optimizer_state(
        self,
        model: Layer,  # noqa: ARG002
        optimizer: Any,
        state: Mapping[str, Array],
    ) -> None:
        """Creates the accumulators that are missing, and writes to them."""
        optimizers.load_state(optimizer, state)


def _check_single(model: Layer) -> None:
    for prefix, layer in unique_layers(model, "", set()):
        if isinstance(layer, paddle.DataParallel) and hasattr(layer, "_reducer"):
            raise UnsupportedOperation(
                f"placing a model with a DataParallel at {prefix[:-1] or 'its root'!r}",
                "its gradients are gathered in memory of their own; place the model inside it, "
                "and wrap that",
            )


def _moving_state(optimizer: Any, tensors: Mapping[str, Tensor] | None) -> list[Tensor]:
    names = None if tensors is None else {x.name for x in tensors.values()}
    return [x for x in optimizers.moving_tensors(optimizer, names) if x._is_initialized()]


def _flat_weights(model: Layer) -> Iterator[Tensor]:
    # The memory that an RNN's weights are slices of, hidden in a list, where Paddle does not look.
    for _, layer in unique_layers(model, "", set()):
        if isinstance(layer, paddle.nn.layer.rnn.RNNBase):
            yield from getattr(layer, "_flat_weight", ())


def _is_saved(entry: Entry) -> bool:
    is_persistable = entry.key not in entry.layer._non_persistable_buffer_names_set
    return (not entry.is_buffer or is_persistable) and has_memory(entry)


def _portable_name(entry: Entry) -> str:
    return entry.prefix + STATISTICS[entry.key] if entry.is_statistic else entry.name


def _axes(entry: Entry) -> tuple[int, ...] | None:
    is_linear = entry.key == "weight" and isinstance(entry.layer, paddle.nn.Linear)
    return (1, 0) if is_linear else None
