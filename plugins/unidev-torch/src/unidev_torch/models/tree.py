"""The tensors of a ``Module``, by path, and modules that cannot be moved."""

from __future__ import annotations

import weakref
from functools import partial
from itertools import islice
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from unidev.contract import found_in
from unidev.errors import UnsupportedOperation
from unidev_torch import tensors
from unidev_torch.models import graphs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

LAZY = (UninitializedBuffer, UninitializedParameter)

_PACKED = frozenset({torch.ScriptObject})
_FULLY_SHARDED = frozenset({"FullyShardedDataParallel", "FSDPModule"})
"""By name: importing them takes as long as importing torch itself."""


def is_on(model: torch.nn.Module, native: torch.device) -> bool:
    """Whether all of ``model`` is there for certain; False if that needs a closer look."""
    # A hot path: no generators, and only torch's own calls.
    parameter_type, tensor_type = torch.nn.Parameter, torch.Tensor
    seen: set[int] = set()
    todo: list[torch.nn.Module | None] = [model]
    while todo:
        module = todo.pop()
        if module is None or id(module) in seen:
            continue
        seen.add(id(module))
        own = module.__dict__
        if _LENGTHS.get(type(module)) != len(own) and not _keeps_nothing_else(module, native):
            return False
        for x in own["_parameters"].values():
            if x is not None:
                if type(x) is not parameter_type or x.device != native:
                    return False
                gradient = x.grad
                if gradient is not None and gradient.device != native:
                    return False
        for y in own["_buffers"].values():
            if y is not None and (
                type(y) is not tensor_type or y.device != native or y.requires_grad
            ):
                return False
        todo.extend(own["_modules"].values())
    return True


_OF_EACH = [*vars(torch.nn.Module())]
"""The attributes that each module has, its registries and hooks; they come first."""
_LENGTHS: dict[type, int] = {}
"""How many attributes a layer of torch's has if it holds nothing beside: all have the same ones."""
_HARMLESS = frozenset(
    {
        bool, int, float, complex, str, bytes, type(None), type, FunctionType, MethodType,
        torch.dtype, torch.device, torch.Size,
    }
)  # fmt: skip
_WANTED = (torch.Tensor, torch.nn.Module)


def _keeps_nothing_else(module: torch.nn.Module, native: torch.device) -> bool:
    """Whether what it keeps beside is there, too, and its own ``to`` and ``_apply`` were called."""
    cls, own = type(module), module.__dict__
    if isinstance(module, (torch.jit.ScriptModule, DistributedDataParallel)):
        return False
    moves_itself, held = _moves_itself(module), []
    if moves_itself or not _HARMLESS.issuperset(
        map(type, islice(own.values(), len(_OF_EACH), None))
    ):
        held = beside(module)
        if _is_packed(module) or any(issubclass(type(x), torch.nn.Module) for _, x in held):
            return False
        if any(x.device != native for _, x in held):
            return False
    if moves_itself:  # tensors of its own would show that it has been moved since
        shows = held or next(module.parameters(), None) is not None
        return bool(shows) and _asked.get(id(module), (None, None))[1] == native
    if not held and cls.__module__.startswith("torch.nn.modules."):
        _LENGTHS[cls] = min(len(own), _LENGTHS.get(cls, len(own)))
    return True


def _is_wanted(x: object) -> bool:
    return issubclass(type(x), _WANTED)


_asked: dict[int, tuple[weakref.ref[torch.nn.Module], torch.device]] = {}
"""Where modules that move themselves have last been asked to go, by ``id``: some cannot be keys."""


def remember(modules: Sequence[tuple[str, torch.nn.Module]], native: torch.device) -> None:
    """Those that move themselves have all been asked to go to ``native``."""
    for _, module in modules:
        if _moves_itself(module):
            forget = partial(_asked.pop, id(module))  # the reference, which it is called with
            _asked[id(module)] = (weakref.ref(module, forget), native)


def _moves_itself(module: torch.nn.Module) -> bool:
    applies = type(module)._apply not in _APPLIES or "_apply" in module.__dict__
    return applies or _has_own_to(module)


def beside(module: torch.nn.Module) -> list[tuple[str, Any]]:
    """Tensors and modules in its attributes, containers and objects there; and what graphs make."""
    if isinstance(module, torch.jit.ScriptModule):
        return graphs.made_in(module)
    own = module.__dict__
    is_usual = next(iter(own)) == _OF_EACH[0]  # else the class sets attributes before Module does
    found: list[tuple[str, Any]] = [*graphs.made_in(module)]
    for key, value in islice(own.items(), len(_OF_EACH) if is_usual else 0, None):
        cls = type(value)
        if cls in _HARMLESS or key in _OF_EACH:
            continue
        if issubclass(cls, _WANTED):
            if f"{key}_orig" not in module._parameters:  # else spectral_norm computes it each time
                found.append((key, value))
        else:
            found += found_in(value, _is_wanted, key, deep=3)
    return found


