"""Containers of PyTorch's tensors: its own, and those of libraries that a program may import."""

from __future__ import annotations

import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree

from unidev.contract import found_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unidev.contract import Children


def _packed_apart(packed: PackedSequence) -> tuple[tuple[Any, ...], torch.Tensor]:
    """The sizes of the batches stay on the host, where PyTorch wants them."""
    return (packed.data, packed.sorted_indices, packed.unsorted_indices), packed.batch_sizes


def _packed_together(sizes: torch.Tensor, parts: Sequence[Any]) -> PackedSequence:
    data, in_order, out_of_order = parts
    return PackedSequence(data, sizes, in_order, out_of_order)


def _graph_apart(graph: Any) -> tuple[list[Any], Any, list[str]]:
    """A graph keeps what it holds in stores, which refer to the graph."""
    steps, children = [], []
    for number, store in enumerate(graph.stores):
        at = "" if len(graph.stores) == 1 else f".stores[{number}]"
        for key, value in store._mapping.items():
            steps.append(f"{at}[{key!r}]")
            children.append(value)
    return children, graph, steps


def _graph_together(graph: Any, children: Sequence[Any]) -> Any:
    made, left = copy.copy(graph), iter(children)
    for store in made.stores:
        store._mapping = {key: next(left) for key in store._mapping}
    return made


def _tensor_dict_apart(x: Any) -> tuple[list[Any], Any, list[str]]:
    return [*x.values()], x, [f"[{key!r}]" for key in x.keys()]  # noqa: SIM118  it has no __iter__


def _tensor_dict_together(x: Any, children: Sequence[Any]) -> Any:
    """One that names a device names that of its tensors."""
    device = getattr(children[0], "device", None) if x.device is not None else None
    items = dict(zip(x.keys(), children, strict=True))
    return type(x)(items, batch_size=x.batch_size, names=x.names, device=device)


def _layer_apart(layer: Any) -> tuple[list[Any], Any, list[str]]:
    return [*vars(layer).values()], layer, [f".{name}" for name in vars(layer)]


def _layer_together(layer: Any, children: Sequence[Any]) -> Any:
    """The device to which it brings back what it has offloaded is that of its tensors, too."""
    made = copy.copy(layer)
    held = dict(zip(vars(layer), children, strict=True))
    there = next((x.device for _, x in found_in(children, torch.is_tensor)), None)
    for name, x in held.items():
        made.__dict__[name] = there if isinstance(x, torch.device) and there is not None else x
    return made


CONTAINERS: Mapping[type | str, tuple[Callable[..., Any], Callable[..., Any]] | None]
CONTAINERS = MappingProxyType(
    {
        PackedSequence: (_packed_apart, _packed_together),
        # torch_geometric 2.8
        "torch_geometric.data.data.BaseData": (_graph_apart, _graph_together),
        # tensordict 0.15
        "tensordict._td.TensorDict": (_tensor_dict_apart, _tensor_dict_together),
        # transformers 5.23
        "transformers.cache_utils.Cache": None,
        "transformers.cache_utils.CacheLayerMixin": (_layer_apart, _layer_together),
        "transformers.cache_utils.LinearAttentionCacheLayerMixin": (_layer_apart, _layer_together),
    }
)
"""As ``Backend.containers``."""


def opened(x: object) -> Children | None:
    """As ``Backend.opened``, by the registry that PyTorch's own transformations use.

    The module is private, and the only one by which programs and libraries register their classes
    (torch 2.13): ``torch.export``'s and ``torch.func``'s users call ``register_pytree_node`` there.
    """
    node = _pytree.SUPPORTED_NODES.get(type(x))
    if node is None or type(x) is torch.Size:  # numbers only
        return None
    children, context = node.flatten_fn(x)
    steps = [f"[{number}]" for number in range(len(children))]
    if node.flatten_with_keys_fn is not None:
        steps = [str(key) for key, _ in node.flatten_with_keys_fn(x)[0]]
    return dict(zip(steps, children, strict=True)), lambda new: node.unflatten_fn([*new], context)
