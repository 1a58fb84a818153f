"""Torch's calls that transfer, and what they move: reads, copies, operands; and what moves nothing.

Bytes are those that CUDA moves.
"""

from __future__ import annotations

import copy
import io
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from unidev.contract import PlannedTransfer, TransferExample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from unidev.contract import Device

    Shape = tuple[int, ...] | None
    Read = Callable[[torch.Tensor], object]

_NUMBER: dict[str, Sequence[Read]] = {
    "Tensor.item": [lambda x: x.item()],
    "Tensor.__bool__": [bool, lambda x: not x],
    "Tensor.__int__": [int],
    "Tensor.__float__": [float],
    "Tensor.__complex__": [complex],
    "Tensor.is_nonzero": [lambda x: x.is_nonzero()],
    "Tensor.tolist": [lambda x: x.tolist()],
    "Tensor.numpy": [lambda x: x.numpy(force=True)],
    "Tensor.__format__": [lambda x: f"{x}", lambda x: f"{x:.2f}"],
    "Tensor.__repr__": [str, repr],
    # torch's stubs know nothing of tensors in place of numbers.
    "torch.full": [lambda x: torch.full((2,), x)],  # type: ignore[call-overload]
    "torch.add": [
        lambda x: torch.add(torch.ones(2), torch.ones(2), alpha=x)  # type: ignore[call-overload]
    ],
}
"""Reads of a tensor with one element, by the name that a trace has for them."""

_COUNTED: Sequence[Read] = [
    lambda x: x.nonzero(), lambda x: torch.where(x > 2), lambda x: x.masked_select(x > 2),
    torch.unique, lambda x: x[x > 2], lambda x: x.long().flatten().bincount(),
    lambda x: x.__setitem__(x > 2, x[:1, 1:].clone()),
    lambda x: x.long()[0].repeat_interleave(x.long()[0]),
]  # fmt: skip
"""The values decide on the length of the result, which is read."""


def transfers_of(gpu: Device) -> Iterator[TransferExample]:
    """See ``Probe.transfers``."""
    torch_gpu = torch.device(gpu.native)
    yield from _reads(gpu, torch_gpu)
    yield from _copies(gpu, torch_gpu)
    yield from _made(gpu, torch_gpu)
    yield from _operands(gpu, torch_gpu)
    yield from _nothing(torch_gpu)


def _matrix(on: torch.device | str) -> torch.Tensor:
    """Six floats: 24 bytes."""
    return torch.arange(6.0, device=on).reshape(2, 3)


def _reads(gpu: Device, on: torch.device) -> Iterator[TransferExample]:
    read = partial(_example, source=gpu, target=_cpu(gpu))
    for name, calls in _NUMBER.items():
        for call in calls:
            yield read(partial(call, torch.tensor(2.0, device=on)), name, (4, ()))
            yield TransferExample(partial(call, torch.tensor(2.0)), ())
    for name, call, *moved in (
        ("Tensor.__contains__", lambda x: 1.0 in x, (1, ())),
        ("Tensor.__bool__", lambda x: 1 if x[0, 0] > 0 else 2, (1, ())),
        ("Tensor.__bool__", lambda x: max(x[0]), (1, ()), (1, ())),
        ("Tensor.__index__", lambda x: "abc"[x[0, 1].long()], (8, ())),
        ("Tensor.__getitem__", lambda x: x[x[0, 1].long()], (8, ())),
        ("torch.equal", lambda x: torch.equal(x, x + 1), (1, ())),
        ("torch.equal", lambda x: torch.equal(x, x.clone()), (1, ())),
        ("torch.allclose", lambda x: torch.allclose(x, x), (1, ())),
        ("torch.tensor", lambda x: torch.tensor([x[0, 0], x[0, 1]]), (8, None)),
        ("torch.as_tensor", lambda x: torch.as_tensor([x[0, 0]]), (4, ())),
        ("Tensor.__repr__", repr, (24, (2, 3))),
        ("Tensor.__repr__", lambda x: repr(nn.Parameter(x)), (24, (2, 3))),
        ("Tensor.__format__", lambda x: f"{x}", (24, (2, 3))),
        ("Tensor.__repr__", lambda x: repr([x[0], x[1]]), (12, (3,)), (12, (3,))),
        ("torch.save", lambda x: torch.save(x, io.BytesIO()), (24, (24,))),
        ("Tensor.cpu", lambda x: x.T.cpu(), (24, (3, 2))),
        ("Tensor.to", lambda x: x.to("cpu", torch.float64), (48, (2, 3))),
    ):  # fmt: skip
        yield read(partial(call, _matrix(on)), name, *moved)
    yield read(partial(repr, torch.arange(5000.0, device=on)), "Tensor.__repr__", (24, (5000,)))
    for call in _COUNTED:
        x = torch.tensor([[0.0, 3, 1], [2, 4, 2]], device=on)
        yield read(partial(call, x), None, (8, ()))


