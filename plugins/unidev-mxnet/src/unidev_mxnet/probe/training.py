"""A sample model, a ``Trainer``, and gradients, using Gluon's and MXNet's own calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]
import numpy as np
from mxnet import autograd
from mxnet.gluon import Block, Parameter, Trainer, nn  # type: ignore[import-untyped]

from unidev.contract import AutogradProbe, ModelProbe, unsupported
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from unidev.contract import Array, Device, Model, Tensor

    Optimizer = Any


class Keeping(nn.Dense):  # type: ignore[misc]
    """A block of the program's own, which may hold anything."""


class Sample(Block):  # type: ignore[misc]  # MXNet is untyped
    """A tied pair, a block at two places, batch norm, a frozen parameter and a constant."""

    def __init__(self, inputs: int = 4) -> None:
        super().__init__(prefix="sample_")  # Gluon would count the samples
        with self.name_scope():
            self.first = nn.Dense(4, in_units=inputs)
            self.second = nn.Dense(4, in_units=inputs, params=self.first.params)
            self.norm = nn.BatchNorm(in_channels=inputs)
            self.shared = nn.Dense(4, in_units=inputs)
            self.again = nn.Sequential()
            self.again.add(self.shared)
            self.scale = self.params.get("scale", shape=(4,), init="ones", grad_req="null")
            self.shift = self.params.get_constant("shift", np.full((4,), 0.25, "float32"))
        self.shared.bias.grad_req = "add"

    def forward(self, x: Tensor) -> Tensor:
        """Uses each part once; the tied and the shared one twice."""
        x = self.norm(mx.np.tanh(self.first(x)))
        x = self.second(self.shared(x)) * self.scale.data(x.ctx)
        return self.again(x) + self.shift.data(x.ctx)


class MxnetModelProbe(ModelProbe):
    """Buffers are Gluon parameters that training does not change; all are saved."""

    def model(self) -> Model:
        """Draws weights from a NumPy generator with a fixed seed."""
        with mx.util.np_shape(True), mx.util.np_array(True):
            made = Sample()
            made.initialize(mx.init.One(), ctx=mx.cpu())
            drawn = np.random.default_rng(7)
            for _, parameter in _named(made):
                if parameter.grad_req != "null":
                    parameter.set_data(mx.np.array(drawn.normal(size=parameter.shape) / 2))
        return made

    def tensors(self, model: Model) -> Mapping[str, Tensor]:
        """By structural names."""
        found = {}
        for name, parameter in _named(model):
            found[name] = parameter.data()
            if parameter.grad_req != "null":
                found[f"{name}.grad"] = parameter.grad()
        return found

    def objects(self, model: Model) -> Sequence[object]:
        """Parameters, their arrays, and blocks."""
        parameters = [parameter for _, parameter in _named(model)]
        arrays = [parameter.data() for parameter in parameters]
        return [*parameters, *arrays, model.first, model.second, model.norm, model.shared]

    def tied(self, model: Model) -> Sequence[tuple[Tensor, Tensor]]:
        """The weights of ``first`` and ``second``, and their biases."""
        return [
            (model.first.weight.data(), model.second.weight.data()),
            (model.first.bias.data(), model.second.bias.data()),
        ]

    def shared(self, model: Model) -> Sequence[tuple[object, object]]:
        """The block that is also in ``again``."""
        return [(model.shared, model.again[0])]

    def frozen(self, model: Model) -> frozenset[str]:
        """By ``grad_req``, without the buffers."""
        return frozenset(
            name
            for name, parameter in _named(model)
            if parameter.grad_req == "null"
            and parameter._differentiable
            and not isinstance(parameter, mx.gluon.Constant)
        )

    def is_training(self, model: Model) -> None:
        """None: the mode is autograd's, not the model's."""

    def set_inference(self, model: Model) -> None:
        """Does nothing: ``forward`` runs outside ``record``."""

    def forward(self, model: Model, x: Tensor) -> Tensor:
        """Runs outside ``record``."""
        with mx.util.np_shape(True), mx.util.np_array(True), autograd.pause():
            return model(x)

    def optimizer(self, model: Model) -> Optimizer:
        """``Trainer`` with momentum."""
        options = {"learning_rate": 0.05, "momentum": 0.9}
        with mx.util.np_array(True):  # the optimizer checks once whether arrays are NumPy's
            return Trainer(model.collect_params(), "sgd", options)

    def step(self, model: Model, optimizer: Optimizer, x: Tensor) -> None:
        """``backward`` and ``Trainer.step``; as after an earlier one, where gradients are added."""
        with mx.util.np_shape(True), mx.util.np_array(True):
            for _, parameter in _named(model):
                if parameter.grad_req == "add":
                    parameter.grad()[:] = 0.5
            with autograd.record():
                loss = mx.np.square(model(x)).sum()
            loss.backward()
            optimizer.step(1)

    def optimizer_tensors(self, optimizer: Optimizer) -> Mapping[str, Tensor]:
        """The momentum of each parameter, or Adam's two moments."""
        found: dict[str, Tensor] = {}
        for index, parameter in enumerate(optimizer._params):
            state = optimizer._updaters[0].states.get(index)
            several = state if isinstance(state, tuple) else [] if state is None else [state]
            found |= {f"{parameter.name}.{number}": x for number, x in enumerate(several)}
        return found

    def add_hook(self, model: Model, call: Callable[[], None]) -> None:
        """``register_forward_hook``."""
        model.register_forward_hook(lambda *_: call())

    def unbuilt(self) -> Model:
        """Initialized, with sizes that the first batch determines."""
        with mx.util.np_shape(True), mx.util.np_array(True):
            made = nn.Sequential()
            made.add(nn.Dense(4), nn.BatchNorm(), nn.Dense(4))
            made.initialize(mx.init.One(), ctx=mx.cpu())
        return made

    def keeping(self, x: Tensor) -> Model:
        """In a list, as Gluon registers no arrays."""
        model = Keeping(4, in_units=4)
        model.initialize(mx.init.One(), ctx=mx.cpu())
        model.kept = [x]
        return model

    def embedding(self, device: Device) -> tuple[Tensor, Tensor]:
        """``backward`` stores the gradient in the parameter."""
        with mx.util.np_shape(True), mx.util.np_array(True):
            layer = nn.Embedding(4, 2)
            layer.initialize(mx.init.One(), ctx=device.native)
            rows = mx.np.array([1, 2, 1], ctx=device.native)
            with autograd.record():
                loss = layer(rows).sum()
            loss.backward()
            return layer.weight.data(), layer.weight.grad()

    def spread(self) -> Model:
        """A copy of each parameter on each of two devices."""
        with mx.util.np_shape(True), mx.util.np_array(True):
            made = Sample()
            contexts = [self.backend.native_device("gpu", index) for index in (0, 1)]
            made.initialize(mx.init.One(), ctx=contexts)
        return made

    def compiled(self) -> Model:
        """A block that is hybridized with ``static_alloc``, and has run."""
        with mx.util.np_shape(True), mx.util.np_array(True):
            made = nn.Dense(4, in_units=4)
            made.initialize(mx.init.One(), ctx=mx.cpu())
            made.hybridize(static_alloc=True)
            made(mx.np.ones((2, 4)))
        return made

    def counting_optimizer(self, model: Model, is_other: bool) -> Optimizer:
        """``Trainer`` with Adam; Gluon has no groups."""
        with mx.util.np_array(True):
            options = {"learning_rate": 0.01 if is_other else 0.05}
            return Trainer(model.collect_params(), "adam", options)

    def holding(self, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor]) -> Model:
        """A block without a ``forward``; buffers are parameters without gradients."""
        made: dict[int, Parameter] = {}
        with mx.util.np_shape(True), mx.util.np_array(True):
            model = Block(prefix="holding_")
            for name, x in (*parameters.items(), *buffers.items()):
                if x.size == 0:
                    raise UnsupportedOperation(
                        "a parameter without elements",
                        "to Gluon, 0 is a size that is not known yet",
                    )
                if id(x) not in made:
                    request = "write" if name in parameters else "null"
                    found = model.params.get(name, shape=x.shape, dtype=x.dtype, grad_req=request)
                    found.initialize(_Nothing(), ctx=mx.cpu())
                    x.copyto(found.data())  # set_data fails without axes
                    made[id(x)] = found
                setattr(model, name, made[id(x)])
        return model


