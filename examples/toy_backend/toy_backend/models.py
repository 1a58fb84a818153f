"""Models: trees of arrays, and modules, whose variables are set."""

from collections.abc import Mapping, Sequence

import numpy as np

from toy_backend import framework as toy
from unidev import Device, Models, Stored


class ToyModels(Models):
    rebuilds_containers = True  # dicts, dataclasses and the like of arrays need no more than that

    def tensors(self, model: toy.Module) -> Mapping[str, toy.Variable]:
        return dict(model.variables())

    def parameters(self, model: toy.Module) -> Mapping[str, toy.Variable]:
        unique = {id(x): path for path, x in reversed(self.tensors(model).items())}
        named = [(path, x) for path, x in model.variables() if unique[id(x)] == path]
        return {path: x for path, x in named if x.kind != "statistic"}

    def trainable(self, model: toy.Module) -> Mapping[str, toy.Variable]:
        return {path: x for path, x in self.parameters(model).items() if x.kind == "trained"}

    def parts(self, model: toy.Module, optimizer: toy.Module | None) -> Sequence[toy.Variable]:
        holders = [model] if optimizer is None else [model, optimizer]
        return list({id(x): x for holder in holders for _, x in holder.variables()}.values())

    def twin(self, part: toy.Variable, device: Device) -> toy.Variable:
        return toy.Variable(toy.put(part, device.native))

    def swap(self, part: toy.Variable, twin: toy.Variable) -> None:
        before = toy.constant(part)
        part.set(twin)
        twin.set(before)

    def stored(self, model: toy.Module) -> Mapping[str, Stored]:
        return {path: Stored(x) for path, x in model.variables()}

    def write(self, x: toy.Variable, values: np.ndarray) -> None:
        x.set(toy.array(values, x.device))
