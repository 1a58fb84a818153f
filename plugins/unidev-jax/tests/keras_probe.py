"""Keras's models for the conformance suite, in the place of Flax's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import keras
import numpy as np

from unidev.contract import ModelProbe, unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDTH = 4


class Tied(keras.layers.Layer):
    """A dense layer that uses the kernel of another one."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        self.kernel = source.kernel
        self.bias = self.add_weight(shape=(WIDTH,), initializer="zeros", name="bias")
        self.built = True

    def call(self, x: Any) -> Any:
        return keras.ops.matmul(x, self.kernel) + self.bias


class Sample(keras.Model):
    """Two dense layers that share a kernel, a layer used twice, a frozen one, statistics."""

    is_training = False
    """What a call without ``training`` means: Keras's models have no mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first = built(keras.layers.Dense(WIDTH, kernel_initializer="zeros"))
        self.second = Tied(self.first)
        self.norm = built(keras.layers.BatchNormalization())
        self.inner = built(keras.layers.Dense(WIDTH, "tanh", kernel_initializer="zeros"))
        self.again = self.inner
        self.last = built(keras.layers.Dense(WIDTH, kernel_initializer="zeros"))
        self.last.trainable = False
        self.shift = self.add_weight(
            shape=(WIDTH,), initializer="zeros", trainable=False, name="shift"
        )
        self.built = True

    def call(self, x: Any, training: bool | None = None) -> Any:
        training = self.is_training if training is None else training
        y = self.norm(self.second(keras.ops.tanh(self.first(x))), training=training)
        return self.last(self.again(self.inner(y) + self.shift))


class Holding(keras.layers.Layer):
    """Has variables of given values."""

    def __init__(self, parameters: Mapping[str, Any], buffers: Mapping[str, Any]) -> None:
        super().__init__()
        self.by_name: dict[str, Any] = {}
        made: dict[int, Any] = {}
        for name, x in (*parameters.items(), *buffers.items()):
            if id(x) not in made:
                with jax.enable_x64(True):  # Keras would give a wide variable a narrow array
                    made[id(x)] = self.add_weight(
                        shape=x.shape, dtype=x.dtype.name, initializer="zeros",
                        trainable=name in parameters, name=name,
                    )  # fmt: skip
                made[id(x)].assign(x)
            self.by_name[name] = made[id(x)]
        self.built = True


def built(layer: Any) -> Any:
    layer.build((None, WIDTH))
    return layer


class KerasModelProbe(ModelProbe):
    """As that of TensorFlow's plugin; Keras on JAX computes where the variables are."""

    add_hook = unsupported(
        "Keras's models have no hooks", "https://keras.io/api/layers/base_layer/"
    )

    def model(self) -> Any:
        model = Sample()
        for number, variable in enumerate(model.weights):
            values = np.sin(np.arange(variable.value.size) * 0.7 + number).reshape(variable.shape)
            # A variance must be positive.
            values = (values + 2 if "variance" in variable.path else values) * 0.5
            variable.assign(jax.device_put(values.astype("float32"), self.backend.cpu.native))
        return model

    def tensors(self, model: Any) -> Mapping[str, Any]:
        if isinstance(model, Holding):
            return model.by_name
        if not isinstance(model, Sample):
            return {variable.path: variable for variable in model.variables}
        names = ("first", "second", "norm", "inner", "again", "last")
        found = {
            f"{name}.{variable.name}": variable
            for name in names
            for variable in getattr(model, name).variables
        }
        return {**found, "shift": model.shift}

    def objects(self, model: Any) -> Sequence[object]:
        return [*model.variables, *model.layers, model.again]

    def tied(self, model: Any) -> Sequence[tuple[Any, Any]]:
        return [(model.first.kernel, model.second.kernel)]

    def shared(self, model: Any) -> Sequence[tuple[object, object]]:
        return [(model.inner, model.again)]

    def frozen(self, model: Any) -> frozenset[str]:
        return frozenset(f"last.{x.name}" for x in model.last.variables if not x.trainable)

    def is_training(self, model: Any) -> bool | None:
        return None  # in Keras the mode is an argument of each call

    def set_inference(self, model: Any) -> None:
        """There is no mode to set."""

    def forward(self, model: Any, x: Any) -> Any:
        return model(x, training=False)

    def optimizer(self, model: Any) -> Any:
        return keras.optimizers.SGD(learning_rate=0.05, momentum=0.9)

    def counting_optimizer(self, model: Any, is_other: bool) -> Any:
        return keras.optimizers.Adam(learning_rate=0.01 if is_other else 0.05)

    def step(self, model: Any, optimizer: Any, x: Any) -> None:
        """By Keras's own way with JAX: ``stateless_call``."""
        trainable, others = model.trainable_variables, model.non_trainable_variables

        def loss_of(values: Any, others: Any) -> Any:
            y, others = model.stateless_call(values, others, x, training=True)
            return (y**2).sum(), others

        values = [v.value for v in trainable], [v.value for v in others]
        (_, new), gradients = jax.value_and_grad(loss_of, has_aux=True)(*values)
        for variable, value in zip(others, new, strict=True):
            variable.assign(value)
        optimizer.apply(gradients, trainable)

    def optimizer_tensors(self, optimizer: Any) -> Mapping[str, Any]:
        return {str(number): x for number, x in enumerate(optimizer.variables)}

    def unbuilt(self) -> Any:
        dense, norm = keras.layers.Dense, keras.layers.BatchNormalization
        return keras.Sequential([dense(WIDTH), norm(), dense(WIDTH)])

    def spread(self) -> Any:
        """Replicated over two simulated GPUs by ``keras.distribution``."""
        natives = np.array([self.backend.device("gpu", index).native for index in range(2)])
        everywhere = jax.sharding.NamedSharding(
            jax.sharding.Mesh(natives, ("data",)), jax.sharding.PartitionSpec()
        )
        model = built(keras.layers.Dense(WIDTH))
        for variable in model.variables:
            variable.assign(jax.device_put(variable.value, everywhere))
        return model

    def holding(self, parameters: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
        return Holding(parameters, buffers)
