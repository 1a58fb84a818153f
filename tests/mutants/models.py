"""Models that are overlooked, misnamed, or taken for something else."""

from __future__ import annotations

from typing import Any

from mutants.mutant import around, in_place_of, mutant, replace_value, torch_mutant
from unidev.backends.selection import active_backend
from unidev.errors import NotATensorError
from unidev.tensors import containers
from unidev.tensors.kinds import MODEL


@torch_mutant("models.probe_calibrated")
def the_model_probe_gives_one_model(backend):
    """Each model of the probe is the same one, so that comparing two proves nothing."""
    from unidev_torch.probe.training import TorchModelProbe

    made: list[Any] = []

    @around(TorchModelProbe)
    def model(make, self):
        if not made:
            made.append(make(self))
        return made[0]


@torch_mutant("models.tensors_are_all_there", around=".models:TorchModels.tensors")
def gradients_are_overlooked(look, self, model):
    """What hangs on a parameter is not looked at: ``module.state_dict()`` has no gradients."""
    return {n: x for n, x in look(self, model).items() if not n.endswith(".grad")}


@torch_mutant("models.parameters_stay", around=".models:TorchModels.parameters")
def parameters_are_what_they_hold(list_all, self, model):
    """A parameter is the tensor that it holds now: the arrays of an ``nnx.Module``."""
    return {name: x.detach().clone() for name, x in list_all(self, model).items()}


@torch_mutant("models.parameters_by_name", around=".models:TorchModels.parameters")
def tied_parameters_stand_twice(sound, self, model):
    """A tied weight stands under each of its names: ``remove_duplicate=False`` in torch."""
    return dict(model.named_parameters(remove_duplicate=False))


@torch_mutant("models.parameters_by_name", "model_gradients.of_a_model")
def frozen_ones_are_trained(backend):
    """Frozen parameters are among those to train: ``net.collect_params()`` has them all."""
    from unidev_torch.models import TorchModels

    replace_value(TorchModels, "trainable", TorchModels.parameters)


@torch_mutant(
    "models.device_of_a_model", "models.mismatch_names_paths", "nested.looking_sees_through",
    "nested.mismatch_names_paths",
)  # fmt: skip
def models_are_not_looked_into(backend):
    """A model is a leaf like any other, and has no device: it is passed over."""

    look = containers.named_tensors

    @in_place_of(look)
    def named_tensors(tree, name, **options):
        for path, x, owner in look(tree, name, **options):
            if path == name or path.endswith("]"):
                yield path, x, owner


@torch_mutant("models.transfer_verbs_refuse", everywhere="unidev.tensors.kinds:not_a_tensor")
def refusals_do_not_name_place(sound, x):
    """A model is refused as anything else is, and nobody is told what to do with it."""
    return NotATensorError(f"a tensor is needed, and this is of type {type(x).__name__}.")


@torch_mutant("nested.transfer_verbs_refuse", around="unidev.tensors.containers:Opened._way_into")
def models_in_containers_are_passed_through(way_into, self, position, leaf, kind):
    """The tensors beside it move, the model stays: accelerate's ``send_to_device``."""
    passes = leaf is not self._tree and kind == MODEL
    return None if passes else way_into(self, position, leaf, kind)


@mutant(
    "models.what_is_no_model_is_refused",
    profile="train",
    everywhere="unidev.models.placing:backend_of_model",
)
def anything_is_a_model(sound, model, **_):
    """What it is given is taken for a model, and fails somewhere inside."""
    return active_backend()


@mutant("models.container_of_arrays", profile="train", around=".models:NumpyModels.swap")
def tied_arrays_come_apart(swap_all, self, part, twin):
    """Of an array that stands at two places one is moved: nnx's plain pytrees."""
    part.places = part.places[:1]
    swap_all(self, part, twin)
