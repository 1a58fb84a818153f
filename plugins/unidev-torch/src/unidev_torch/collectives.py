"""Reductions over torch's devices."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import torch

from unidev.contract import Collectives

if TYPE_CHECKING:
    from collections.abc import Sequence

_MINIMUM_OR_MAXIMUM = {"min": torch.minimum, "max": torch.maximum}


class TorchCollectives(Collectives):
    """Combines in place."""

    wider = MappingProxyType(
        # torch has hardly any kernels for unsigned integers of several bytes
        {**Collectives.wider, "uint16": "int32", "uint32": "int64"}
    )

    def pack(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """``torch.cat``."""
        return torch.cat([x.reshape(-1) for x in tensors])

    def unpack(self, flat: torch.Tensor, like: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Views of ``flat``."""
        parts = flat.split_with_sizes([x.numel() for x in like])
        return [part.view(x.shape) for part, x in zip(parts, like, strict=True)]

    def combine(self, a: torch.Tensor, b: torch.Tensor, op: str) -> torch.Tensor:
        """Writes to ``a``."""
        return a.add_(b) if op == "sum" else _MINIMUM_OR_MAXIMUM[op](a, b, out=a)

    def scale(self, flat: torch.Tensor, factor: float) -> torch.Tensor:
        """Writes to ``flat``."""
        return flat.mul_(factor)

    def concatenate(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """``torch.cat``."""
        return torch.cat(list(tensors))

    def is_writable(self, x: torch.Tensor) -> bool:  # noqa: ARG002
        """All are."""
        return True

    def write(self, targets: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
        """One call for all of them."""
        torch._foreach_copy_(list(targets), list(values))
