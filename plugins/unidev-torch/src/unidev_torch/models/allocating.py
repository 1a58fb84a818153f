"""Memory for modules that were built on ``meta``, where tensors have shapes and no values."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from unidev.errors import UnsupportedOperation
from unidev_torch.models import tree

if TYPE_CHECKING:
    from collections.abc import Iterator

_KNOWN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


@contextmanager
def allocated(model: torch.nn.Module, native: torch.device) -> Iterator[None]:
    """As ``Models.allocated``: the tensors stay the same objects, so tied ones stay tied.

    Raises:
        UnsupportedOperation: names a tensor whose values neither the file nor the model has.
    """
    found = {id(x): (name, x) for name, x in tree.named_tensors(model) if x.is_meta}
    if not found:
        yield
        return
    modules = tree.modules_of(model)
    _refuse_offloaded(model)
    unsaved = found.keys() - {id(x) for x in model.state_dict(keep_vars=True).values()}
    owners = [
        (f"{prefix}{key}", module, key)
        for prefix, module in modules
        for key, x in module._buffers.items()
        if id(x) in unsaved
    ]
    for name, module, _ in owners:
        if not hasattr(module, "reset_parameters"):
            raise _not_in_the_file(name)
    buffers = [(module, dict(module._buffers)) for _, module in modules]
    memory = [
        (x, _memory_for(name, x, native))
        for name, x in found.values()
        if not name.endswith(".grad")
    ]

    def exchange() -> None:
        for module, before in buffers:
            module._buffers.update(before)
        for x, y in memory:
            torch.utils.swap_tensors(x, y)  # type: ignore[no-untyped-call]

    exchange()
    try:
        for name, module, key in owners:
            if not any(_is_reset(module, key, value) for value in (0, 1)):
                raise _not_in_the_file(name)
        yield
    except BaseException:
        exchange()
        raise


def _refuse_offloaded(model: torch.nn.Module) -> None:
    """Raise for a model whose weights are elsewhere, and come back when it computes."""
    either = {x.is_meta: name for name, x in tree.named_parameters(model).items()}
    for prefix, module in tree.modules_of(model):
        hook = module.__dict__.get("_hf_hook")  # accelerate 1.15
        if any(getattr(each, "offload", False) for each in (hook, *getattr(hook, "hooks", ()))):
            raise UnsupportedOperation(
                f"loading into a {type(model).__name__} that Accelerate has dispatched",
                f"it keeps the weights of {prefix[:-1] or 'the model'!r} elsewhere, and puts those "
                "back: first call accelerate.hooks.remove_hook_from_submodules(model)",
            )
    if len(either) > 1:
        raise UnsupportedOperation(
            f"loading into a {type(model).__name__}",
            f"{either[True]!r} is on 'meta', and {either[False]!r} is not: build all of it "
            "on the CPU, or all of it on 'meta'",
        )


def _memory_for(name: str, x: torch.Tensor, native: torch.device) -> torch.Tensor:
    if type(x) not in _KNOWN:
        raise UnsupportedOperation(
            f"loading {name!r}", f"it is a {type(x).__name__} on 'meta': build the model on the CPU"
        )
    with torch.no_grad():
        y = torch.empty_like(x, device=native)
    if isinstance(x, torch.nn.Parameter):
        y = torch.nn.Parameter(y, requires_grad=x.requires_grad)
    for hook in (x._backward_hooks or {}).values():
        y.register_hook(hook)  # type: ignore[no-untyped-call]
    y.__dict__.update(x.__dict__)
    return y


def _is_reset(module: torch.nn.Module, key: str, value: int) -> bool:
    """Whether ``reset_parameters`` gives this buffer its values, which it had not before."""
    with torch.no_grad():
        module._buffers[key].fill_(value)  # type: ignore[union-attr]
    module.reset_parameters()  # type: ignore[operator]
    return not bool((module._buffers[key] == value).all())  # type: ignore[union-attr]


def _not_in_the_file(name: str) -> UnsupportedOperation:
    return UnsupportedOperation(
        f"loading a model on 'meta' with {name!r}",
        "this buffer is not persistent, so no file has its values, and its module has no "
        "reset_parameters() that computes them: build the model on the CPU",
    )
