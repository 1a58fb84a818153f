"""Gradients and sample models for the profile ``train``, by JAX's and Flax's own calls."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import AutogradProbe, ModelProbe, unsupported
from unidev_jax.framework import jax, jnp
from unidev_jax.models.flax import nnx

optax: Any = import_module("optax")

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unidev.contract import Array, Device


class JaxAutogradProbe(AutogradProbe):
    """``jax.vjp`` and ``jax.grad``."""

    is_differentiable = unsupported(
        "JAX's arrays have no such flag: it differentiates functions of its tracers",
        "https://docs.jax.dev/en/latest/automatic-differentiation.html",
    )

    def gradients(
        self, function: Callable[..., Any], arrays: Sequence[Array], devices: Sequence[Device]
    ) -> Sequence[Any | None]:
        """JAX has zeros where there is no way, so zeros everywhere count as None.

        ``jax.grad`` begins with a 1 that is on the default device, where a gradient that is nothing
        but that 1 then stays: so the 1 is put beside the result.
        """
        xs = [self.backend.probe.make(x, device) for x, device in zip(arrays, devices, strict=True)]
        is_traced = True

        def total(*traced: Any) -> Any:
            nonlocal is_traced
            result = function(*traced).sum()
            is_traced = isinstance(result, jax.core.Tracer)
            return result

        with jax.enable_x64(any(x.dtype.itemsize > 4 for x in xs)):
            result, pull = jax.vjp(total, *xs)
            found = pull(jax.device_put(jnp.ones_like(result), result.sharding))
        return [each if is_traced and np.asarray(each).any() else None for each in found]

    def detach(self, x: Any) -> Any:
        """``jax.lax.stop_gradient``."""
        return jax.lax.stop_gradient(x)

    def taken(self, x: Any, rows: Sequence[int]) -> Any:
        """``jnp.take``."""
        return jnp.take(x, np.array(rows), axis=0)

    def recomputed(self, function: Callable[[Any], Any], x: Any) -> Any:
        """``jax.checkpoint``."""
        return jax.checkpoint(function)(x)

    def second_order(self, function: Callable[[Any], Any], array: Array, device: Device) -> Any:
        """``jax.grad`` of ``jax.grad``."""
        x = self.backend.probe.make(array, device)
        first = jax.grad(lambda x: function(x).sum())
        return jax.grad(lambda x: first(x).sum())(x)


class _Block(nnx.Module):  # type: ignore[misc]
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.dense = nnx.Linear(4, 4, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return jnp.tanh(self.dense(x))


class _Sample(nnx.Module):  # type: ignore[misc]
    """Two dense layers with one kernel, a shared block, and a variable of each other kind."""

    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.first = nnx.Linear(4, 4, rngs=rngs)
        self.second = nnx.Linear(4, 4, rngs=rngs)
        self.second.kernel = self.first.kernel
        self.block = _Block(rngs)
        self.again = self.block
        self.frozen = nnx.Param(jnp.full((4,), 0.5), trainable=False)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.offset = nnx.Cache(jnp.full((4,), 0.25))
        self.scale = jnp.full((4,), 1.25)
        self.calls: Callable[[], None] | None = None

    def __call__(self, x: Any) -> Any:
        if self.calls is not None:
            self.calls()
        x = self.again(self.block(self.first(x)))
        x = self.second(x) * self.frozen[...] + self.offset[...]
        return self.norm(x * self.scale)


def _is_trained(path: Any, x: Any) -> bool:  # noqa: ARG001  the filters of Flax get both
    return isinstance(x, nnx.Param) and bool(x.get_metadata("trainable", True))


class JaxModelProbe(ModelProbe):
    """A Flax module, and ``nnx.Optimizer``."""

    earlier_optimizer = unsupported(
        "an nnx.Optimizer has arrays of its own from the start: it has to be passed to place",
        "https://flax.readthedocs.io/en/stable/api_reference/flax.nnx/training/optimizer.html",
    )

    def model(self) -> Any:
        """Committed to the CPU, as JAX computes elsewhere otherwise."""
        model = _Sample()
        native = self.backend.cpu.native
        nnx.update(model, jax.device_put(nnx.state(model), native))
        return model

    def tensors(self, model: Any) -> Mapping[str, Any]:
        """By attributes; JAX keeps no gradients."""
        if isinstance(model, nnx.Dict):
            return dict(model)
        found = {}
        for name, layer in (
            ("first", model.first),
            ("second", model.second),
            ("block.dense", model.block.dense),
            ("again.dense", model.again.dense),
        ):
            found[f"{name}.kernel"], found[f"{name}.bias"] = layer.kernel, layer.bias
        for name in ("scale", "bias", "mean", "var"):
            found[f"norm.{name}"] = getattr(model.norm, name)
        return {**found, "frozen": model.frozen, "offset": model.offset, "scale": model.scale}

    def objects(self, model: Any) -> Sequence[object]:
        """Variables and modules."""
        return [
            model.first, model.first.kernel, model.first.bias, model.second, model.second.bias,
            model.block, model.block.dense.kernel, model.norm, model.norm.scale, model.norm.mean,
            model.frozen, model.offset,
        ]  # fmt: skip

    def tied(self, model: Any) -> Sequence[tuple[Any, Any]]:
        """The kernel."""
        return [(model.first.kernel, model.second.kernel)]

    def shared(self, model: Any) -> Sequence[tuple[object, object]]:
        """The block."""
        return [(model.block, model.again)]

    def frozen(self, model: Any) -> frozenset[str]:
        """By the metadata."""
        return frozenset({"frozen"} if not model.frozen.get_metadata("trainable") else ())

    def is_training(self, model: Any) -> bool | None:
        """By the flag of batch normalisation."""
        return not model.norm.use_running_average

    def set_inference(self, model: Any) -> None:
        """``eval``."""
        model.eval()

    def forward(self, model: Any, x: Any) -> Any:
        """``nnx.view``, which does not change the model's mode."""
        return nnx.view(model, use_running_average=True)(x)

    def optimizer(self, model: Any) -> Any:
        """SGD with momentum."""
        return self._optimizer(model, optax.sgd(0.05, momentum=0.9))

    def counting_optimizer(self, model: Any, is_other: bool) -> Any:
        """Adam, whose learning rate is part of its state."""
        adam = optax.inject_hyperparams(optax.adam)
        return self._optimizer(model, adam(learning_rate=0.02 if is_other else 0.01))

    def _optimizer(self, model: Any, transformation: Any) -> Any:
        optimizer = nnx.Optimizer(model, transformation, wrt=_is_trained)
        (native,) = model.first.bias.get_value().devices()
        nnx.update(optimizer, jax.device_put(nnx.state(optimizer), native))
        return optimizer

    def step(self, model: Any, optimizer: Any, x: Any) -> None:
        """``nnx.grad`` and ``update``."""
        wrt = nnx.DiffState(0, _is_trained)
        gradients = nnx.grad(lambda model: (model(x) ** 2).sum(), argnums=wrt)(model)
        optimizer.update(model, gradients)

    def optimizer_tensors(self, optimizer: Any) -> Mapping[str, Any]:
        """Its variables."""
        return {
            ".".join(map(str, path)): x
            for path, x in nnx.iter_graph(optimizer)
            if isinstance(x, nnx.Variable)
        }

    def add_hook(self, model: Any, call: Callable[[], None]) -> None:
        """Flax has none: the sample's own."""
        model.calls = call

    def spread(self) -> Any:
        """Replicated over two simulated GPUs by ``NamedSharding``."""
        natives = [self.backend.device("gpu", index).native for index in range(2)]
        mesh = jax.sharding.Mesh(np.array(natives), ("data",))
        everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        model = _Sample()
        nnx.update(model, jax.device_put(nnx.state(model), everywhere))
        return model

    def holding(self, parameters: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
        """An ``nnx.Dict`` of ``nnx.Param`` and ``nnx.Variable``."""
        made: dict[int, Any] = {}
        model = nnx.Dict()
        for kind, given in ((nnx.Param, parameters), (nnx.Variable, buffers)):
            for name, x in given.items():
                made.setdefault(id(x), kind(jax.device_put(x, self.backend.cpu.native)))
                setattr(model, name, made[id(x)])
        return model
