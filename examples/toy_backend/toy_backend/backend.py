"""Adapts the framework's devices and arrays to unidev."""

import numpy as np

from toy_backend import framework as toy
from unidev import Backend, Device, Extent, part
from unidev.contract import found_in

DEVICES = {"host": ("cpu", 0), "chip": ("gpu", 0)}


class ToyBackend(Backend):
    tensor_types = (toy.Array,)  # `Traced` and `Variable`, its subclasses, included
    model_types = (toy.Momentum,)  # models are plain classes: see `is_model`
    dtypes = {name: name for name in toy.DTYPES}
    autograd = part("toy_backend.autograd:ToyAutograd")
    models = part("toy_backend.models:ToyModels")
    probe = part("toy_backend.probe:ToyProbe")

    def device_count(self, kind: str) -> int:
        return 1

    def native_device(self, kind: str, index: int) -> str:
        return "chip" if kind == "gpu" else "host"

    def parse_native(self, spec: object) -> tuple[str, int] | None:
        return DEVICES.get(spec) if isinstance(spec, str) else None

    def device_of(self, x: toy.Array) -> Device:
        return self.device(*DEVICES[x.device])

    def copy_to(self, x: toy.Array, device: Device, non_blocking: bool) -> toy.Array:
        copy = toy.put(x, device.native)  # the framework's own, so that it is differentiated
        _ = copy.values  # computed now: the copy has memory of its own, and does not keep that of x
        return copy

    def from_numpy(self, values: np.ndarray, dtype: str, device: Device) -> toy.Array:
        return toy.array(values.astype(dtype), device.native)

    def to_numpy(self, x: toy.Array) -> np.ndarray:
        return x.values.copy()

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> toy.Array:
        return self.full(shape, 0, dtype, device)

    def full(self, shape: tuple[int, ...], value: float, dtype: str, device: Device) -> toy.Array:
        return toy.full(shape, value, dtype, device.native)

    def synchronize(self, device: Device) -> None:
        """Every call is done when it returns."""

    def is_model(self, x: object) -> bool:
        found = found_in(x, lambda held: isinstance(held, toy.Variable), deep=5)
        return super().is_model(x) or any(found)

    def opened(self, x: object) -> tuple | None:
        children, build = toy.TREES.get(type(x), (None, None))
        return (children(x), build) if build else None

    def extents(self, x: toy.Array) -> list[Extent]:
        return [] if x.is_pending else [Extent(x.values.ctypes.data, x.values.nbytes)]
