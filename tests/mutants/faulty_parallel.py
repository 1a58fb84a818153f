"""PyTorch's backend, wrong over several devices and between frameworks where there is more of it.

Each conformed once: statistics up to three levels deep, tensors of other sizes, tensors alone
between layers, fewer than 16 conversions after one that is held.
"""

from __future__ import annotations

from contextlib import contextmanager

from mutants.mutant import (
    TORCH,
    in_place_of,
    mutant,
    replace,
    replace_value,
    torch_mutant,
    when_restored,
)


@torch_mutant("packing.shapes", profile="multi")
def packed_shapes_are_remembered_by_size(backend):
    """How to take a tensor apart is kept for tensors of as many elements: of other shapes, too."""
    import math

    from unidev_torch import collectives

    sound, known = collectives._of, {}

    @in_place_of(sound)
    def _of(shapes):
        return known.setdefault(tuple(map(math.prod, shapes)), sound(shapes))


@torch_mutant("spreading.what_flows", profile="multi", around=".nn.layers:_given")
def containers_between_layers_stay(sound, function, module, inputs):
    """Between layers of a net that is spread, tensors are moved, and containers of them are not."""
    import torch

    return tuple(function(module, x) if isinstance(x, torch.Tensor) else x for x in inputs)


@torch_mutant("reducing.in_place", profile="multi", around=".collectives:TorchCollectives.write")
def targets_are_given_other_memory(sound, self, targets, values):
    """In place, a tensor has the result, and what shares its memory has not."""
    for target, value in zip(targets, values, strict=True):
        target.data = value


@torch_mutant("reducing.memory", profile="multi", around=".collectives:TorchCollectives.pack")
def a_pack_of_one_is_that_tensor(sound, self, tensors):
    """What is reduced alone on one device is not copied."""
    return tensors[0].detach().reshape(-1) if len(tensors) == 1 else sound(self, tensors)


@mutant("workers.values", plugin=TORCH, profile="multi", simulated_count=0)
def large_unsigned_integers_compare_as_signed(backend):
    """Between processes, by gloo: numbers from 2**63 on are less than all others."""
    from unidev_torch.group.engine import TorchEngine

    ordered = TorchEngine.carries["min"] | {"uint64"}
    replace_value(TorchEngine, "carries", {**TorchEngine.carries, "min": ordered, "max": ordered})


@torch_mutant("tracer.scopes_left_in_any_order", profile="tensor")
def scopes_end_what_is_innermost(backend):
    """A device's scope ends the trace that was begun inside it, and itself goes on."""
    import torch
    from torch.utils._device import DeviceContext

    from unidev_torch import scopes

    @replace(backend)
    @contextmanager
    def native_scope(self, device):
        mode = DeviceContext(device.native)
        when_restored(lambda: scopes.remove_call_mode(mode))
        scopes.push_call_mode(mode)
        try:
            yield
        finally:
            torch.overrides._pop_mode()


@torch_mutant("values.memory_that_is_cut_short", profile="tensor", everywhere=".tensors:is_covered")
def the_offset_of_a_view_is_forgotten(sound, x):
    """Memory that is as large as the view is enough, wherever the view begins."""
    from unidev_torch import tensors

    first, end = tensors.span(x)
    return bool(x.untyped_storage().nbytes() >= end - first)


@torch_mutant("statistics.memory", profile="tensor", around="memory")
def reserved_bytes_are_those_of_the_current_device(sound, self, device):
    """Whichever device is asked about."""
    import torch

    found = sound(self, device)
    if device.kind == "cpu":
        return found
    return found.with_reserved(torch.get_device_module(device.native).memory_reserved())