class _Nothing(mx.init.Initializer):  # type: ignore[misc]  # MXNet is untyped
    """MXNet's own ones fail for arrays without axes."""

    def _init_weight(self, name: str, array: Tensor) -> None:
        pass


def _named(model: Model) -> Iterator[tuple[str, Parameter]]:
    yield from model._collect_params_with_prefix().items()


class _Again(autograd.Function):  # type: ignore[misc]
    """Calls a function of NumPy's arrays in ``backward`` again; MXNet takes the old ones here."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, _: Tensor) -> Tensor:
        self.x = x.as_np_ndarray()
        return self.function(self.x).as_nd_ndarray()

    def backward(self, slope: Tensor) -> tuple[Tensor, Tensor]:
        with mx.util.np_shape(True), mx.util.np_array(True):
            x = self.x.copy()
            x.attach_grad()
            # Else a batch norm writes its statistics, and waits for those who read them before, who
            # wait for this (1.9.1).
            with autograd.record(train_mode=False):
                y = self.function(x)
            y.backward(slope.as_np_ndarray())
            return x.grad.as_nd_ndarray(), mx.nd.zeros((1,), ctx=x.ctx)


class MxnetAutogradProbe(AutogradProbe):
    """Uses ``attach_grad``, ``record`` and ``backward``. MXNet has no ``requires_grad``."""

    def gradients(
        self, function: Callable[..., Tensor], arrays: Sequence[Array], devices: Sequence[Device]
    ) -> Sequence[Tensor | None]:
        """The buffers that ``backward`` wrote; None for the others."""
        with mx.util.np_shape(True), mx.util.np_array(True):
            xs = [_variable(*given) for given in zip(arrays, devices, strict=True)]
            with autograd.record():
                total = function(*xs).sum()
            total.backward()
            return [x.grad if x._fresh_grad else None for x in xs]

    def taken(self, x: Tensor, rows: Sequence[int]) -> Tensor:
        """``mx.np.take``."""
        return mx.np.take(x, mx.np.array(rows, dtype="int32", ctx=x.ctx), axis=0)

    def recomputed(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """A function of the user's, as MXNet has none; recorded for the sake of a second input."""
        more = mx.nd.ones((1,), ctx=x.ctx)
        more.attach_grad()
        y: Tensor = _Again(function)(x.as_nd_ndarray(), more).as_np_ndarray()
        return y

    second_order = unsupported(
        "few of MXNet's operators have a second derivative, and multiplication does not",
        "https://github.com/apache/mxnet/blob/1.9.1/python/mxnet/autograd.py#L278",
    )


def _variable(array: Array, device: Device) -> Tensor:
    x = mx.np.array(np.ascontiguousarray(array).reshape(array.shape), ctx=device.native)
    x.attach_grad()
    return x
