"""Gluon's models: their parameters, moving them, reading and writing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from mxnet import autograd  # type: ignore[import-untyped]
from mxnet.gluon import Block, HybridBlock, Parameter  # type: ignore[import-untyped]

from unidev.contract import Models, Stored
from unidev.errors import UnsupportedOperation
from unidev_mxnet.models.optimizers import (
    TrainerPart,
    TrainerTwin,
    check_trainer,
    exchange_trainers,
    load_state,
    state_arrays,
    state_of,
    trainer_parts,
)
from unidev_mxnet.models.swap import (
    ParameterTwin,
    copy_of,
    exchange_arrays,
    exchange_parameters,
    wait_for,
)
from unidev_mxnet.models.tree import (
    array_of,
    blocks_of,
    hidden_parameters,
    is_buffer,
    parameters_of,
    spread,
    unbuilt,
)
from unidev_mxnet.native_calls import host_view, numpy_shapes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from unidev.contract import Array, Device, Model, Tensor

    Part = Any


class MxnetModels(Models):
    """``gluon.Block``, ``Parameter`` and ``ParameterDict``.

    A part is a ``Parameter``, or an array of an optimizer's state. Both stay the same objects, and
    so do the arrays of a parameter: only handles are exchanged, see ``swap.py``.
    """

    # -- the parameters of a model -----------------------------------------------------------------

    def parameters(self, model: Model) -> Mapping[str, Tensor]:
        """By structural names (``0.weight``); running statistics and constants are buffers."""
        return {
            name: array_of(name, parameter)
            for name, parameter in _unique(parameters_of(model))
            if not is_buffer(parameter)
        }

    def trainable(self, model: Model) -> Mapping[str, Tensor]:
        """Parameters whose ``grad_req`` is not ``'null'``."""
        return {
            name: array_of(name, parameter)
            for name, parameter in _unique(parameters_of(model))
            if parameter.grad_req != "null" and not is_buffer(parameter)
        }

    def tensors(self, model: Model) -> Mapping[str, Tensor]:
        """Tied ones under their first name; every copy, if a parameter is on several devices."""
        found: dict[str, Tensor] = {}
        for name, parameter in _unique(_all_parameters(model)):
            arrays = parameter._data or ()
            for array in arrays:
                found[name if len(arrays) == 1 else f"{name}@{array.ctx}"] = array
            for array in parameter._grad or ():
                found[f"{name}.grad" if len(arrays) == 1 else f"{name}.grad@{array.ctx}"] = array
        return found

    registering = "as mx.gluon.Constant, or blocks in an mx.gluon.nn.Sequential"

    def layers(self, model: Model) -> Sequence[tuple[str, Block]]:
        """The blocks."""
        found = blocks_of(model) if isinstance(model, Block) else ()
        return [(f"{path}." if path else "", block) for path, block in found]

    def beside(self, layer: Block) -> Iterator[tuple[str, Any]]:
        """Without the graph of a block that is hybridized."""
        arrays_or_blocks = (*self.backend.tensor_types, Block)
        return (each for each in super().beside(layer) if isinstance(each[1], arrays_or_blocks))

    # -- moving it ---------------------------------------------------------------------------------

    places_optimizers = True

    def parts(self, model: Model | None, optimizer: Any) -> Sequence[Part]:
        """Parameters, deferred ones too, the arrays of a state, and each ``Trainer``."""
        if optimizer is not None:
            check_trainer(optimizer)
        if isinstance(model, Block):
            for _, block in blocks_of(model):
                block._check_container_with_block()  # warns of blocks it does not see
        if model is None:
            return state_arrays(optimizer)
        found = []
        for name, parameter in _unique(_all_parameters(model)):
            _check_movable(name, parameter)
            found.append(parameter)
        states = [] if optimizer is None else state_arrays(optimizer)
        return [*found, *states, *trainer_parts(optimizer, found)]

    def twin(self, part: Part, device: Device) -> Part:
        """For a deferred parameter, the twin has a device and no memory yet."""
        if isinstance(part, Parameter):
            return ParameterTwin(self.backend, part, device)
        if isinstance(part, TrainerPart):
            return self._twin_of_trainer(part, device)
        return copy_of(self.backend, part, device)

    def _twin_of_trainer(self, part: TrainerPart, device: Device) -> TrainerTwin | None:
        """None if other parameters keep it where it is."""
        kept_by = part.stays(lambda parameter: self._is_there(parameter, device))
        if kept_by is None:
            return TrainerTwin(part, device.native)
        if not part.is_given:
            return None
        raise UnsupportedOperation(
            "placing a Trainer whose parameters are partly elsewhere",
            f"it also trains {kept_by.name!r}, on {kept_by.list_ctx()[0]}: place the model that "
            f"has it on {device} first",
        )

    def swap(self, part: Part, twin: Part) -> None:
        """Waits for the twin first, which raises any error of MXNet's copies."""
        if isinstance(part, TrainerPart):
            if twin is not None:
                exchange_trainers(part.trainer, twin)
            return
        wait_for(twin)
        if isinstance(part, Parameter):
            exchange_parameters(part, twin)
        else:
            exchange_arrays(part, twin)

    def is_on(self, part: Part, device: Device) -> bool:
        """A parameter with its gradient; a ``Trainer`` by where it looks for its parameters."""
        if isinstance(part, Parameter):
            return self._is_there(part, device)
        if isinstance(part, TrainerPart):
            return bool(part.trainer._contexts == [device.native])
        return self.backend.device_of(part) is device

    def is_placed(self, model: Model, device: Device) -> bool:
        """Queries MXNet for the device of each array."""
        is_there = self._is_there
        if not all(
            is_there(parameter, device) and parameter._stype == "default"
            for _, parameter in _all_parameters(model)
        ):
            return False
        blocks = {type(block) for _, block in self.layers(model)}
        are_gluons = all(cls.__module__.startswith("mxnet.gluon.") for cls in blocks)
        return are_gluons or not self.left_behind(model, device)

    def finish(self, model: Model, optimizer: Any, device: Device) -> Any:  # noqa: ARG002
        """The ``Trainer`` works on unchanged; compiled graphs release old memory."""
        if isinstance(model, Block):
            _forget_static_memory(model)
        return optimizer

    # -- several devices ---------------------------------------------------------------------------

    def copy(self, model: Model) -> Model:
        """``copy.deepcopy``, which fails for compiled blocks and warns of what it has begun."""
        blocks = blocks_of(model) if isinstance(model, Block) else ()
        if any(getattr(block, "_cached_op", None) for _, block in blocks):
            raise UnsupportedOperation(
                "a copy of a hybridized block that has run",
                "its compiled graph cannot be copied: unidev.DataParallel(model, devices) needs no "
                "copy",
            )
        made = super().copy(model)
        # A deep copy has its gradients, but MXNet does not record for them: it is of arrays, and
        # what marks an array as a variable is beside it (1.9.1).
        for _, parameter in _all_parameters(made):
            if parameter._grad:
                autograd.mark_variables(parameter._data, parameter._grad, parameter.grad_req)
        return made

    # -- checkpoints -------------------------------------------------------------------------------

    def stored(self, model: Model) -> Mapping[str, Stored]:
        """All parameters, as in ``save_parameters``, under each of their names."""
        from unidev_mxnet.nn.layers import portable_names

        renamed = portable_names(model)
        found = {}
        for name, parameter in parameters_of(model):
            _check_dense(name, parameter)
            found[renamed.get(name, name)] = Stored(array_of(name, parameter))
        return found

    def read(self, x: Tensor) -> Array:
        """Waits; shares the memory of ``x`` if it is on the host."""
        is_on_host = x.stype == "default" and x.size and x.ctx.device_type.startswith("cpu")
        with numpy_shapes():
            values: Array = host_view(x) if is_on_host else x.asnumpy()
        return values if values.dtype.fields is None else values.view(np.uint16)

    def write(self, x: Tensor, values: Array) -> None:
        """Blocks until the values are written."""
        with numpy_shapes(), autograd.pause():
            x._sync_copyfrom(values.view(x.dtype) if _is_bfloat16(x) else values)

    # -- one parameter -----------------------------------------------------------------------------

    def _is_there(self, parameter: Parameter, device: Device) -> bool:
        """By its arrays and Gluon's record, which differ for a deep copy of an ``mx.np`` parameter.

        MXNet puts the copy into the current context, but copies the record unchanged.
        """
        arrays, gradients = parameter._data, parameter._grad
        if arrays is None:
            deferred = parameter._deferred_init
            return bool(deferred) and deferred[1] == [device.native]
        device_of = self.backend.device_of
        return (
            len(arrays) == 1
            and device_of(arrays[0]) is device
            and (gradients is None or device_of(gradients[0]) is device)
            and parameter._ctx_list == [device.native]
        )

    def optimizer_state(self, optimizer: Any) -> Mapping[str, Array]:
        """The state of a Trainer's updater, as named arrays."""
        return state_of(optimizer)

    def load_optimizer_state(
        self,
        model: Model,  # noqa: ARG002
        optimizer: Any,
        state: Mapping[str, Array],
    ) -> None:
        """Creates the states that are missing, and writes to them."""
        load_state(optimizer, state)


