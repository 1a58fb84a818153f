"""What ``TORCH_DISTRIBUTED_DEBUG=DETAIL`` adds: ranks compare their calls before each collective.

Torch's wrapper compares in C++ and then calls the C++ part of the backend, which for ours is gloo's
and reads the GPU's memory. So ours is not wrapped, and compares here, in the wrapper's words
(torch 2.13).
"""

from __future__ import annotations

import json
import weakref
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _distributed_c10d

from unidev_torch_simulator.distributed import checks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    Tensors = Sequence[torch.Tensor]

c10d: Any = _distributed_c10d
_KEY = "unidev/fingerprints/"

_of_gloo: weakref.WeakKeyDictionary[Any, Comparison] = weakref.WeakKeyDictionary()
"""Those of groups whose backend for GPUs is gloo, in torch's wrapper: kernels call it inside."""


def of_gloo(group: Any) -> Comparison:
    """The comparison of a group with gloo's backend."""
    if group not in _of_gloo:
        store = group.get_group_store()
        _of_gloo[group] = Comparison(store, group.rank(), group.size())
    return _of_gloo[group]


def _compared(name: str, outputs: Tensors, inputs: Tensors) -> Tensors:
    """The tensors that torch's wrapper compares: none where ranks may give different ones."""
    if name == "SCATTER":
        return outputs
    if name == "_REDUCE_SCATTER_BASE":
        return [*inputs, *outputs]
    if name == "ALLGATHER":
        return inputs if _have_one_shape(outputs) else []
    if name == "REDUCE_SCATTER":
        return outputs if _have_one_shape(inputs) else []
    is_equal = name in {"ALLREDUCE", "BROADCAST", "GATHER", "REDUCE", "_ALLGATHER_BASE"}
    return inputs if is_equal else []


def _have_one_shape(tensors: Tensors) -> bool:
    return len({tensor.shape for tensor in tensors}) <= 1


@dataclass(frozen=True)
class Fingerprint:
    """One rank's call."""

    number: int
    name: str
    shapes: list[list[int]]
    dtypes: list[str]
    devices: list[str]

    def as_text(self) -> str:
        """As torch's wrapper prints it, with the device in one word."""
        text = f"CollectiveFingerPrint(SequenceNumber={self.number}, OpType={self.name}"
        if self.shapes:
            text += f", TensorShape={' '.join(map(str, self.shapes))}"
            text += f", TensorDtypes={' '.join(self.dtypes)}"
            text += f", TensorDeviceTypes={' '.join(self.devices)}"
        return text + ")"

    def difference_from(self, other: Fingerprint) -> str:
        """The aspects in which the other differs."""
        pairs = {
            "Sequence number": (self.number, other.number),
            "Op type": (self.name, other.name),
            "Tensor Tensor shapes": (self.shapes, other.shapes),
            "Tensor Tensor dtypes": (self.dtypes, other.dtypes),
            "Tensor Tensor devices": (self.devices, other.devices),
        }
        return "".join(
            f"  {name}: {_joined(own)} vs {_joined(theirs)}"
            for name, (own, theirs) in pairs.items()
            if own != theirs
        )


def _joined(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


class Comparison:
    """A group's fingerprints, exchanged by gloo in a group of its own that the first one makes."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._store = c10d.PrefixStore(_KEY, store)
        self._rank = rank
        self._size = size
        self._gloo: Any = None
        self._number = 0

    def check(self, name: str, outputs: Tensors, inputs: Tensors, timeout: timedelta) -> None:
        """Refuse a collective that another rank does not call, or calls with other tensors.

        Raises:
            RuntimeError: the ranks differ, or one has not come within the timeout.
        """
        tensors = _compared(name, outputs, inputs)
        own = Fingerprint(
            self._number,
            name,
            [list(tensor.shape) for tensor in tensors],
            [checks.dtype_name(tensor) for tensor in tensors],
            [tensor.device.type for tensor in tensors],
        )
        self._number += 1
        try:
            self._meet(timeout)
        except RuntimeError as error:
            raise RuntimeError(
                "ProcessGroupWrapper: Monitored Barrier encountered error running collective: "
                f"{own.as_text()}. Error: \n{error}"
            ) from error
        for rank, text in enumerate(self._gathered(json.dumps(asdict(own)))):
            other = Fingerprint(**json.loads(text))
            if other != own:
                raise RuntimeError(
                    f"Detected mismatch between collectives on ranks. Rank {self._rank} is running "
                    f"collective: {own.as_text()}, but Rank {rank} is running collective: "
                    f"{other.as_text()}.Collectives differ in the following aspects: "
                    f"{own.difference_from(other)}"
                )

    def _meet(self, timeout: timedelta) -> None:
        if self._gloo is None:
            self._gloo = c10d.ProcessGroupGloo(self._store, self._rank, self._size, timeout=timeout)
        self._gloo.monitored_barrier(timeout, wait_all_ranks=True)

    def _gathered(self, text: str) -> list[str]:
        """Return the texts of all ranks."""
        own = torch.frombuffer(bytearray(text, "utf-8"), dtype=torch.uint8)
        lengths = self._all_gathered(torch.tensor([own.numel()], device="cpu"))
        row = torch.zeros(int(max(lengths)), dtype=torch.uint8, device="cpu")
        row[: own.numel()] = own
        rows = self._all_gathered(row)
        return [
            bytes(each[: int(length)].tolist()).decode()
            for each, length in zip(rows, lengths, strict=True)
        ]

    def _all_gathered(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        room = [torch.empty_like(tensor) for _ in range(self._size)]
        self._gloo.allgather([room], [tensor]).wait()
        return room
