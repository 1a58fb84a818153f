"""Sample models and optimizers, and gradients, using Keras's and TensorFlow's own calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras  # type: ignore[import-untyped]
import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import AutogradProbe, ModelProbe, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unidev.contract import Array, Device

_WIDTH = 4


class Tied(keras.layers.Layer):  # type: ignore[misc]
    """A dense layer that uses the kernel of another one."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        self.kernel = source.kernel
        self.bias = self.add_weight(shape=(_WIDTH,), initializer="zeros", name="bias")
        self.built = True

    def call(self, x: Any) -> Any:
        """As ``Dense``."""
        return keras.ops.matmul(x, self.kernel) + self.bias


class Sample(keras.Model):  # type: ignore[misc]
    """Two dense layers that share a kernel, a layer used twice, a frozen one, statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.first = _built(keras.layers.Dense(_WIDTH, kernel_initializer="zeros"))
        self.second = Tied(self.first)
        self.norm = _built(keras.layers.BatchNormalization())
        self.inner = _built(keras.layers.Dense(_WIDTH, "tanh", kernel_initializer="zeros"))
        self.again = self.inner
        self.last = _built(keras.layers.Dense(_WIDTH, kernel_initializer="zeros"))
        self.last.trainable = False
        self.shift = self.add_weight(
            shape=(_WIDTH,), initializer="zeros", trainable=False, name="shift"
        )
        self.built = True

    def call(self, x: Any, training: bool = False) -> Any:
        """Uses every layer."""
        y = self.norm(self.second(keras.ops.tanh(self.first(x))), training=training)
        return self.last(self.again(self.inner(y) + self.shift))


class TensorFlowModelProbe(ModelProbe):
    """Probe of :class:`Sample` and SGD with momentum; all in a scope of the model's device."""

    add_hook = unsupported(
        "Keras's models have no hooks", "https://keras.io/api/layers/base_layer/"
    )

    def model(self) -> Any:
        """Fills the weights without a random generator."""
        with tf.device("/device:CPU:0"):
            model = Sample()
            for number, variable in enumerate(model.weights):
                count = int(np.prod(variable.shape))
                values = np.sin(np.arange(count) * 0.7 + number).reshape(variable.shape)
                # A variance must be positive.
                variable.assign((values + 2 if "variance" in variable.path else values) * 0.5)
        return model

    def tensors(self, model: Any) -> Mapping[str, Any]:
        """Named by attribute; both names of a layer that has two."""
        if isinstance(model, Holding):
            return model.by_name
        if not isinstance(model, Sample):
            return {variable.path: variable for variable in model.variables}
        layers = {
            name: getattr(model, name)
            for name in ("first", "second", "norm", "inner", "again", "last")
        }
        found = {
            f"{place}.{variable.name}": variable
            for place, layer in layers.items()
            for variable in layer.variables
        }
        return {**found, "shift": model.shift}

    def objects(self, model: Any) -> Sequence[object]:
        """Keras's variables, the TensorFlow variables they hold, and layers."""
        return [*model.variables, *(x.value for x in model.variables), *model.layers, model.again]

    def tied(self, model: Any) -> Sequence[tuple[Any, Any]]:
        """The shared kernel of the first and the second layer."""
        return [(model.first.kernel, model.second.kernel)]

    def shared(self, model: Any) -> Sequence[tuple[object, object]]:
        """The layer used twice."""
        return [(model.inner, model.again)]

    def frozen(self, model: Any) -> frozenset[str]:
        """The variables of the frozen layer, by their own flag."""
        names = (f"last.{x.name}" for x in model.last.variables if not x.trainable)
        return frozenset(names)

    def is_training(self, model: Any) -> bool | None:  # noqa: ARG002
        """None: in Keras the mode is an argument of each call."""
        return None

    def set_inference(self, model: Any) -> None:
        """Does nothing: there is no mode to set."""

    def forward(self, model: Any, x: Any) -> Any:
        """With ``training=False``."""
        with tf.device(model.variables[0].value.device if model.variables else x.device):
            return model(x, training=False)

    def optimizer(self, model: Any) -> Any:
        """SGD with momentum, whose counters would otherwise be on the first GPU."""
        with tf.device(model.variables[0].value.device):
            return keras.optimizers.SGD(learning_rate=0.05, momentum=0.9)

    def step(self, model: Any, optimizer: Any, x: Any) -> None:
        """An ordinary training step; TensorFlow keeps no gradients."""
        with tf.device(model.shift.value.device):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(model(x, training=True)))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    def optimizer_tensors(self, optimizer: Any) -> Mapping[str, Any]:
        """The momenta; the step counter and the learning rate move as well."""
        return {str(number): x for number, x in enumerate(optimizer.variables)}

    def unbuilt(self) -> Any:
        """Keras's ``Sequential`` without an ``Input``."""
        dense, norm = keras.layers.Dense, keras.layers.BatchNormalization
        return keras.Sequential([dense(_WIDTH), norm(), dense(_WIDTH)])

    def spread(self) -> Any:
        """A model made in the scope of a ``MirroredStrategy``."""
        devices = [self.backend.device("gpu", index).native_name for index in range(2)]
        with tf.distribute.MirroredStrategy(devices).scope():
            return _built(keras.layers.Dense(_WIDTH))

    def compiled(self) -> Any:
        """A layer whose ``call`` is a ``tf.function``."""
        with tf.device("/device:CPU:0"):
            return _built(Compiled(_WIDTH, kernel_initializer="ones"))

    def counting_optimizer(self, model: Any, is_other: bool) -> Any:
        """Adam; Keras has no groups."""
        with tf.device(model.variables[0].value.device):
            return keras.optimizers.Adam(learning_rate=0.01 if is_other else 0.05)

    def holding(self, parameters: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
        """A layer without a ``call``."""
        with tf.device("/device:CPU:0"):
            return Holding(parameters, buffers)


class Holding(keras.layers.Layer):  # type: ignore[misc]
    """Has variables of given values."""

    def __init__(self, parameters: Mapping[str, Any], buffers: Mapping[str, Any]) -> None:
        super().__init__()
        self.by_name: dict[str, Any] = {}
        made: dict[int, Any] = {}
        for name, x in (*parameters.items(), *buffers.items()):
            if id(x) not in made:
                made[id(x)] = self.add_weight(
                    shape=x.shape, dtype=x.dtype.name, initializer="zeros",
                    trainable=name in parameters, name=name,
                )  # fmt: skip
                made[id(x)].assign(x)
            self.by_name[name] = made[id(x)]
        self.built = True


class Compiled(keras.layers.Dense):  # type: ignore[misc]
    """A dense layer that is traced when it is first called."""

    @tf.function  # type: ignore[untyped-decorator]
    def call(self, inputs: Any) -> Any:
        """As of the base class."""
        return super().call(inputs)


def _built(layer: Any) -> Any:
    layer.build((None, _WIDTH))
    return layer


class TensorFlowAutogradProbe(AutogradProbe):
    """Uses tapes. The function runs outside any scope: it decides itself where to compute."""

    is_differentiable = unsupported(
        "TensorFlow's tensors have no such flag: only the tape knows what it records",
        "https://www.tensorflow.org/guide/autodiff",
    )

    def gradients(
        self, function: Callable[..., Any], arrays: Sequence[Array], devices: Sequence[Device]
    ) -> Sequence[Any | None]:
        """``tape.gradient``, called in a scope of each source.

        TensorFlow computes gradients in the scope in which they are requested.
        """
        make = self.backend.probe.make
        xs = [make(array, device) for array, device in zip(arrays, devices, strict=True)]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(xs)
            total = tf.reduce_sum(function(*xs))
        found = []
        for x in xs:
            with tf.device(x.device):
                found.append(tape.gradient(total, x))
        return found

    def detach(self, x: Any) -> Any:
        """``tf.stop_gradient``, on the tensor's own device."""
        with tf.device(x.device):
            return tf.stop_gradient(x)

    def taken(self, x: Any, rows: Sequence[int]) -> Any:
        """``tf.gather``."""
        return tf.gather(x, list(rows))

    def recomputed(self, function: Callable[[Any], Any], x: Any) -> Any:
        """``tf.recompute_grad``, which finds variables that the function uses, but no tensors."""
        with tf.device(x.device):
            return tf.recompute_grad(function)(x)

    def second_order(self, function: Callable[[Any], Any], array: Array, device: Device) -> Any:
        """A tape inside a tape."""
        x = self.backend.probe.make(array, device)
        with tf.device(device.native), tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                total = tf.reduce_sum(function(x))
            first = tf.reduce_sum(inner.gradient(total, x))
        with tf.device(device.native):
            return outer.gradient(first, x)
