"""Sample models for the conformance suite, by the framework's own calls."""

from collections.abc import Mapping

import numpy as np

from toy_backend import framework as toy
from unidev.contract import SampleProbe


class Sample:
    """Two layers of one weight, a block that is called twice, a frozen scale, a running mean."""

    is_training = True

    def __init__(self) -> None:
        weight = _variable(4, 4)
        self.first, self.second = (toy.Dense(weight, _variable(1, 4)) for _ in range(2))
        self.block = self.again = toy.Dense(_variable(4, 4), _variable(1, 4))
        self.scale, self.mean = _variable(1, 4, kind="frozen"), _variable(1, 4, kind="statistic")

    def __call__(self, x: toy.Array) -> toy.Array:
        x = self.second(self.again(self.block(self.first(x)))) * self.scale
        if not self.is_training:
            return x - self.mean
        rows = x.shape[0]
        mean = toy.full((1, rows), 1 / rows, x.dtype, x.device) @ x
        self.mean.set(self.mean * 0.9 + mean * 0.1)
        return x - mean


def _variable(*shape: int, kind: str = "trained") -> toy.Variable:
    values = np.arange(np.prod(shape), dtype="float32").reshape(shape) % 5 / 4 - 0.4
    return toy.Variable(toy.array(values, "host"), kind)


class ToyModelProbe(SampleProbe):
    def model(self) -> Sample:
        return Sample()

    def optimizer(self, model: Sample) -> toy.Momentum:
        return toy.Momentum()

    def step(self, model: Sample, optimizer: toy.Momentum, x: toy.Array) -> None:
        variables = list(
            {id(x): x for _, x in toy.variables(model) if x.kind == "trained"}.values()
        )

        def loss_of(model: Sample) -> toy.Array:
            y = model(x)
            return (y * y).sum()

        optimizer.step(variables, toy.value_and_grad_of_model(loss_of, model, variables)[1])

    def optimizer_tensors(self, optimizer: toy.Momentum) -> Mapping[str, toy.Array]:
        return dict(toy.variables(optimizer))

    def kept(self, x: toy.Array, is_parameter: bool) -> toy.Variable:
        return toy.Variable(x, "trained" if is_parameter else "statistic")
