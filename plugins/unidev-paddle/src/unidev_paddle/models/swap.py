"""Exchanging the memory of Paddle's tensors, reversibly.

``Layer.to`` does half of it: it makes the dense tensor behind a ``Tensor`` share the data of
another one (``_transform`` in paddle/nn/layer/layers.py). Name, ``stop_gradient``, hooks, graph and
references to the tensor stay the same. Tested on Paddle 3.2.2 and 3.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.errors import UnsupportedOperation
from unidev_paddle.copying import move_cut
from unidev_paddle.framework import core, paddle

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from unidev.contract import Device, Tensor

    Dense = Any


class Shared:
    """Tensors on one allocation: tied by memory, or slices of it, as an LSTM's weights are."""

    def __init__(self, first: Tensor) -> None:
        self.tensors = [first]
        self.copies: dict[Device, tuple[int, Tensor]] = {}
        """Per device: the offset of the first byte in use, and a copy from there to the last."""

    def copy_of(self, x: Tensor, device: Device) -> Tensor:
        """A copy of ``x`` on ``device`` that shares memory with the others' copies."""
        if len(self.tensors) == 1:
            return move_cut(x, device.native)
        if device not in self.copies:
            self.copies[device] = self._copy_span(device)
        start, span = self.copies[device]
        return paddle.as_strided(span, x.shape, x.strides, x.offset - start)

    def _copy_span(self, device: Device) -> tuple[int, Tensor]:
        first = self.tensors[0]
        if any(x.dtype != first.dtype for x in self.tensors):
            raise UnsupportedOperation(
                "placing a model in which tensors of different dtypes share memory",
                "a move could not keep them shared",
            )
        bytes_each = first.element_size()
        start = min(x.offset for x in self.tensors)
        end = max(x.offset + _span_elements(x) * bytes_each for x in self.tensors)
        flat = paddle.as_strided(first.detach(), [(end - start) // bytes_each], [1], start)
        return start, move_cut(flat, device.native)


class Part:
    """A tensor of a model or an optimizer."""

    def __init__(self, tensor: Tensor, shared: Shared) -> None:
        self.tensor = tensor
        self.shared = shared


class Twin:
    """The tensor's memory on ``device``, and the one that it had before ``swap`` gave it that."""

    def __init__(self, part: Part, device: Device) -> None:
        self.device = device
        self.here = None
        copied = part.shared.copy_of(_plain(part.tensor), device)
        self.there = _on_memory_of(copied.value().get_tensor())


def parts_of(tensors: Iterable[Tensor]) -> Sequence[Part]:
    """One part for each tensor."""
    shared: dict[tuple[int, int], Shared] = {}
    found = (_part_of(x, shared) for x in {id(x): x for x in tensors}.values())
    return [part for part in found if part is not None]


def swap(part: Part, twin: Twin, is_there: bool) -> None:
    """Exchange the memory in the end by one call, which Ctrl-C cannot interrupt half way."""
    dense = _dense(part.tensor)
    if is_there:
        twin.there = _on_memory_of(dense)
        dense._share_data_with(twin.here)
    else:
        twin.here = _on_memory_of(dense)
        dense._share_data_with(twin.there)


def _part_of(x: Tensor, found: dict[tuple[int, int], Shared]) -> Part | None:
    if not x.is_dense():  # a gradient of non-zero rows
        return Part(x, Shared(x))
    is_empty = 0 in x.shape
    key = (hash(x.place), 0 if is_empty else x.data_ptr() - x.offset)
    known = found.get(key)
    if known is None:
        found[key] = known = Shared(x)
    elif any(x._is_shared_underline_tensor_with(other) for other in known.tensors):
        return None  # x.detach() uses the dense tensor of x, and changes memory with it
    else:
        known.tensors.append(x)
    return Part(x, Shared(x) if is_empty else known)


def _dense(x: Tensor) -> Dense:
    # Not stored anywhere: it belongs to x, and dangles once x is gone.
    value = x.value()
    return value.get_selected_rows().get_tensor() if x.is_selected_rows() else value.get_tensor()


def _plain(x: Tensor) -> Tensor:
    if not x.is_selected_rows():
        return x
    plain = paddle._C_ops.empty([0], paddle.float32, paddle.CPUPlace())
    plain.value().get_tensor()._share_data_with(_dense(x))
    return plain


def _on_memory_of(dense: Dense) -> Dense:
    made = core.DenseTensor()
    made._share_data_with(dense)
    return made


def _span_elements(x: Tensor) -> int:
    return 1 + sum((int(n) - 1) * int(step) for n, step in zip(x.shape, x.strides, strict=True))
