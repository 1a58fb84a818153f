"""Sample models and optimizers, and gradients, using Paddle's own calls."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import AutogradProbe, ModelProbe
from unidev_paddle.framework import paddle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from unidev.contract import Array, Device, Tensor

    Layer = Any
    Optimizer = Any


class Wrapping(paddle.optimizer.SGD):  # type: ignore[misc]
    """Leaves the work to another."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(0.05, parameters)
        self.inner = paddle.optimizer.Momentum(0.05, parameters=parameters)

    def step(self) -> None:
        """That of the other."""
        self.inner.step()


class Keeping(paddle.nn.Linear):  # type: ignore[misc]
    """A layer of the program's own, which may hold anything."""


class Sample(paddle.nn.Layer):  # type: ignore[misc]  # Paddle is untyped here
    """Has every kind of content that a model can have; ``(n, 4)`` to ``(n, 4)``."""

    def __init__(self) -> None:
        super().__init__()
        self.first = _linear(1)
        self.tied = _linear(2)
        self.tied.weight = self.first.weight
        self.shared = _linear(3)
        self.again = paddle.nn.Sequential(paddle.nn.Tanh(), self.shared)
        self.frozen = _linear(4)
        self.frozen.weight.stop_gradient = True
        self.norm = paddle.nn.BatchNorm1D(4)
        self.register_buffer("kept", paddle.to_tensor(_numbers((4,), 5)))
        self.register_buffer("dropped", paddle.to_tensor(_numbers((4,), 6)), persistable=False)

    def forward(self, x: Tensor) -> Tensor:
        """Uses every layer."""
        hidden = self.tied(paddle.tanh(self.first(x)))
        hidden = self.norm(self.frozen(self.again(self.shared(hidden))))
        return hidden * self.kept + self.dropped


class PaddleModelProbe(ModelProbe):
    """Probe of Paddle's models."""

    def model(self) -> Layer:
        """Made on Paddle's default device, and moved by ``Layer.to``."""
        return Sample().to("cpu")

    def tensors(self, model: Layer) -> Mapping[str, Tensor]:
        """Walks the layers, since ``named_parameters`` lists a tied one only once."""
        named: dict[str, Tensor] = {}
        for prefix, layer in _places(model, ""):
            own = {**layer._parameters, **layer._buffers}
            named |= {prefix + name: x for name, x in own.items() if x is not None}
        gradients = {f"{name}.grad": x.grad for name, x in named.items() if x.grad is not None}
        return named | gradients

    def objects(self, model: Layer) -> Sequence[object]:
        """``parameters()`` and ``sublayers()``."""
        return [*model.parameters(), *model.sublayers()]

    def tied(self, model: Layer) -> Sequence[tuple[Tensor, Tensor]]:
        """A weight that two layers share."""
        return [(model.first.weight, model.tied.weight)]

    def shared(self, model: Layer) -> Sequence[tuple[object, object]]:
        """A layer used alone and in a ``Sequential``."""
        return [(model.shared, model.again[1])]

    def frozen(self, model: Layer) -> frozenset[str]:
        """By ``stop_gradient``; to unidev, the statistics of batch norm are not parameters."""
        return frozenset(
            name
            for name, x in model.named_parameters()
            if x.stop_gradient and not name.startswith("norm._")
        )

    def is_training(self, model: Layer) -> bool | None:
        """``training``."""
        return bool(model.training)

    def set_inference(self, model: Layer) -> None:
        """``eval``."""
        model.eval()

    def forward(self, model: Layer, x: Tensor) -> Tensor:
        """In ``eval`` mode, under ``no_grad``."""
        was_training = model.training
        model.eval()
        try:
            with paddle.no_grad():
                return model(x)
        finally:
            if was_training:
                model.train()

    def optimizer(self, model: Layer) -> Optimizer:
        """``Momentum``."""
        return paddle.optimizer.Momentum(0.01, parameters=model.parameters())

    def step(self, model: Layer, optimizer: Optimizer, x: Tensor) -> None:
        """``backward`` and ``step``, with the model's device as Paddle's default one.

        There an optimizer creates its state, and it moves the parameters to its state.
        """
        with _default_device(model.first.weight.place), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # BatchNorm1D, at each call while training
            optimizer.clear_grad()
            (model(x) ** 2).sum().backward()
            optimizer.step()

    def keeping(self, x: Tensor) -> Layer:
        """In a list: Paddle registers tensors in attributes."""
        model = Keeping(4, 4)
        model.kept = [x]
        return model

    def embedding(self, device: Device) -> tuple[Tensor, Tensor]:
        """``backward`` stores the gradient in ``weight.grad``."""
        layer = paddle.nn.Embedding(4, 2).to(device.native)
        rows = paddle.to_tensor(np.array([1, 2, 1]), place=device.native)
        layer(rows).sum().backward()
        return layer.weight, layer.weight.grad

    def wrapping_optimizer(
        self, model: Layer
    ) -> tuple[Optimizer, Callable[[], Mapping[str, Tensor]]]:
        """SGD with momentum in another one."""
        made = Wrapping(parameters=model.parameters())
        return made, lambda: self.optimizer_tensors(made.inner)

    def optimizer_tensors(self, optimizer: Optimizer) -> Mapping[str, Tensor]:
        """``state_dict``, by position: its names are numbered per process."""
        state = optimizer.state_dict().values()
        return {f"state.{number}": x for number, x in enumerate(state)}

    def add_hook(self, model: Layer, call: Callable[[], None]) -> None:
        """Runs after the forward."""

        def hook(_layer: Layer, _given: Any, _result: Any) -> None:
            call()

        model.register_forward_post_hook(hook)

    def unsaved(self, _: Layer) -> frozenset[str]:
        """By ``persistable=False``."""
        return frozenset({"dropped"})

    def compiled(self) -> Layer:
        """A layer that ``to_static`` wraps."""
        return paddle.jit.to_static(_linear(1).to("cpu"), full_graph=True)

    def counting_optimizer(self, model: Layer, is_other: bool) -> Optimizer:
        """``Adam``, with two groups."""
        first, *others = model.parameters()
        groups = [{"params": others}, {"params": [first], "learning_rate": 0.5}]
        return paddle.optimizer.Adam(0.01 if is_other else 0.05, parameters=groups)

    def holding(self, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor]) -> Layer:
        """A layer without a ``forward``."""
        model = paddle.nn.Layer()
        made: dict[int, Tensor] = {}
        for name, x in parameters.items():
            if id(x) not in made:
                made[id(x)] = paddle.base.framework.EagerParamBase.from_tensor(x.clone())
            model.add_parameter(name, made[id(x)])
        for name, x in buffers.items():
            model.register_buffer(name, x.clone())
        return model


