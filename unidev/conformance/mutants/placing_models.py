"""Models that move, and lose something on the way."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from unidev.conformance.mutants.mutant import (
    in_place_of,
    mutant,
    replace,
    replace_value,
    training_mutant,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def _afterwards(do: Callable[[Any], object]) -> None:
    """Let ``do(net)`` happen when all parts have been exchanged."""
    from unidev.conformance.mutants.reference_net import Net
    from unidev.conformance.mutants.reference_training import ReferenceModels

    def finish(self: Any, model: Any, optimizer: Any, device: Any) -> Any:
        if isinstance(model, Net):
            do(model)
        return optimizer

    replace_value(ReferenceModels, "finish", finish)


@training_mutant("placing.same_object_returned")
def place_returns_another_model(backend: Any) -> None:
    """Another object comes back, which a framework's ``clone_model`` or ``deepcopy`` made."""
    import unidev

    move = unidev.place

    @in_place_of(move)
    def place(model: Any, device: Any, /, *, optimizer: Any = None) -> Any:
        placed = move(model, device, optimizer=optimizer)
        return placed if optimizer is not None else copy.copy(placed)


@training_mutant("placing.everything_arrives")
def buffers_left_behind(backend: Any) -> None:
    """Parameters move, statistics do not: torch's plain tensor attributes."""
    _leave("Buffer")


def _leave(kind: str) -> None:
    from unidev.conformance.mutants import reference_net
    from unidev.conformance.mutants.reference_training import ReferenceModels

    all_parts, left = ReferenceModels.parts, getattr(reference_net, kind)

    @replace(ReferenceModels)
    def parts(self: Any, model: Any, optimizer: Any) -> Any:
        return [each for each in all_parts(self, model, optimizer) if not isinstance(each, left)]


@training_mutant("placing.everything_arrives")
def gradients_left_behind(backend: Any) -> None:
    """The parameter moves, its gradient stays where it was."""
    from unidev.conformance.mutants.reference_net import Cell
    from unidev.conformance.mutants.reference_training import ReferenceModels

    swap_all = ReferenceModels.swap

    @replace(ReferenceModels)
    def swap(self: Any, part: Any, twin: Any) -> None:
        swap_all(self, part, twin)
        if isinstance(part, Cell):
            part.grad, twin.grad = twin.grad, part.grad


@training_mutant("placing.parameter_objects_stay", "placing.earlier_optimizer_trains")
def optimizer_orphaned(backend: Any) -> None:
    """New parameters in place of the old ones: torch's ``Module.to`` from cpu to meta."""

    def renew(net: Any) -> None:
        new = {id(cell): copy.copy(cell) for cell in net.cells()}
        for layer in {id(each): each for each in (net.first, net.middle, net.second)}.values():
            layer.weight, layer.bias = new[id(layer.weight)], new[id(layer.bias)]
        net.scale = new[id(net.scale)]

    _afterwards(renew)


@training_mutant("placing.ties_stay")
def ties_cut(backend: Any) -> None:
    """Each layer gets a weight of its own, with the same numbers."""
    from unidev.conformance.mutants.taped import Taped

    def untie(net: Any) -> None:
        tied = copy.copy(net.second.weight)
        tied.data = Taped.make(tied.data.copy(), tied.data.simulated_device)
        net.second.weight = tied

    _afterwards(untie)


@training_mutant("placing.shared_submodules_stay")
def shared_layers_become_two(backend: Any) -> None:
    """A layer at two places is copied at each."""

    def separate(net: Any) -> None:
        net.again = copy.copy(net.middle)

    _afterwards(separate)


@training_mutant("placing.frozen_stays")
def frozen_flags_lost(backend: Any) -> None:
    """The new parameter is one as they come: ``Parameter(x.to(device))``."""

    def thaw(net: Any) -> None:
        net.scale.is_frozen = False

    _afterwards(thaw)


@training_mutant("placing.hooks_stay")
def hooks_lost(backend: Any) -> None:
    """The hooks are those of the old model."""
    _afterwards(lambda net: net.hooks.clear())


@training_mutant("placing.mode_stays")
def training_mode_lost(backend: Any) -> None:
    """A model that moves is taken to be there for inference."""

    def infer(net: Any) -> None:
        net.is_training = False

    _afterwards(infer)


