"""What the conformance suite needs, by the framework's own calls."""

from collections.abc import Callable, Sequence

import numpy as np

from toy_backend import framework as toy
from unidev import AutogradProbe, Device, Extent, Probe, part


class ToyProbe(Probe):
    autograd = part("toy_backend.probe:ToyAutogradProbe")
    models = part("toy_backend.model_probe:ToyModelProbe")

    def make(self, values: np.ndarray, device: Device) -> toy.Array:
        return toy.array(values, device.native)

    def read(self, x: toy.Array) -> bytes:
        return x.values.tobytes()

    def same_memory(self, x: toy.Array) -> toy.Array:
        return toy.Array(x.values, x.device)

    def pending(self, x: toy.Array) -> toy.Array:
        return x + 1

    def is_pending(self, x: toy.Array) -> bool:
        return x.is_pending

    def extents(self, x: toy.Array) -> list[Extent]:
        return [Extent(x.values.ctypes.data, x.values.nbytes)]

    def views(self, x: toy.Array) -> dict[str, toy.Array]:
        broadcast = np.array([x.values] * 3)  # new memory, as all that this framework computes
        return {
            "transposed": x.T,
            "sliced": x[1:, ::2],
            "broadcast": toy.Array(broadcast, x.device),
        }

    def containers(self, device: Device) -> dict[str, tuple]:
        bounds = [toy.full((2, 3), value, "float32", device.native) for value in (0, 1)]
        return {"interval": (toy.Interval(*bounds), lambda x: [x.low, x.high])}

    def global_state(self) -> dict[str, object]:
        return {}  # the framework has no globals

    def allocated_bytes(self, device: Device) -> int:
        return super().allocated_bytes(self.backend.cpu)  # the chip uses the host's memory

    def gradient(self, function: Callable, values: np.ndarray, device: Device) -> np.ndarray:
        (found,) = self.autograd.gradients(function, [values], [device])
        return found.values


class ToyAutogradProbe(AutogradProbe):
    def gradients(
        self, function: Callable, arrays: Sequence[np.ndarray], devices: Sequence[Device]
    ) -> Sequence[toy.Array | None]:
        xs = [toy.array(values, d.native) for values, d in zip(arrays, devices, strict=True)]
        return _of_sum(function)(*xs)

    def detach(self, x: toy.Array) -> toy.Array:
        return toy.constant(x)

    def is_differentiable(self, x: toy.Array) -> bool:
        return isinstance(x, toy.Traced)

    def second_order(self, function: Callable, values: np.ndarray, device: Device) -> toy.Array:
        first = _of_sum(function)
        (found,) = _of_sum(lambda x: first(x)[0])(toy.array(values, device.native))
        return found


def _of_sum(function: Callable[..., toy.Array]) -> Callable[..., Sequence[toy.Array | None]]:
    return lambda *xs: toy.value_and_grad(lambda *xs: function(*xs).sum())(*xs)[1]