def _linear(number: int) -> Layer:
    assign = paddle.nn.initializer.Assign
    return paddle.nn.Linear(
        4,
        4,
        weight_attr=paddle.ParamAttr(initializer=assign(_numbers((4, 4), number))),
        bias_attr=paddle.ParamAttr(initializer=assign(_numbers((4,), number + 10))),
    )


def _numbers(shape: tuple[int, ...], number: int) -> Any:
    return np.random.default_rng(number).uniform(-1, 1, shape).astype(np.float32)


def _places(layer: Layer, prefix: str) -> Iterator[tuple[str, Layer]]:
    yield prefix, layer
    for name, child in layer.named_children():
        yield from _places(child, f"{prefix}{name}.")


@contextlib.contextmanager
def _default_device(place: Any) -> Iterator[None]:
    before = paddle.get_device()
    name = "cpu" if place.is_cpu_place() else str(place).removeprefix("Place(").removesuffix(")")
    paddle.set_device(name)
    try:
        yield
    finally:
        paddle.set_device(before)


class _Passing(paddle.autograd.PyLayer):  # type: ignore[misc]  # Paddle is untyped here
    @staticmethod
    def forward(ctx: Any, gradients: Callable[[], Sequence[Tensor]], *xs: Tensor) -> Tensor:
        ctx.gradients = gradients
        return xs[0].sum()

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> Any:
        return tuple(ctx.gradients())


class PaddleAutogradProbe(AutogradProbe):
    """Uses ``backward`` and ``paddle.grad``."""

    def gradients(
        self, function: Callable[..., Tensor], arrays: Sequence[Array], devices: Sequence[Device]
    ) -> Sequence[Tensor | None]:
        """``backward``, then ``x.grad``."""
        xs = [_made(array, device) for array, device in zip(arrays, devices, strict=True)]
        result = function(*xs)
        if not result.stop_gradient:
            result.sum().backward()
        return [x.grad for x in xs]

    def second_order(
        self, function: Callable[[Tensor], Tensor], array: Array, device: Device
    ) -> Tensor:
        """``create_graph``."""
        x = _made(array, device)
        (gradient,) = paddle.grad(function(x).sum(), [x], create_graph=True)
        (bend,) = paddle.grad(gradient.sum(), [x])
        return bend

    def recomputed(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Reentrant, which is Paddle's default; it does nothing for an ``x`` without gradients."""
        x.stop_gradient = False
        return paddle.distributed.fleet.utils.recompute(function, x, use_reentrant=True)

    def passing(self, xs: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
        """A ``PyLayer``, which would take a list of tensors for further inputs."""
        return _Passing.apply(lambda: gradients, *xs)

    def taken(self, x: Tensor, rows: Sequence[int]) -> Tensor:
        """``paddle.gather``."""
        return paddle.gather(x, paddle.to_tensor(list(rows), place=x.place))

    def is_differentiable(self, x: Tensor) -> bool:
        """Not ``stop_gradient``."""
        return not x.stop_gradient


def _made(array: Array, device: Device) -> Tensor:
    return paddle.to_tensor(array, place=device.native, stop_gradient=False)