@training_mutant("placing.forward_to_the_bit", "placing.everything_arrives")
def half_precision_on_the_way(backend: Any) -> None:
    """The numbers go through float16, as in a slower link's compression."""
    import numpy as np

    from unidev.conformance.mutants.reference_net import Cell, overwrite
    from unidev.conformance.mutants.reference_training import ReferenceModels

    exact = ReferenceModels.twin

    @replace(ReferenceModels)
    def twin(self: Any, part: Any, device: Any) -> Any:
        made = exact(self, part, device)
        if isinstance(made, Cell):
            overwrite(made.data, np.asarray(made.data).astype("float16"))
        return made


@training_mutant("placing.already_there_is_not_touched")
def a_no_op_copies(backend: Any) -> None:
    """A model that is there is moved all the same: Gluon's ``reset_ctx`` reallocates."""
    from unidev.conformance.mutants.reference_training import ReferenceModels

    replace_value(ReferenceModels, "is_on", lambda self, part, device: False)
    replace_value(ReferenceModels, "is_placed", lambda self, model, device: False)


@training_mutant("placing.optimizer_state_moves")
def optimizer_state_left_behind(backend: Any) -> None:
    """Momentum stays where it was: ``module.to(device)`` knows no optimizer."""
    from unidev.conformance.mutants.reference_training import ReferenceModels

    all_parts = ReferenceModels.parts

    @replace(ReferenceModels)
    def parts(self: Any, model: Any, optimizer: Any) -> Any:
        return all_parts(self, model, None)


@training_mutant("placing.unbuilt")
def unbuilt_models_are_passed_over(backend: Any) -> None:
    """Nothing is there to move, so it is done; it is built on the CPU afterwards."""
    from unidev.conformance.mutants.reference_training import ReferenceModels

    look = ReferenceModels.is_placed

    @replace(ReferenceModels)
    def is_placed(self: Any, model: Any, device: Any) -> Any:
        return not getattr(model, "is_built", True) or look(self, model, device)


@training_mutant("placing.spread_is_refused")
def spread_models_are_gathered(backend: Any) -> None:
    """Of a parameter on several devices the first is moved, and the others go on as they were."""
    from unidev.conformance.mutants.reference_training import ReferenceModels

    all_parts = ReferenceModels.parts

    @replace(ReferenceModels)
    def parts(self: Any, model: Any, optimizer: Any) -> Any:
        model.is_spread = False
        return all_parts(self, model, optimizer)


@training_mutant(
    "failures.no_memory_half_way", "failures.interrupted", "footprint.all_has_arrived_first"
)
def half_moved_on_error(backend: Any) -> None:
    """Each part is given up when it has arrived, whatever becomes of the next: ``Module.to``."""
    from unidev.conformance.mutants.reference_training import ReferenceModels

    def place(self: Any, model: Any, device: Any, optimizer: Any = None) -> Any:
        for part in self.parts(model, optimizer):
            if not self.is_on(part, device):
                self.swap(part, self.twin(part, device))
        return self.finish(model, optimizer, device)

    replace_value(ReferenceModels, "place", place)


@training_mutant("failures.failure_while_swapping", "failures.failure_at_the_end")
def no_way_back(backend: Any) -> None:
    """All arrives first, and then what has been exchanged stays exchanged."""
    from unidev.conformance.mutants.reference_training import ReferenceModels

    def place(self: Any, model: Any, device: Any, optimizer: Any = None) -> Any:
        parts = [part for part in self.parts(model, optimizer) if not self.is_on(part, device)]
        twins = [self.twin(part, device) for part in parts]
        for part, twin in zip(parts, twins, strict=True):
            self.swap(part, twin)
        return self.finish(model, optimizer, device)

    replace_value(ReferenceModels, "place", place)


@training_mutant("failures.device_that_is_not_there")
def placed_on_another_device_instead(backend: Any) -> None:
    """A device that is not there is the CPU: TF's soft placement."""
    import unidev
    from unidev.devices.finding import resolve_device as resolve
    from unidev.models import placing

    def forgiving(device: Any, backend: Any) -> Any:
        try:
            return resolve(device, backend)
        except unidev.DeviceError:
            return backend.cpu

    replace_value(placing, "resolve_device", forgiving)


@mutant("footprint.old_memory_is_released", profile="train")
def old_memory_is_kept(backend: Any) -> None:
    """What was exchanged is held on to, in case it is needed again."""
    from unidev.numpy_backend.models import NumpyModels

    exchange = NumpyModels.swap
    kept: list[Any] = []

    @replace(NumpyModels)
    def swap(self: Any, part: Any, twin: Any) -> None:
        exchange(self, part, twin)
        kept.append(twin)
