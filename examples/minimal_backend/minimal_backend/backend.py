"""Adapts the framework to unidev: everything that the contract requires."""

from array import array

import numpy as np

from minimal_backend.framework import Tensor
from unidev import Backend, Device, Extent, part

DEVICES = {"host": ("cpu", 0), "chip": ("gpu", 0)}


class MinimalBackend(Backend):
    tensor_types = (Tensor,)
    dtypes = {"int8": "b", "uint8": "B", "int32": "i", "int64": "q", "float32": "f", "float64": "d"}
    probe = part("minimal_backend.probe:MinimalProbe")

    def device_count(self, kind: str) -> int:
        return 1

    def native_device(self, kind: str, index: int) -> str:
        return "chip" if kind == "gpu" else "host"

    def parse_native(self, spec: object) -> tuple[str, int] | None:
        return DEVICES.get(spec) if isinstance(spec, str) else None

    def device_of(self, x: Tensor) -> Device:
        return self.device(*DEVICES[x.device])

    def copy_to(self, x: Tensor, device: Device, non_blocking: bool) -> Tensor:
        return Tensor(x.data[:], x.shape, device.native)

    def from_numpy(self, values: np.ndarray, dtype: str, device: Device) -> Tensor:
        return Tensor(array(dtype, values.astype(dtype).tobytes()), values.shape, device.native)

    def to_numpy(self, x: Tensor) -> np.ndarray:
        return np.array(x.data, x.dtype).reshape(x.shape)

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> Tensor:
        return self.full(shape, 0, dtype, device)

    def full(self, shape: tuple[int, ...], value: float, dtype: str, device: Device) -> Tensor:
        return Tensor(array(dtype, np.full(shape, value, dtype).tobytes()), shape, device.native)

    def synchronize(self, device: Device) -> None:
        """Every call is done when it returns."""

    def extents(self, x: Tensor) -> list[Extent]:
        address, length = x.data.buffer_info()
        return [Extent(address, length * x.data.itemsize)]
