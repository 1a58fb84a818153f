"""The framework: a tensor over `array.array`, on device 0 (the CPU) or 1 (an accelerator)."""

from array import array


class Tensor:
    def __init__(self, data: array, shape: tuple[int, ...], device: int) -> None:
        self.data, self.shape, self.device, self.dtype = data, shape, device, data.typecode

    def __add__(self, other: "Tensor") -> "Tensor":
        if (self.device, self.shape) != (other.device, other.shape):
            raise ValueError("tensors of different devices or shapes")
        total = array(self.dtype, map(sum, zip(self.data, other.data, strict=True)))
        return Tensor(total, self.shape, self.device)
