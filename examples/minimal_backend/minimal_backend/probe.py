"""What the conformance suite needs, by the framework's own calls."""

from array import array

import numpy as np

from minimal_backend.framework import Tensor
from unidev import Device, Probe


class MinimalProbe(Probe):
    def make(self, values: np.ndarray, device: Device) -> Tensor:
        code = self.backend.dtypes[values.dtype.name]
        return Tensor(array(code, values.tobytes())[:], values.shape, device.native)

    def read(self, x: Tensor) -> bytes:
        return x.data.tobytes()

    def same_memory(self, x: Tensor) -> Tensor:
        return Tensor(x.data, x.shape, x.device)

    def views(self, x: Tensor) -> dict[str, Tensor]:
        matrix = np.array(x.data).reshape(x.shape)  # no views here: these are new tensors
        views = {"transposed": matrix.T, "sliced": matrix[1:, ::2], "broadcast": [matrix] * 3}
        device = self.backend.device_of(x)
        return {name: self.make(np.array(view), device) for name, view in views.items()}

    def write(self, x: Tensor, value: float) -> None:
        x.data[:] = array(x.dtype, np.full(len(x.data), value, x.dtype).tobytes())

    def global_state(self) -> dict[str, object]:
        return {}  # the framework has no globals

    def allocated_bytes(self, device: Device) -> int:
        return super().allocated_bytes(self.backend.cpu)  # the chip uses the host's memory
