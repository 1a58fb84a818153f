"""TensorFlow's models: Keras's layers and models, ``tf.Module``, and those of ``unidev.nn``."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]
from tensorflow.python.eager import record  # type: ignore[import-untyped]

from unidev.contract import kind_of
from unidev.errors import UnsupportedOperation
from unidev_tensorflow.deep_copy.eager import HOSTED
from unidev_tensorflow.memory.extents import host_array
from unidev_tensorflow.models import optimizers, swap
from unidev_tensorflow.models.swap import native_variable
from unidev_tensorflow.models.traces import Traces, traces_of
from unidev_tensorflow.models.tree import Tree, constants
from unidev_tensorflow.tensors import DISTRIBUTED, EAGER, keras_optimizers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from unidev.contract import Array, Device
    from unidev_tensorflow.backend import TensorFlowBackend


class TensorFlowModels(Tree):
    """A part is a few of TensorFlow's variables, whose handles move, or a function's traces."""

    backend: TensorFlowBackend

    def parts(self, model: Any, optimizer: Any) -> Sequence[Any]:
        """Includes the metrics and the optimizers that ``compile`` has put into the model."""
        variables = [found.variable for found in self.walk(model)]
        variables += optimizers.variables_beside(self.all_layers(model), optimizer)
        kinds = keras_optimizers()  # once: many objects are asked about
        for own in self.kept(model, lambda x: isinstance(x, kinds)):
            variables += optimizers.variables_of(own)
        unique = {id(variable): variable for variable in map(native_variable, variables)}
        for variable in unique.values():
            _check_movable(variable)
        return swap.parts_of(unique.values())

    def compiled(
        self, model: Any, known: Sequence[Any] | None, parts: Sequence[Any] = ()
    ) -> Sequence[Any]:
        """Traces of ``tf.function``s with variables of ``model``, which trace again after moves."""
        variables = {id(x): x for part in parts for x in part} or {
            id(x): x for x in (native_variable(found.variable) for found in self.walk(model))
        }
        return traces_of(list(variables.values()), self.backend.device_of, known)

    def is_on(self, part: Any, device: Device) -> bool:
        """Whether all its variables are."""
        if isinstance(part, Traces):
            return part.device is device
        return all(self._has(device, variable) for variable in part)

    def _has(self, device: Device, variable: Any) -> bool:
        """TensorFlow keeps int32 and strings on the host, even for a GPU."""
        there = self.backend.device_of(variable._handle)
        return there is device or (
            variable.dtype in HOSTED
            and not self.backend.is_on_host(device)
            and self.backend.is_on_host(there)
        )

    def is_placed(self, model: Any, device: Device) -> bool:
        """Ignores metrics, which Keras creates late."""
        kept = [x for layer in self.derived(model) for x in constants(layer).values()]
        if any(self.backend.device_of(x) is not device for x in kept):
            return False
        try:
            for found in self.walk(model):
                variable = native_variable(found.variable)
                if variable is None or isinstance(variable, DISTRIBUTED):
                    return False
                if not self._has(device, variable):
                    return False
        except UnsupportedOperation:
            return False
        return True

    def twin(self, part: Any, device: Device) -> Any:
        """Other handles, which hold the copies' memory: TensorFlow copies it only on write."""
        if isinstance(part, Traces):
            return part.twin(device)
        name = self.backend.full_name(device)
        twins = swap.twin_of(part, self._copied(part, device), name)
        for variable, twin in zip(part, twins, strict=True):
            if twin._handle.device != name:
                raise UnsupportedOperation(
                    f"a {variable.dtype.name} variable on {device}",
                    f"TensorFlow put it on {twin._handle.device}",
                )
        return twins

    def _copied(self, part: Any, device: Device) -> list[Any]:
        source = part[0]._handle.device
        return self.backend.copies(swap.values_of(part, source), source, device)

    def swap(self, part: Any, twin: Any) -> None:
        """All that belongs to the handles moves with them."""
        if isinstance(part, Traces):
            part.swap(twin)
        else:
            swap.swap(part, twin)

    def place(self, model: Any, device: Device, optimizer: Any = None) -> Any:
        """Runs outside any graph that is being traced, and is not recorded by tapes."""
        with tf.init_scope(), record.stop_recording():
            return super().place(model, device, optimizer)

    def finish(self, model: Any, optimizer: Any, device: Device) -> Any:
        """Makes Keras retrace its functions."""
        self.adapt(model, device)
        optimizers.forget_traces(self.all_layers(model))
        return optimizer

    def namespaces(self, model: Any) -> Sequence[dict[str, Any]]:
        """The attributes that ``adapt`` changes."""
        return [vars(layer) for layer in self.derived(model)]

    def adapt(self, model: Any, device: Device) -> None:
        """Makes the constants of layers anew, of their variables."""
        layers = self.derived(model)
        before = [(layer, constants(layer)) for layer in layers]
        try:
            with tf.init_scope(), record.stop_recording(), self.backend.native_scope(device):
                for layer in layers:
                    layer.finalize_state()
                    for name, x in constants(layer).items():
                        if self.backend.device_of(x) is not device:
                            setattr(layer, name, self.backend.copy_to(x, device, False))
        except BaseException:
            for layer, held in before:
                vars(layer).update(held)
            raise

    @contextmanager
    def allocated(self, model: Any, device: Device) -> Iterator[None]:  # noqa: ARG002
        """In the end, makes constants of what was loaded; what had the old ones traces again."""
        yield
        device_of = self.backend.device_of
        for layer in self.derived(model):
            held = [SimpleNamespace(_handle=x) for x in constants(layer).values()]
            for traces in traces_of(held, lambda x: device_of(x._handle), None):
                traces.swap(traces.twin(traces.device))
            self.adapt(layer, device_of(held[0]._handle))
            optimizers.forget_traces(self.all_layers(model))

    statistics_names = Tree.statistics_names | {"moving_mean", "moving_variance"}

    def read(self, x: Any) -> Array:
        """The variable's own memory, if that is on the host."""
        variable = native_variable(x)
        with tf.init_scope(), record.stop_recording(), tf.device(variable.device):
            is_tensor = isinstance(variable, tf.Tensor)
            values = host_array(variable if is_tensor else variable.value())
        return values.view("uint16") if variable.dtype == tf.bfloat16 else values

    def write(self, x: Any, values: Array) -> None:
        """Assigns new memory on the variable's device."""
        variable = native_variable(x)
        if variable.dtype == tf.bfloat16:
            values = values.view(tf.bfloat16.as_numpy_dtype)
        with tf.init_scope(), record.stop_recording():
            device = self.backend.device_of(variable)
            new = self.backend.from_numpy(values, variable.dtype, device)
            with self.backend.native_scope(device):
                variable.assign(new, read_value=False)

    def optimizer_state(self, optimizer: Any) -> Mapping[str, Array]:
        """The variables of a Keras optimizer."""
        return optimizers.state_of(optimizer)

    def load_optimizer_state(self, model: Any, optimizer: Any, state: Mapping[str, Array]) -> None:
        """By ``assign``; builds a new optimizer."""
        optimizers.load_state(model, optimizer, state)


def _check_movable(variable: Any) -> None:
    """Refuse a variable with several handles, or with a cache that would not move.

    Raises:
        UnsupportedOperation: gives the reason, and what to do.
    """
    if isinstance(variable, DISTRIBUTED):
        raise UnsupportedOperation(
            f"moving a {kind_of(variable)}",
            "a strategy has spread it over several devices: make the model outside of "
            "strategy.scope() and load its weights there",
            "https://www.tensorflow.org/guide/distributed_training",
        )
    if not isinstance(getattr(variable, "_handle", None), EAGER):
        raise UnsupportedOperation(
            f"moving a {kind_of(variable)}", "it was not created eagerly, and has no memory to move"
        )
    if variable._caching_device is not None or variable._cached_value is not None:
        raise UnsupportedOperation("moving a variable with a caching_device", "make it without one")
