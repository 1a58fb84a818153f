"""Models and optimizers that are moved, replicated or stored in part.

Each conformed once, as the models of the checks had few tensors, nearly all of float32.
"""

from __future__ import annotations

from mutants.mutant import mutant, replace, replace_value, torch_mutant
from unidev.contract import models

_PLACED = "placing.any_model"
_REPLICAS = "data_parallel.replicas_of_any_model"
_OPTIMIZERS = "checkpoints.optimizer_state"


class _NotHeld:
    """Instead of ``held_interrupts``: handlers raise at once."""

    def __enter__(self) -> _NotHeld:
        return self

    def __exit__(self, *_error: object) -> None: ...

    def check(self) -> None: ...


@mutant("placing.whole_under_signals", profile="train")
def a_second_signal_stops_the_way_back(backend):
    """One Ctrl-C is undone; another one, while that is done, ends it half-way."""

    replace_value(models, "held_interrupts", _NotHeld)


@mutant("placing.whole_under_signals", profile="train")
def a_signal_leaves_what_has_moved(backend):
    """Exceptions are undone, but not Ctrl-C, which is none: ``except Exception``."""

    replace_value(models, "held_interrupts", _NotHeld)

    @replace(models.Models)
    def place(self, model, device, optimizer=None):
        for part in self.parts(model, optimizer):
            self.swap(part, self.twin(part, device))
        return self.finish(model, optimizer, device)


@torch_mutant(_PLACED, around=".models:TorchModels.twin")
def complex_tensors_lose_a_part(sound, self, part, device):
    """On the way, complex numbers become real ones, and complex again."""
    found = sound(self, part, device)
    for x in found.memory:
        if x.is_complex():
            x.copy_(x.real.clone())
    return found


@torch_mutant(_REPLICAS, profile="multi", around="unidev.parallel.devices.twins:Twins.current")
def replicas_have_sixteen_tensors(sound, self, count):
    """What comes later is as it was when the replica was made, of zeros."""
    values = sound(self, count)
    return [[x if n < 16 else x * 0 for n, x in enumerate(each)] for each in values]


@torch_mutant(
    "data_parallel.steps",
    profile="multi",
    around="unidev.parallel.devices.replicated_model:ReplicatedModel._reduced",
)
def gradients_of_sixteen_parameters_are_reduced(sound, self, results, counts):
    """Those of further parameters are the first device's."""
    loss, gradients = sound(self, results, counts)
    first = results[0][1]
    kept = dict.fromkeys(list(gradients)[16:])
    return loss, {name: first[name] if name in kept else x for name, x in gradients.items()}


@torch_mutant("data_parallel.statistics", profile="multi", around=".models:TorchModels.statistics")
def statistics_of_the_first_norm_only(sound, self, model):
    """A model has one batch norm: the others keep what the first device has seen."""
    return dict(list(sound(self, model).items())[:2])


@torch_mutant(_OPTIMIZERS, everywhere=".models.optimizers:load_state")
def all_groups_get_the_first_ones_rate(sound, optimizer, given):
    """One learning rate for an optimizer, and not one for each of its groups."""
    sound(optimizer, given)
    for group in optimizer.param_groups:
        group["lr"] = optimizer.param_groups[0]["lr"]


@torch_mutant(_OPTIMIZERS, everywhere=".models.optimizers:_array")
def an_optimizers_state_is_a_view(sound, value):
    """Arrays on the memory of the moments, which the next step changes."""
    import numpy as np

    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.array(value)


@torch_mutant(
    "checkpoints.state_of_another_optimizer", around=".models:TorchModels.load_optimizer_state"
)
def foreign_state_is_passed_over(sound, self, model, optimizer, state):
    """What does not fit is left out: ``load_state_dict(…, strict=False)``."""
    known = self.optimizer_state(optimizer)
    sound(self, model, optimizer, {name: state.get(name, x) for name, x in known.items()})
