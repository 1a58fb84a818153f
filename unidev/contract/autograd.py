"""``Autograd``: the part of the contract that is about gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract.backend import Backend

    Tensor = Any


class Autograd(ABC):
    """A framework's automatic differentiation."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def leaf(self, x: Tensor) -> Tensor:
        """``x`` as something to differentiate by: itself, if it is that already.

        Else another tensor on the same memory (no copy), with no history. ``x`` is not changed.
        """

    @abstractmethod
    def gradients(
        self, loss_of: Callable[[], Tensor], leaves: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor | None]]:
        """``loss_of()``, cut off from autograd, and its gradient by each leaf; None: no way there.

        Recorded while ``loss_of`` runs, and no longer. A gradient is a new tensor on its leaf's
        device. What the framework keeps of earlier gradients (``x.grad``) is left as it was. On a
        framework whose results do not follow their operands, ``loss_of`` runs in a scope of the
        leaves' device, if they have one in common.
        """

    @abstractmethod
    def no_grad(self) -> AbstractContextManager[Any]:
        """A scope, of this thread, in which nothing is recorded."""

    @abstractmethod
    def descend(
        self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], lr: float
    ) -> Sequence[Tensor]:
        """``parameter - lr * gradient`` of each: in place, and then itself, where that can be.

        Recorded by no autograd. Shapes, and devices, are known to be equal.
        """
