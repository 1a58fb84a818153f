"""Models that are overlooked, misnamed, or taken for something else."""

from __future__ import annotations

from typing import Any

from mutants.mutant import in_place_of, mutant, replace, replace_value, torch_mutant


@torch_mutant("models.probe_calibrated")
def the_model_probe_gives_one_model(backend: Any) -> None:
    """Each model of the probe is the same one, so that comparing two proves nothing."""
    from unidev_torch.probe.training import TorchModelProbe

    make = TorchModelProbe.model
    made: list[Any] = []

    @replace(TorchModelProbe)
    def model(self: Any) -> Any:
        if not made:
            made.append(make(self))
        return made[0]


@torch_mutant("models.tensors_are_all_there")
def gradients_are_overlooked(backend: Any) -> None:
    """What hangs on a parameter is not looked at: ``module.state_dict()`` has no gradients."""
    from unidev_torch.models import TorchModels

    look = TorchModels.tensors

    @replace(TorchModels)
    def tensors(self: Any, model: Any) -> Any:
        return {n: x for n, x in look(self, model).items() if not n.endswith(".grad")}


@torch_mutant("models.parameters_stay")
def parameters_are_what_they_hold(backend: Any) -> None:
    """A parameter is the tensor that it holds now: the arrays of an ``nnx.Module``."""
    from unidev_torch.models import TorchModels

    list_all = TorchModels.parameters

    @replace(TorchModels)
    def parameters(self: Any, model: Any) -> Any:
        return {name: x.detach().clone() for name, x in list_all(self, model).items()}


@torch_mutant("models.parameters_by_name")
def tied_parameters_stand_twice(backend: Any) -> None:
    """A tied weight stands under each of its names: ``remove_duplicate=False`` in torch."""
    from unidev_torch.models import TorchModels

    @replace(TorchModels)
    def parameters(self: Any, model: Any) -> Any:
        return dict(model.named_parameters(remove_duplicate=False))


@torch_mutant("models.parameters_by_name", "value_and_grad.of_a_model")
def frozen_ones_are_trained(backend: Any) -> None:
    """Frozen parameters are among those to train: ``net.collect_params()`` has them all."""
    from unidev_torch.models import TorchModels

    replace_value(TorchModels, "trainable", TorchModels.parameters)


@torch_mutant(
    "models.device_of_a_model", "models.mismatch_names_paths", "nested.looking_sees_through",
    "nested.mismatch_names_paths",
)  # fmt: skip
def models_are_not_looked_into(backend: Any) -> None:
    """A model is a leaf like any other, and has no device: it is passed over."""
    from unidev.tensors import containers

    look = containers.named_tensors

    @in_place_of(look)
    def named_tensors(tree: Any, name: str) -> Any:
        for path, x, owner in look(tree, name):
            if path == name or path.endswith("]"):
                yield path, x, owner


@torch_mutant("models.transfer_verbs_refuse")
def refusals_do_not_name_place(backend: Any) -> None:
    """A model is refused as anything else is, and nobody is told what to do with it."""
    from unidev.errors import NotATensorError
    from unidev.tensors import classify

    @in_place_of(classify.not_a_tensor)
    def not_a_tensor(x: Any) -> Exception:
        return NotATensorError(f"a tensor is needed, and this is of type {type(x).__name__}.")


@torch_mutant("nested.transfer_verbs_refuse")
def models_in_containers_are_passed_through(backend: Any) -> None:
    """The tensors beside it move, the model stays: accelerate's ``send_to_device``."""
    from unidev.tensors.classify import MODEL
    from unidev.tensors.containers import Opened

    way_into = Opened._way_into

    @replace(Opened)
    def _way_into(self: Any, position: int, leaf: Any, kind: str) -> Any:
        passes = leaf is not self._tree and kind == MODEL
        return None if passes else way_into(self, position, leaf, kind)


@mutant("models.what_is_no_model_is_refused", profile="train")
def anything_is_a_model(backend: Any) -> None:
    """What it is given is taken for a model, and fails somewhere inside."""
    from unidev.models import placing
    from unidev.registry.selection import active_backend

    @in_place_of(placing.backend_of_model)
    def backend_of_model(model: Any, **_: Any) -> Any:
        return active_backend()


@mutant("models.container_of_arrays", profile="train")
def tied_arrays_come_apart(backend: Any) -> None:
    """Of an array that stands at two places one is moved: nnx's plain pytrees."""
    from unidev.numpy_backend.models import NumpyModels

    swap_all = NumpyModels.swap

    @replace(NumpyModels)
    def swap(self: Any, part: Any, twin: Any) -> None:
        part.places = part.places[:1]
        swap_all(self, part, twin)