def _copies(gpu: Device, on: torch.device) -> Iterator[TransferExample]:
    for name, call, *moved in (
        ("Tensor.to", lambda x: x.to(on), (24, (2, 3))),
        ("Tensor.to", lambda x: x.to(on, copy=True), (24, (2, 3))),
        ("Tensor.to", lambda x: x.to(torch.empty(0, device=on)), (24, (2, 3))),
        ("Tensor.to", lambda x: x.to(on, torch.float16), (12, (2, 3))),
        ("Tensor.to", lambda x: x.T.to(on), (24, (3, 2))),
        ("Tensor.to", lambda x: x[:, 1].to(on), (8, (2,))),
        ("Tensor.to", lambda x: x[:, :1].expand(2, 5).to(on), (40, (2, 5))),
        ("Tensor.to", lambda x: x[:0].to(on), (0, (0, 3))),
        ("Tensor.copy_", lambda x: torch.empty(2, 3, device=on).copy_(x), (24, (2, 3))),
        ("Tensor.copy_", lambda x: torch.empty(2, 3, device=on).copy_(x[0]), (24, (3,))),
        ("torch.as_tensor", lambda x: torch.as_tensor(x, device=on), (24, (2, 3))),
        ("torch.asarray", lambda x: torch.asarray(x, device=on), (24, (2, 3))),
        ("UntypedStorage.to", lambda x: x.untyped_storage().to(device=on), (24, (24,))),
        ("torch._foreach_copy_",
         lambda x: torch._foreach_copy_([torch.ones(2, device=on)] * 2, [x[0, :2], x[1, :2]]),
         (16, None)),
        ("Module.to", lambda _: nn.Linear(2, 1).to(on), (8, (1, 2)), (4, (1,))),
    ):  # fmt: skip
        yield _example(
            partial(call, _matrix("cpu")), name, *moved, source=_cpu(gpu), target=gpu
        )  # fmt: skip


def _made(gpu: Device, on: torch.device) -> Iterator[TransferExample]:
    """Tensors of Python's and NumPy's data."""
    for name, call, *moved in (
        ("torch.tensor", lambda: torch.tensor([1, 2], device=on), (16, (2,))),
        ("torch.tensor", lambda: torch.tensor(np.ones(2), device=on), (16, (2,))),
        ("torch.as_tensor", lambda: torch.as_tensor(np.ones(2), device=on), (16, (2,))),
        ("Tensor.to", lambda: torch.from_numpy(np.ones(2)).to(on), (16, (2,))),
        ("Tensor.new_tensor", lambda: torch.ones(2, device=on).new_tensor([1, 2]), (8, (2,))),
        ("Tensor.__getitem__", lambda: torch.zeros(2, device=on)[[0, 1]], (16, (2,))),
        ("BatchNorm1d.__init__", lambda: nn.BatchNorm1d(2, device=on), (8, ())),  # its counter
    ):
        yield _example(call, name, *moved, source=_cpu(gpu), target=gpu)


def _operands(gpu: Device, on: torch.device) -> Iterator[TransferExample]:
    """Torch moves indices and some numbers of the host's to the tensor that they are used with."""
    move = partial(_example, source=_cpu(gpu), target=gpu)
    rows, mask = torch.tensor([0, 1]), torch.tensor([True, False])
    masks = torch.tensor([[True, False, True], [True, False, False]])
    read, write = (f"Tensor.__{each}item__ of mixed operands" for each in ("get", "set"))
    x = _matrix(on)
    yield move(lambda: x[rows], read, (16, (2,)))
    yield move(lambda: x[rows, rows], read, (32, None))
    yield move(lambda: x[mask], read, (8, (1,)))  # the position of what is true
    yield move(lambda: x[masks], read, (3 * 2 * 8, None))  # three positions, in two dimensions
    yield move(lambda: x.clone().__setitem__(rows, x), write, (16, (2,)))
    for call, *moved in (
        (lambda x: torch.where(x > 0, x, torch.tensor(2.0)), (4, ())),
        (lambda x: torch.where(x > 0, torch.tensor(1), torch.tensor(2.0)), (4, ()), (4, ())),
        (lambda x: torch.where(torch.tensor(True), x, x), (1, ())),
    ):
        yield move(partial(call, x), None, *moved)


def _nothing(on: torch.device) -> Iterator[TransferExample]:
    """Work on one device, and numbers, which travel with the call."""
    x = _matrix(on)
    calls: Iterable[Callable[[], object]] = (
        lambda: x.to(on), lambda: x.to(x), x.double, x.clone, x.detach,
        x.T.contiguous, lambda: x.clone().copy_(x), lambda: x.new_zeros(2),
        lambda: x[1], lambda: x[x.shape[0] - 1], lambda: len(x), lambda: list(x), lambda: hash(x),
        lambda: torch.stack([x, x]), lambda: x + 1, lambda: x + torch.tensor(2.0),
        lambda: x.clone().fill_(5.0), lambda: x.clone().__setitem__(0, 5.0),
        lambda: x.clone().__setitem__(x > 2, 0), lambda: torch.where(x > 0, x, 2.0),
        lambda: torch.equal(x, x[:1]), lambda: torch.equal(x, x), lambda: repr(x[:0]),
        lambda: torch.zeros(3, device=on), lambda: torch.full((3,), 2.0, device=on),
        lambda: torch.arange(3, device=on), lambda: torch.rand(3, device=on), x.untyped_storage,
        lambda: torch.empty_like(torch.empty(2, device="meta"), device=on),
        lambda: nn.LazyLinear(2).to(on), lambda: copy.copy(x),
    )  # fmt: skip
    yield from (TransferExample(call, ()) for call in calls)


def _example(
    call: Callable[[], object], name: str | None, *moved: tuple[int, Any],
    source: Device, target: Device,
) -> TransferExample:  # fmt: skip
    planned = (PlannedTransfer(name or "", source, target, *each) for each in moved)
    return TransferExample(call, tuple(planned))


def _cpu(gpu: Device) -> Device:
    return type(gpu)(gpu.backend, "cpu", 0)
