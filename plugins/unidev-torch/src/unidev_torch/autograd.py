"""Torch's autograd."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import get_gradient_edge

from unidev.contract import Autograd, nested_backward, nodes_from, reaches
from unidev.errors import UnsupportedDtypeError, UnsupportedOperation
from unidev_torch import tensors
from unidev_torch.uncompiled import leave_what_is_loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

_UNCHANGED = nullcontext()


class TorchAutograd(Autograd):
    """Uses ``torch.autograd.grad``, which leaves ``x.grad`` unchanged."""

    def leaf(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` if it is a leaf that requires a gradient, else ``x.detach()``, which shares memory.

        Raises:
            UnsupportedDtypeError: the dtype has no gradients (integers, booleans).
            UnsupportedOperation: torch records nothing for ``x``.
        """
        _check_recorded((x,))
        if x.requires_grad and x.is_leaf:
            return x
        if not (x.is_floating_point() or x.is_complex()):
            raise UnsupportedDtypeError(
                f"there is no gradient with respect to a tensor of dtype {x.dtype}: use x.float()."
            )
        return x.detach().requires_grad_()

    def gradients(
        self, loss_of: Callable[[], torch.Tensor], leaves: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, Sequence[torch.Tensor | None]]:
        """Records also inside ``torch.no_grad`` and ``torch.inference_mode``."""
        return self.gradients_as_made(loss_of, leaves, None)

    def gradients_as_made(
        self,
        loss_of: Callable[[], torch.Tensor],
        leaves: Sequence[torch.Tensor],
        made: Callable[[int, torch.Tensor], None] | None,
    ) -> tuple[torch.Tensor, Sequence[torch.Tensor | None]]:
        """By hooks of the leaves, which see whole gradients; they are gone when this returns."""
        _check_recorded(leaves)
        with _recording():
            loss = loss_of()
            if not loss.requires_grad:
                return loss.detach(), [None] * len(leaves)
            hooks: list[Any] = []
            custom = [x for x in nodes_from(loss.grad_fn, _inputs) if hasattr(x, "_forward_cls")]
            before = _stored(leaves) if custom else []
            try:
                if made is not None:
                    _watch(loss, leaves, made, hooks)
                found = torch.autograd.grad(loss, leaves, allow_unused=True)
            finally:
                for hook in hooks:
                    hook.remove()
            if custom:
                _check_all_came(custom, leaves, found, before)
            return loss.detach().clone(), _each_its_own(found, leaves)

    def no_grad(self) -> AbstractContextManager[Any]:
        """``torch.no_grad``."""
        return torch.no_grad()

    def match(self, parameters: Sequence[torch.Tensor], gradients: Sequence[Any]) -> bool:
        """Whether all are contiguous and in storages that cover them, and the pairs fit."""
        try:
            for x, y in zip(parameters, gradients, strict=True):
                if type(y) is not torch.Tensor or x.shape != y.shape or x.device != y.device:
                    return False
        except RuntimeError:  # lazy or nested: without a shape
            return False
        return tensors.are_covered(parameters) and tensors.are_covered(gradients)

    def descend(
        self, parameters: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor], lr: float
    ) -> Sequence[torch.Tensor]:
        """Update all parameters in one call, as torch's optimizers do."""
        if parameters:
            with torch.no_grad():
                torch._foreach_add_(list(parameters), list(gradients), alpha=-lr)
        return parameters


def _check_recorded(xs: Sequence[torch.Tensor]) -> None:
    if True in map(torch.is_inference, xs):
        raise UnsupportedOperation(
            "a gradient with respect to a tensor made in torch.inference_mode",
            "torch records nothing for it: make it, or clone it, outside of that mode",
        )


def _watch(
    loss: torch.Tensor,
    leaves: Sequence[torch.Tensor],
    made: Callable[[int, torch.Tensor], None],
    hooks: list[Any],
) -> None:
    """Add to ``hooks`` those that call ``made`` in the backward of ``loss``, and in no other.

    A function's own backward may call ``torch.autograd.grad`` for the same leaves, as checkpointing
    by hand does: their hooks then see a part of the gradient first.
    """
    own = []

    def begun(_: torch.Tensor) -> None:
        own.append(torch._C._current_graph_task_id())

    def seen(position: int, gradient: torch.Tensor) -> None:
        if own and torch._C._current_graph_task_id() == own[0]:
            made(position, gradient)

    hooks.append(loss.register_hook(begun))  # type: ignore[no-untyped-call]
    for position, leaf in enumerate(leaves):
        hooks.append(leaf.register_hook(partial(seen, position)))  # type: ignore[no-untyped-call]


def _recording() -> AbstractContextManager[Any]:
    if torch.is_inference_mode_enabled():
        return torch.inference_mode(False)
    return _UNCHANGED if torch.is_grad_enabled() else torch.enable_grad()


def _stored(leaves: Sequence[torch.Tensor]) -> list[Any]:
    """What differs if something has been added to the ``x.grad`` of a leaf meanwhile."""
    return [
        None if (y := x.grad) is None else (id(y), y.is_inference() or y._version) for x in leaves
    ]


def _check_all_came(
    custom: Sequence[Any], leaves: Sequence[torch.Tensor], found: Sequence[Any], before: list[Any]
) -> None:
    """Refuse a custom function whose backward calls ``backward`` for more than its inputs.

    Torch goes to one only on the way to a leaf, and knows of no way but its inputs.
    """
    is_changed, pairs = _stored(leaves) != before, list(zip(leaves, found, strict=True))
    came = {get_gradient_edge(x).node for x, gradient in pairs if gradient is not None}
    lost = {id(x) for x, gradient in pairs if gradient is None}
    for node in custom:
        if not (is_changed or came.isdisjoint(nodes_from(node, _inputs))):
            continue
        function = node._forward_cls
        code = getattr(function.backward, "__code__", None)
        wanted = {*map(id, leaves)} if code and "backward" in code.co_names else lost
        if is_changed or reaches((vars(node), *vars(function).values()), wanted):
            for x, was in zip(leaves, before, strict=True):
                x.grad = x.grad if was else None
            raise nested_backward(function.__name__)


def _inputs(node: Any) -> list[Any]:
    return [] if node is None else [each for each, _ in node.next_functions if each is not None]


def _each_its_own(
    gradients: Sequence[torch.Tensor | None], leaves: Sequence[torch.Tensor]
) -> list[torch.Tensor | None]:
    """Gradients that share no memory: torch returns one tensor for both operands of a sum.

    And parts of one for those of ``torch.cat``, and whatever a custom function's backward returns.
    """
    seen = {x.untyped_storage().data_ptr() for x in leaves if x.layout is torch.strided}
    own = [x.detach() if x is not None and x.requires_grad else x for x in gradients]
    for number, x in enumerate(own):
        if x is not None and x.layout is torch.strided:
            address = x.untyped_storage().data_ptr()
            if (address and address in seen) or (not x.is_contiguous() and 0 in x.stride()):
                own[number] = copied = x.clone(memory_format=torch.contiguous_format)
                address = copied.untyped_storage().data_ptr()
            seen.add(address)
    return own


# At the first use, when what differentiates a function or takes a step has been imported; or before
# a process forks into workers, each of which would need 14 MiB for it.
leave_what_is_loaded(__name__, "unidev_torch.backend", "unidev_torch.tensors")
