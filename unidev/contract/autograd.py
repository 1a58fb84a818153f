"""``Autograd``: the part of the contract for gradients."""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from contextlib import nullcontext
from functools import partial
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from unidev.contract.optional import BackendPart, Unsupported, declinable, optional
from unidev.errors import PluginError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract.backend import Backend
    from unidev.contract.layers import Model

    Tensor = Any


class Autograd(BackendPart, ABC):
    """A framework's automatic differentiation."""

    def __init__(self, backend: Backend) -> None:
        cls = type(self)
        if not any(_overrides(cls, name) for name in ("gradients", "of_tensors", "of_model")):
            raise PluginError(
                f"{cls.__module__}.{cls.__qualname__} has none of the methods `gradients`, "
                "`of_tensors` and `of_model`: an Autograd must have one of them.",
                backend=backend.name,
            )
        super().__init__(backend)

    @abstractmethod
    def leaf(self, x: Tensor) -> Tensor:
        """``x`` as a leaf to differentiate with respect to: ``x`` itself, if it already is one.

        Else another tensor that shares its memory, without history. ``x`` is not changed.
        """

    def gradients(
        self,
        loss_of: Callable[[], Tensor],  # noqa: ARG002
        leaves: Sequence[Tensor],  # noqa: ARG002
    ) -> tuple[Tensor, Sequence[Tensor | None]]:
        """``loss_of()``, detached and in memory of its own, and its gradient for each leaf.

        The loss has one element, in any shape, such as (), (1,) or (1, 1), which it keeps.

        For frameworks that record what is computed with a tensor, wherever a function has it from.
        Those that differentiate functions of arguments override the two methods below instead.

        A gradient is None where the loss does not depend on the leaf, else a new tensor of the
        leaf's dtype on the leaf's device. If tensors are mutable, it shares no memory with another
        gradient or a leaf. Autograd records only while ``loss_of`` runs. Gradients that the
        framework stores (``x.grad``) stay. Threads may call this at once, of the same leaves. If
        the framework does not compute where the operands are, ``loss_of`` runs in a scope of the
        leaves' device, if they share one.
        """
        only = "models" if _overrides(type(self), "of_model") else "tensors and containers of them"
        raise UnsupportedOperation(
            "value_and_grad of this argument",
            f"the {self.backend.name} backend differentiates only {only}",
        )

    def of_tensors(
        self, loss_of: Callable[[Sequence[Tensor]], Tensor], leaves: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor | None]]:
        """As :meth:`gradients`, where the loss is a function of the leaves.

        ``loss_of`` is called once, with a tensor for each leaf, in order: here the leaf itself.
        """
        return self.gradients(partial(loss_of, leaves), leaves)

    def of_model(
        self, loss_of: Callable[[Model], Tensor], model: Model, trainable: Mapping[str, Tensor]
    ) -> tuple[Tensor, Sequence[Tensor | None]]:
        """As :meth:`gradients`, where the loss is a function of the model.

        ``loss_of`` is called once, with ``model`` or with a model that represents it; buffers that
        it changes there, such as running statistics, have their new values in ``model`` when this
        returns. If ``loss_of`` raises, those of a represented model keep their old ones.

        Args:
            loss_of: the loss of a model.
            model: the user's model, which keeps its parameters.
            trainable: what ``Models.trainable`` returned for it; one gradient for each, in order.
        """
        return self.gradients(partial(loss_of, model), list(trainable.values()))

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
    that ends backward. For backends of mutable tensors whose ``Collectives.unpack`` copies nothing.
    """

    @declinable("`no_grad`")
    @abstractmethod
    def no_grad(self) -> AbstractContextManager[Any]:
        """A scope in which autograd records nothing in this thread, copies neither.

        However it is left, the thread records as before; other threads, also new ones, record.

        A framework that cannot stop recording replaces this with ``unsupported``; one that records
        only inside a function that it differentiates may raise instead when it is entered there.

        Raises:
            UnsupportedOperation: the framework records here, and cannot stop.
        """

    def detached(self) -> AbstractContextManager[Any]:
        """A scope for what unidev itself computes, such as means of gradients; never recorded.

        By default ``no_grad``, if the framework has that. One that records nothing outside of the
        function that it differentiates needs no other.
        """
        if isinstance(self.no_grad, Unsupported):
            return nullcontext()
        return self.no_grad()

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


def _overrides(cls: type[Autograd], name: str) -> bool:
    return getattr(cls, name) is not getattr(Autograd, name)


def nodes_from(root: Any, inputs: Callable[[Any], Iterable[Any]]) -> Iterator[Any]:
    """``root`` and the nodes of its graph to which backward goes from there, level by level."""
    todo, seen = [root], {root}
    for node in todo:
        yield node
        for each in inputs(node):
            if each not in seen:
                seen.add(each)
                todo.append(each)


def reaches(roots: Iterable[object], wanted: Collection[int]) -> bool:
    """Whether references lead from a root to an object with one of these ids.

    From a function through what it encloses and names, not through all globals of its module.
    """
    todo, seen = [*roots], set[int]()
    while todo:
        each = todo.pop()
        if id(each) in wanted:
            return True
        if id(each) in seen or isinstance(each, (type, ModuleType)):
            continue
        seen.add(id(each))
        if isinstance(each, FunctionType):
            named = map(each.__globals__.get, each.__code__.co_names)
            todo += [each.__closure__, each.__defaults__, each.__kwdefaults__, *named]
        else:
            todo += gc.get_referents(each)
    return False


def nested_backward(function: str) -> UnsupportedOperation:
    """The error for a function whose own backward computes gradients of what is no input of it."""
    return UnsupportedOperation(
        f"value_and_grad through {function}",
        "gradients of what its backward differentiates, and is not its input, would be missing: "
        "checkpoint with use_reentrant=False; give a function of your own all that as inputs",
    )