def results_in(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Tensors with a history that modules keep beside their registries."""
    for _, module in modules_of(model):
        own = {key: x for key, x in module.__dict__.items() if key not in _OF_EACH}
        held = (x for _, x in found_in(own, _is_wanted, deep=3))
        yield from (x for x in held if not getattr(x, "is_leaf", True))


def named_tensors(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Parameters and buffers, persistent or not, each followed by its gradient, ``NAME.grad``.

    A tied one appears under each of its names, if those are in different modules.
    """
    return tensors_in(modules_of(model))


def tensors_in(modules: Iterable[tuple[str, torch.nn.Module]]) -> list[tuple[str, torch.Tensor]]:
    """The same for modules from ``modules_of``."""
    found: list[tuple[str, torch.Tensor]] = []
    for prefix, module in modules:
        for own in (module._parameters, module._buffers):
            for key, x in own.items():
                if x is not None:
                    name = prefix + key
                    found.append((name, x))
                    if x.is_leaf and (gradient := x.grad) is not None:
                        found.append((f"{name}.grad", gradient))
    return found


def modules_of(model: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """Same as ``model.named_modules()``, but faster, and with a dot at the end of each name."""
    found: list[tuple[str, torch.nn.Module]] = []
    seen: set[int] = set()
    todo: list[tuple[str, torch.nn.Module | None]] = [("", model)]
    while todo:
        named = todo.pop()
        prefix, module = named
        if module is None or id(module) in seen:
            continue
        seen.add(id(module))
        found.append((prefix, module))
        children = module._modules
        if children:
            todo += [(f"{prefix}{key}.", child) for key, child in children.items()][::-1]
    return found


def named_buffers(model: torch.nn.Module, names: Collection[str]) -> dict[str, torch.Tensor]:
    """The buffers with these names in their modules, by path: it runs in every training step."""
    return {
        prefix + key: x
        for prefix, module in modules_of(model)
        if module._buffers
        for key, x in module._buffers.items()
        if x is not None and key in names
    }


def named_parameters(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Same as ``model.named_parameters()``, but faster: it runs in every training step."""
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for prefix, module in modules_of(model):
        for key, x in module._parameters.items():
            if x is not None and id(x) not in seen:
                seen.add(id(x))
                found[prefix + key] = x
    return found


def lazy_name(model: torch.nn.Module) -> str | None:
    """The path of a parameter or buffer that is still uninitialized."""
    return next((name for name, x in named_tensors(model) if isinstance(x, LAZY)), None)


def check_modules(modules: Sequence[tuple[str, torch.nn.Module]]) -> None:
    """Refuse modules of which a move would leave something behind or break it apart.

    Raises:
        UnsupportedOperation: names the module, and what to do.
    """
    # Most models consist of these layers, which can be moved: not each needs a look.
    known = ("torch.nn.modules.", "unidev_torch.nn.")
    classes = {type(module) for _, module in modules}
    strange = {cls for cls in classes if not cls.__module__.startswith(known)}
    if not strange:
        return
    odd = {cls for cls in strange if _may_be_immovable(cls)}
    for prefix, module in modules:
        cls = type(module)
        if cls in strange and (cls in odd or _is_packed(module)):
            _check_module(prefix.removesuffix("."), module)


def _is_packed(module: torch.nn.Module) -> bool:
    return not _PACKED.isdisjoint(map(type, module.__dict__.values()))


def _may_be_immovable(cls: type) -> bool:
    return issubclass(cls, (DistributedDataParallel, torch.jit.ScriptModule)) or (
        not _FULLY_SHARDED.isdisjoint([base.__name__ for base in cls.__mro__])
    )


def _check_module(name: str, module: torch.nn.Module) -> None:
    reason = _immovable(module)
    if reason is not None:
        kind = type(module).__name__
        at = f"placing {name!r}, a {kind}," if name else f"placing a {kind}"
        raise UnsupportedOperation(at, reason)


def _immovable(module: torch.nn.Module) -> str | None:
    if isinstance(module, DistributedDataParallel):
        return "its communication is set up for the device it is on: place the module first"
    if isinstance(module, torch.jit.ScriptModule):
        return _immovable_script(module)
    if _is_packed(module):
        return (
            "it holds packed (quantized) weights, which torch cannot move: place it first, "
            "then quantize it"
        )
    return "its parameters are spread over devices: place the module before sharding it"


def _immovable_script(module: Any) -> str | None:
    for node in graphs.constants_of(module):
        if node.hasAttribute("value") and node.kindOf("value") == "t" and node.t("value").dim():
            return (
                "its graph holds tensors as constants (torch.jit.freeze, torch.jit.trace): place "
                "it first, or load a frozen one with torch.jit.load(file, map_location=...)"
            )
    return None


def check_hooks(modules: Sequence[tuple[str, torch.nn.Module]], native: torch.device) -> None:
    """Refuse a model that Accelerate has dispatched, unless all of it computes on ``native``.

    Raises:
        UnsupportedOperation: names the module, and what to do.
    """
    for prefix, module in modules:
        hook = module.__dict__.get("_hf_hook")  # accelerate 1.15
        for each in () if hook is None else (hook, *getattr(hook, "hooks", ())):
            goal = getattr(each, "execution_device", None)
            if goal is not None and torch.device(goal) != native:
                raise UnsupportedOperation(
                    f"placing a {type(modules[0][1]).__name__} that Accelerate has dispatched",
                    f"the hook of {prefix[:-1] or 'the model'!r} sends its inputs to {goal}: "
                    "first call accelerate.hooks.remove_hook_from_submodules(model)",
                )


def check_tensors(named: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Refuse tensors that have no memory to move, or not on one device.

    Raises:
        UnsupportedOperation: names the tensor, and what to do.
    """
    plain = (torch.nn.Parameter, torch.Tensor)
    for name, x in named:
        if type(x) not in plain or not x.is_leaf or x.is_meta:
            _check_tensor(name, x)


def _check_tensor(name: str, x: torch.Tensor) -> None:
    placing = f"placing {name!r}"
    if x.is_meta:
        raise UnsupportedOperation(
            placing,
            "it is on 'meta', without memory: unidev.load_parameters(model, file, device=...) "
            "allocates it and loads its values; without a file, build the model on the CPU",
        )
    if type(x).__name__ == "DTensor":
        raise UnsupportedOperation(placing, "it is a DTensor, spread over several devices")
    if tensors.wraps(x):
        reason = f"it is a {type(x).__name__}, which wraps others: build the model there"
        raise UnsupportedOperation(placing, reason)
    if not x.is_leaf and not name.endswith(".grad"):
        raise UnsupportedOperation(placing, "it is a buffer with a history: register x.detach()")


def move_what_else(model: torch.nn.Module, native: torch.device, *, also_rnns: bool = True) -> None:
    """Call the ``_apply`` and ``to`` of modules that override them, for what they keep beside.

    ``Module.to`` reaches ``_apply`` the same way: tensors in lists, say, and the flat weights of
    RNNs. A Lightning module remembers its device in ``to``. If one of them fails, the memory and
    the attributes that the others changed are restored.
    """
    modules = [module for _, module in modules_of(model)]
    own = [module for module in modules if _applies(module)]
    if not also_rnns:
        own = [module for module in own if not isinstance(module, torch.nn.RNNBase)]
    asked = list(_with_own_to(model)) if any(map(_has_own_to, modules)) else []
    if not own and not asked:
        return
    changed = [*own, *(module for each in asked for module in each.modules())]
    before = [(module, module.__dict__.copy()) for module in changed]
    moved: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def move(x: torch.Tensor) -> torch.Tensor:
        if x.device == native:
            return x
        y = x.to(native)
        moved[id(y)] = (y, x)
        return y

    try:
        for module in own:
            _apply(module, move)
        for module in asked:
            _ask(module, native)
    except BaseException:
        for module in own:  # first, for what is in their lists and dicts
            _apply(module, lambda y: moved.get(id(y), (y, y))[1])
        for module, attributes in before:
            module.__dict__.clear()  # what `to` has set for the first time goes, too
            module.__dict__.update(attributes)
        raise


def _applies(module: torch.nn.Module) -> bool:
    return type(module)._apply is not _APPLY or "_apply" in module.__dict__


def _has_own_to(module: torch.nn.Module) -> bool:
    """By its class, or set on it: Accelerate does that to models that it has dispatched."""
    return type(module).to is not _TO or "to" in module.__dict__


def _with_own_to(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The outermost modules that have a ``to`` of their own: that is what moves those inside."""
    if _has_own_to(module):
        yield module
        return
    for child in module.children():
        yield from _with_own_to(child)


def _ask(module: torch.nn.Module, native: torch.device) -> None:
    """Call ``to`` for all that it does but moving tensors, which are there already."""
    own = {key: x for key, x in module.__dict__.items() if key == "_apply"}
    module.__dict__["_apply"] = lambda *_arguments, **_options: module
    try:
        module.to(native)
    except RuntimeError:  # torch's own
        raise
    # A stranger's code refuses in its own words, by any kind of error (bitsandbytes: ValueError).
    except Exception as error:
        raise UnsupportedOperation(
            f"placing a {type(module).__name__}", f"its own `to` refuses: {error}"
        ) from error
    finally:
        del module.__dict__["_apply"]
        module.__dict__.update(own)


_APPLY, _TO = torch.nn.Module._apply, torch.nn.Module.to
_APPLIES = (_APPLY, torch.nn.RNNBase._apply)
"""Those that move nothing but what is registered."""


def _apply(module: torch.nn.Module, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    if isinstance(module, torch.nn.RNNBase):
        module.flatten_parameters()  # all that RNNs' own _apply adds, and it matters only on CUDA
    else:
        if type(module.__dict__.get("_device")) is torch.device:  # maybe of another machine:
            module.__dict__["_device"] = torch.device("cpu")  # torchmetrics makes a tensor there
        module._apply(function)  # type: ignore[no-untyped-call]
