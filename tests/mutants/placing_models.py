"""Models that move, and lose something on the way."""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any

import unidev
from mutants.mutant import around, in_place_of, mutant, replace_value, torch_mutant
from unidev.backends.numpy_backend.models import NumpyModels
from unidev.errors import UnsupportedOperation
from unidev.models import placing
from unidev.parallel.devices import replicating
from unidev.tensors.checks import device_of
from unidev.tensors.devices import resolve_device as resolve

if TYPE_CHECKING:
    from collections.abc import Callable


@torch_mutant("placing.one_thread_at_a_time", profile="train")
def threads_place_at_once(backend):
    """No thread waits for another one that places a model."""
    replace_value(placing, "_one_at_a_time", contextlib.nullcontext())


def _afterwards(do: Callable[[Any], object]) -> None:
    """Let ``do(net)`` happen when all parts have been exchanged."""
    from unidev_torch.models import TorchModels
    from unidev_torch.probe.training import Sample

    def finish(self: Any, model: Any, optimizer: Any, device: Any) -> Any:
        if isinstance(model, Sample):
            do(model)
        return optimizer

    replace_value(TorchModels, "finish", finish)


@torch_mutant("placing.same_object_returned")
def place_returns_another_model(backend):
    """Another object comes back, which a framework's ``clone_model`` or ``deepcopy`` made."""

    move = unidev.place

    @in_place_of(move)
    def place(model, device, /, *, optimizer=None):
        placed = move(model, device, optimizer=optimizer)
        return placed if optimizer is not None else copy.copy(placed)


@torch_mutant("placing.everything_arrives")
def buffers_left_behind(backend):
    """Parameters move, statistics do not: torch's plain tensor attributes."""
    _leave(lambda part, model: any(x is y for x in part.tensors for y in model.buffers()))


def _leave(is_left: Callable[[Any, Any], bool]) -> None:
    """Let the parts of a model of which ``is_left(part, model)`` holds stay behind."""
    from unidev_torch.models import TorchModels, swap

    replace_value(swap, "_TOGETHER", 1)  # a part for each tensor

    @around(TorchModels)
    def parts(all_parts: Any, self: Any, model: Any, optimizer: Any) -> Any:
        return [part for part in all_parts(self, model, optimizer) if not is_left(part, model)]


@torch_mutant("placing.parameter_objects_stay", "placing.earlier_optimizer_trains")
def optimizer_orphaned(backend):
    """New parameters in place of the old ones: torch's ``Module.to`` from cpu to meta."""

    import torch

    def renew(net):
        new = {x: torch.nn.Parameter(x.data, x.requires_grad) for x in net.parameters()}
        for module in net.modules():
            for name, x in module.named_parameters(recurse=False):
                setattr(module, name, new[x])

    _afterwards(renew)


@torch_mutant("placing.ties_stay")
def ties_cut(backend):
    """Each layer gets a weight of its own, with the same numbers."""

    def untie(net):
        net.second.weight = copy.deepcopy(net.first.weight)

    _afterwards(untie)


@torch_mutant("placing.shared_submodules_stay")
def shared_layers_become_two(backend):
    """A layer at two places is copied at each."""

    def separate(net):
        net.again = copy.copy(net.inner)

    _afterwards(separate)


@torch_mutant("placing.frozen_stays")
def frozen_flags_lost(backend):
    """The new parameter is one as they come: ``Parameter(x.to(device))``."""

    def thaw(net):
        net.requires_grad_(True)

    _afterwards(thaw)


@torch_mutant("placing.hooks_stay")
def hooks_lost(backend):
    """The hooks are those of the old model."""
    _afterwards(lambda net: net._forward_hooks.clear())


@torch_mutant(
    "placing.forward_to_the_bit", "placing.everything_arrives", around=".models:TorchModels.twin"
)
def half_precision_on_the_way(exact, self, part, device):
    """The numbers go through float16, as in a slower link's compression."""
    made = exact(self, part, device)
    for x in made.memory:
        x.copy_(x.half())
    return made


@torch_mutant("placing.already_there_is_not_touched")
def a_no_op_copies(backend):
    """A model that is there is moved all the same: Gluon's ``reset_ctx`` reallocates."""
    from unidev_torch.models import TorchModels

    replace_value(TorchModels, "is_on", lambda self, part, device: False)
    replace_value(TorchModels, "is_placed", lambda self, model, device: False)


@torch_mutant("placing.wrapped_state_moves", around=".models:TorchModels.parts")
def wrapped_optimizers_left_behind(all_parts, self, model, optimizer):
    """Only an optimizer's own state moves, and SAM's moments are in the one that it wraps."""
    inner = vars(optimizer).pop("inner")
    parts = all_parts(self, model, optimizer)
    optimizer.inner = inner
    return parts


@torch_mutant("placing.unbuilt")
def unbuilt_models_are_passed_over(backend):
    """Nothing is there to move, so it is done; it is built on the CPU afterwards."""
    from unidev_torch.models import TorchModels, tree

    @around(TorchModels)
    def is_placed(look, self, model, device):
        return tree.lazy_name(model) is not None or look(self, model, device)


@torch_mutant("placing.spread_is_refused")
def spread_models_are_gathered(backend):
    """Of a parameter on several devices the first is moved, and the others go on as they were."""
    from unidev_torch.models import tree

    _give_the_probe_a_sharded_model()
    in_place_of(tree.check_modules)(lambda modules: None)


@torch_mutant("placing.spread_is_refused")
def spread_tensors_have_one_device(backend):
    """Asked where it is, a tensor on several devices names the first: TF's ``MirroredVariable``."""
    _give_the_probe_a_sharded_model()