def _all_parameters(model: Model) -> Iterator[tuple[str, Parameter]]:
    yield from parameters_of(model)
    yield from hidden_parameters(model)


def _unique(named: Iterable[tuple[str, Parameter]]) -> Iterator[tuple[str, Parameter]]:
    seen = set()
    for name, parameter in named:
        if id(parameter) not in seen:
            seen.add(id(parameter))
            yield name, parameter


def _check_movable(name: str, parameter: Parameter) -> None:
    _check_dense(name, parameter)
    if parameter._data is None and not parameter._deferred_init:
        raise unbuilt(name, parameter)
    contexts = parameter._ctx_list if parameter._data else parameter._deferred_init[1]
    if len(contexts) != 1:
        raise spread(name, parameter)


def _check_dense(name: str, parameter: Parameter) -> None:
    if parameter._stype != "default":
        raise UnsupportedOperation(
            f"placing or reading {name!r}, whose storage is {parameter._stype},",
            "its rows are in the kvstore of its Trainer, not in the model",
        )


def _forget_static_memory(model: Block) -> None:
    """Recompile graphs hybridized with ``static_alloc``, which hold arrays on the old device."""
    for _, block in blocks_of(model):
        if isinstance(block, HybridBlock) and block._cached_op and not block._backend:
            block._cached_op = None


def _is_bfloat16(x: Tensor) -> bool:
    return np.dtype(x.dtype).fields is not None
