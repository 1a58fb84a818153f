"""Recorded graphs: torch writes into them the device of each tensor that they make.

``torch.export`` and ``make_fx`` record calls of ATen, and ``place`` writes another device there, as
``torch.export.passes.move_to_device_pass`` does. What ``torch.jit.trace`` records cannot be
changed, also not by ``torch.jit.load(map_location=...)`` (2.13).
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule

from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from unidev.contract import Device


def made_in(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """What stands for the tensors that its graph makes: an empty one on each device, named by how.

    Without those on devices that are not here, which torch's own error names.
    """
    found: dict[torch.device, str] = {}
    if isinstance(module, torch.jit.ScriptModule):
        for device, operator in _of_script(module):
            found.setdefault(
                device,
                f"forward ({operator}: torch.jit.trace records the device; trace the model again "
                "once it is placed)",
            )
    for node in _calls(module):
        for device in _devices(node):
            found.setdefault(device, f"forward ({node.target}, in its graph)")
    return [(name, torch.empty(0, device=device)) for device, name in found.items()]


@contextmanager
def moved(modules: Sequence[tuple[str, torch.nn.Module]], native: torch.device) -> Iterator[None]:
    """Have their graphs, and what these keep, on ``native``; as before if the block raises."""
    copies: dict[int, torch.Tensor] = {}
    with ExitStack() as undo:
        for module in _with_graphs(modules):
            nodes = [n for n in _calls(module) if any(x != native for x in _devices(n))]
            if nodes:
                undo.callback(_write, module, [(node, node.args, node.kwargs) for node in nodes])
                _write(module, [(node, *_arguments(node, native)) for node in nodes])
            for own, name, x in _kept(module):
                if x.device != native:
                    if id(x) not in copies:
                        copies[id(x)] = x.to(native)
                    undo.callback(own.__setitem__, name, x)
                    own[name] = copies[id(x)]
            buffers = module._buffers
            for name, y in buffers.items():  # the inner module has as buffers what the outer keeps
                if y is not None and id(y) in copies:
                    undo.callback(buffers.__setitem__, name, y)
                    buffers[name] = copies[id(y)]
        yield
        undo.pop_all()


def check_replica(modules: Sequence[tuple[str, torch.nn.Module]], device: Device) -> None:
    """Refuse a replica whose graph makes or keeps tensors elsewhere: replicas share the graph."""
    scripts = [module for _, module in modules if isinstance(module, torch.jit.ScriptModule)]
    for module in _with_graphs(modules) + scripts:
        tensors = [each[-1] for each in made_in(module)] + [each[-1] for each in _kept(module)]
        if any(x.device != device.native for x in tensors):
            raise UnsupportedOperation(
                f"a replica of a {type(module).__name__} on {device}",
                "its graph makes tensors on another device: give DataParallel the module that was "
                "exported or traced",
            )


def _with_graphs(modules: Sequence[tuple[str, torch.nn.Module]]) -> list[torch.nn.Module]:
    """Those that run a recorded graph, and the one that torch.export.unflatten keeps beside it."""
    found = [module for _, module in modules if _graph_of(module) is not None]
    inner = [module.__dict__.get("graph_module") for module in found]
    return found + [module for module in inner if isinstance(module, GraphModule)]


def _graph_of(module: torch.nn.Module) -> Graph | None:
    for name in ("_graph", "graph"):  # of a GraphModule, and of torch.export.unflatten
        graph = module.__dict__.get(name)
        if isinstance(graph, Graph):
            return graph
    return None


def _calls(module: torch.nn.Module) -> Sequence[torch.fx.Node]:
    """Calls of ATen: what ``symbolic_trace`` records is the user's own code, which says where."""
    graph = _graph_of(module)
    if graph is None:
        return ()
    return [node for node in graph.nodes if isinstance(node.target, OpOverload)]


def _kept(module: torch.nn.Module) -> Iterator[tuple[dict[str, Any], str, torch.Tensor]]:
    """Tensors that its graph reads from attributes which are not registered (``torch.tensor``)."""
    graph = _graph_of(module)
    for node in () if graph is None else graph.nodes:
        if node.op == "get_attr":
            *path, name = node.target.split(".")
            owner = module
            for each in path:
                owner = getattr(owner, each)
            x = owner.__dict__.get(name)
            if isinstance(x, torch.Tensor):
                yield owner.__dict__, name, x


@cache
def _places(operator: OpOverload) -> tuple[tuple[int, str], ...]:
    """Its arguments that are devices."""
    named = enumerate(operator._schema.arguments)
    return tuple((at, each.name) for at, each in named if "Device" in str(each.type))


def _devices(node: torch.fx.Node) -> list[torch.device]:
    """``move_to_device_pass`` writes strings."""
    found = [
        x
        for at, name in _places(node.target)
        for x in (*node.args[at : at + 1], node.kwargs.get(name))
    ]
    devices = [torch.device(x) for x in found if isinstance(x, (str, torch.device))]
    return [device for device in devices if _is_here(device)]


def _arguments(node: torch.fx.Node, native: torch.device) -> tuple[Any, Any]:
    args, kwargs = list(node.args), dict(node.kwargs)
    for at, name in _places(node.target):
        if name in kwargs:
            kwargs[name] = native
        elif at < len(args):
            args[at] = native
    return tuple(args), kwargs


def _write(module: torch.nn.Module, states: Iterable[tuple[torch.fx.Node, Any, Any]]) -> None:
    for node, args, kwargs in states:
        node.args, node.kwargs = args, kwargs
    inner = module if isinstance(module, GraphModule) else module.__dict__.get("graph_module")
    if inner is not None:
        inner.recompile()


def constants_of(script: Any) -> Iterator[Any]:
    """The nodes of constants in the graphs of its methods, without those of modules in it."""
    for name in script._c._method_names():
        yield from script._c._get_method(name).graph.findAllNodes("prim::Constant")


def _of_script(module: Any) -> Iterator[tuple[torch.device, str]]:
    for node in constants_of(module):
        if node.output().type().kind() == "DeviceObjType":
            device = torch.device(node.s("value"))
            makes = [use.user for use in node.output().uses() if _has_dimensions(use.user)]
            if makes and _is_here(device):
                yield device, makes[0].kind()


def _has_dimensions(node: Any) -> bool:
    """A tensor without dimensions on the CPU is a number to the operators of a GPU."""
    made = [*node.outputs()]
    kinds = [x.type() for x in made if x.type().kind() == "TensorType"]
    return any(kind.dim() != 0 for kind in kinds)


def _is_here(device: torch.device) -> bool:
    if device.type == "cpu":
        return True
    own = torch.accelerator.current_accelerator()
    return (
        own is not None
        and own.type == device.type
        and (device.index or 0) < torch.accelerator.device_count()
    )
