"""Models: trees of arrays, and any objects that hold variables, which are set."""

from collections.abc import Iterable

from toy_backend import framework as toy
from unidev import Device
from unidev.contract import ListedModels

TRAINED = {"trained": True, "frozen": False, "statistic": None}


class ToyModels(ListedModels):
    rebuilds_containers = True  # dicts, dataclasses and the like of arrays need no more than that

    def listed(self, model: object) -> Iterable[tuple[str, toy.Variable, bool | None]]:
        return ((path, x, TRAINED[x.kind]) for path, x in toy.variables(model))

    def twin(self, part: toy.Variable, device: Device) -> toy.Variable:
        return toy.Variable(toy.put(part, device.native))

    def swap(self, part: toy.Variable, twin: toy.Array) -> None:
        before = toy.constant(part)
        part.set(twin)
        if isinstance(twin, toy.Variable):  # else new values, which nobody else has
            twin.set(before)