@torch_mutant("placing.spread_is_refused", result="pass")
def has_a_sharded_model(backend):
    """Nothing is broken; PyTorch's probe has no model on several devices, as it takes processes."""

    _give_the_probe_a_sharded_model()

    @around(backend)
    def device_of(find, self, x):
        if type(x).__name__ == "FlatParameter":
            raise UnsupportedOperation("the device of a sharded parameter", "it has several")
        return find(self, x)


def _give_the_probe_a_sharded_model() -> None:
    import torch

    from unidev_torch.probe.training import TorchModelProbe

    class FlatParameter(torch.nn.Parameter):
        pass

    class FullyShardedDataParallel(torch.nn.Module):
        """The backend goes by the name."""

        def __init__(self) -> None:
            super().__init__()
            self.flat = FlatParameter(torch.ones(2))

    replace_value(TorchModelProbe, "spread", lambda self: FullyShardedDataParallel())


@torch_mutant(
    "failures.no_memory_half_way", "failures.interrupted", "footprint.all_has_arrived_first"
)
def model_half_moved_on_error(backend):
    """Each part is given up when it has arrived, whatever becomes of the next: ``Module.to``."""
    from unidev_torch.models import TorchModels, swap

    replace_value(swap, "_TOGETHER", 1)

    def place(self, model, device, optimizer=None):
        for part in self.parts(model, optimizer):
            if not self.is_on(part, device):
                self.swap(part, self.twin(part, device))
        return self.finish(model, optimizer, device)

    replace_value(TorchModels, "place", place)


@torch_mutant("failures.failure_while_swapping", "failures.failure_at_the_end")
def no_way_back(backend):
    """All arrives first, and then what has been exchanged stays exchanged."""
    from unidev_torch.models import TorchModels

    def place(self, model, device, optimizer=None):
        parts = [part for part in self.parts(model, optimizer) if not self.is_on(part, device)]
        twins = [self.twin(part, device) for part in parts]
        for part, twin in zip(parts, twins, strict=True):
            self.swap(part, twin)
        return self.finish(model, optimizer, device)

    replace_value(TorchModels, "place", place)


@torch_mutant("failures.device_that_is_not_there")
def placed_on_another_device_instead(backend):
    """A device that is not there is the CPU: TF's soft placement."""

    def forgiving(device, backend):
        try:
            return resolve(device, backend)
        except unidev.DeviceError:
            return backend.cpu

    replace_value(placing, "resolve_device", forgiving)


@mutant("footprint.old_memory_is_released", profile="train")
def old_memory_is_kept(backend):
    """What was exchanged is held on to, in case it is needed again."""

    kept: list[Any] = []

    @around(NumpyModels)
    def swap(exchange, self, part, twin):
        exchange(self, part, twin)
        kept.append(twin)


@torch_mutant("placing.remembered_device_follows")
def remembered_devices_are_stale(backend):
    """Only tensors move: a Lightning module's ``device`` names the one that it came from."""
    from unidev_torch.models import tree

    in_place_of(tree.move_what_else)(lambda model, native, **options: None)


@torch_mutant("placing.unregistered_is_named")
def lists_are_not_looked_into(backend):
    """What is in a list is not the model's: ``Module.to`` leaves it without a word."""
    from unidev_torch.models import TorchModels

    replace_value(TorchModels, "beside", lambda self, layer: ())


@torch_mutant("placing.unregistered_is_named", everywhere="unidev.contract.models:found_in")
def objects_are_not_looked_into(found_in, value, is_wanted, name="", deep=0, *above):
    """A distribution in an attribute is left there: ``Module.to``."""
    return found_in(value, is_wanted, name, min(deep, 1), *above)


@torch_mutant(
    "placing.gradient_of_an_embedding", around=".probe.training:TorchModelProbe.embedding"
)
def gradients_of_embeddings_stay_on_the_host(stored, self, device):
    """The gradient is where a fallback computed it: Paddle's, on devices without the kernel."""
    weight, gradient = stored(self, device)
    return weight, gradient.cpu()


@torch_mutant("placing.modes_of_layers_stay", around=".models:TorchModels.finish")
def layers_get_the_mode_of_their_net(sound, self, model, optimizer, device):
    """Frozen batch norms train again: ``model.train()`` of a whole model."""
    if model is not None:
        model.train(model.training)
    return sound(self, model, optimizer, device)


@torch_mutant("placing.hooks_stay", around=".models:TorchModels.finish")
def hooks_of_parameters_are_lost(sound, self, model, optimizer, device):
    """Those of modules stay: parameters were made anew."""
    for x in model.parameters() if model is not None else ():
        x._backward_hooks = None
    return sound(self, model, optimizer, device)


@torch_mutant("placing.modes_of_layers_stay", around=".models:TorchModels.copy")
def copies_train(copied, self, model):
    """A copy is as new as its parts: frozen batch norms of replicas train."""
    return copied(self, model).train()


@mutant("placing.modes_of_layers_stay", profile="train")
def a_copy_on_its_own_device_is_the_model(backend):
    """``replicate`` moves a model that is elsewhere, and gives out one that is there."""
    made = replicating._copy_on

    @in_place_of(made)
    def _copy_on(device, model, backend):
        return model if device_of(model) is device else made(device, model, backend)


@torch_mutant("checkpoints.round_trip", around=".models:TorchModels.stored")
def buffers_are_stored_as_first_seen(found, self, model):
    """A buffer that the model has bound anew is not stored: a list that is made once."""
    known = vars(model).setdefault("_stored", {})
    known.update({n: x for n, x in found(self, model).items() if n not in known})
    return known
