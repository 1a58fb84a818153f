"""``Autograd``: the part of the contract for gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from unidev.contract.optional import optional

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
        """``x`` as a leaf to differentiate with respect to: ``x`` itself, if it already is one.

        Otherwise another tensor that shares its memory (no copy), without history. ``x`` is not
        changed.
        """

    @abstractmethod
    def gradients(
        self, loss_of: Callable[[], Tensor], leaves: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor | None]]:
        """``loss_of()``, detached, and its gradient with respect to each leaf.

        A gradient is None where the loss does not depend on the leaf, else a new tensor of the
        leaf's dtype on the leaf's device. If tensors are mutable, it shares no memory with another
        gradient or a leaf. Autograd records only while ``loss_of`` runs. Gradients that the
        framework stores (``x.grad``) are left unchanged. If the framework does not compute where
        the operands are, ``loss_of`` runs in a scope of the leaves' common device, if they have
        one.
        """

    gradients_as_made: Callable[
        [Callable[[], Tensor], Sequence[Tensor], Callable[[int, Tensor], None]],
        tuple[Tensor, Sequence[Tensor | None]],
    ] = optional(
        "`DataParallel` exchanges gradients while backward runs",
        "the framework shows no gradient before all are made",
    )
    """``gradients_as_made(loss_of, leaves, made)``: as ``gradients``, and calls ``made(position,
    gradient)`` while backward runs, as soon as the gradient of ``leaves[position]`` is whole.

    Once for each leaf, in any order, in any thread while the caller waits, where autograd does not
    record, and not before ``loss_of`` has returned. ``made`` only reads the gradient; if it raises,
    that ends backward. For backends whose tensors are mutable, and whose ``Collectives.unpack``
    returns parts of the flat tensor's own memory.
    """

    @abstractmethod
    def no_grad(self) -> AbstractContextManager[Any]:
        """A scope in which autograd records nothing in this thread, copies neither.

        However it is left, the thread records as before; other threads record, also those that are
        started inside it.
        """

    def match(self, parameters: Sequence[Tensor], gradients: Sequence[Any]) -> bool:  # noqa: ARG002
        """Whether ``descend`` can certainly take these; in doubt, False: unidev then looks closer.

        If so, each gradient is a tensor of this framework on its parameter's device, of the same
        shape, and both have memory. On the hot path of a training step.
        """
        return False

    @abstractmethod
    def descend(
        self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], lr: float
    ) -> Sequence[Tensor]:
        """``parameter - lr * gradient`` for each pair.

        Where the framework allows it, updates the parameter in place and returns the same object.
        Autograd does not record it. The caller has checked that shapes and devices match.
        """
