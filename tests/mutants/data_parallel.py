"""Models on several devices: replicas, their steps, and nets that are spread."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mutants.mutant import in_place_of, replace, torch_mutant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mutants.mutant import Breaks, Mutant


def parallel_mutant(*caught_by: str) -> Callable[[Breaks], Mutant]:
    """Of PyTorch's backend, in the profile ``multi``."""
    return torch_mutant(*(f"data_parallel.{each}" for each in caught_by), profile="multi")


@parallel_mutant("steps", "changes")
def twins_left_stale(backend: Any) -> None:
    """Replicas get the values of the start: whatever steps the user's own optimizer makes."""
    from unidev.parallel.twins import Twins

    sound, first = Twins.current, {}

    @replace(Twins)
    def current(self: Any, count: int) -> Any:
        values = sound(self, count)
        if count < 2:
            return values
        kept = first.setdefault((id(self), count), [[x.clone() for x in one] for one in values])
        return [[x.clone() for x in one] for one in kept]


@parallel_mutant("failures")
def twins_not_swapped_back_after_an_error(backend: Any) -> None:
    """A context manager without ``finally``: a failed step leaves its replica in place."""
    from unidev.parallel.twins import Twins

    @replace(Twins)
    @contextmanager
    def _swapped(self: Any, index: int) -> Iterator[None]:
        pairs = list(zip(self._parts, self._twins[index - 1], strict=True))
        for pair in pairs:
            self.backend.models.swap(*pair)
        yield
        for pair in reversed(pairs):
            self.backend.models.swap(*pair)


@parallel_mutant("failures")
def statistics_of_a_failed_step_stay(backend: Any) -> None:
    """The first device's share has changed its running statistics before another one's failed."""
    from unidev.parallel.twins import Twins

    @replace(Twins)
    @contextmanager
    def restoring(self: Any) -> Iterator[None]:
        yield


@parallel_mutant("statistics")
def statistics_of_the_first_replica_only(backend: Any) -> None:
    """``torch.nn.DataParallel``: what the other replicas have seen is lost."""
    from unidev.parallel.running_statistics import Statistics

    @replace(Statistics)
    def average(self: Any, *_: Any) -> None:
        pass


@parallel_mutant("statistics")
def mean_by_devices(backend: Any) -> None:
    """Each device counts the same, however many rows it had."""
    from unidev.parallel.running_statistics import Statistics

    sound = Statistics.average

    @replace(Statistics)
    def average(self: Any, rows: Any, *others: Any) -> None:
        sound(self, [1] * len(rows), *others)


@parallel_mutant("steps")
def gradients_of_the_first_share_only(backend: Any) -> None:
    """The loss and gradients are those of the first device, not of all."""
    from unidev.parallel.replicated_model import ReplicatedModel

    @replace(ReplicatedModel)
    def _reduced(self: Any, results: Any, counts: Any) -> Any:
        return results[0]


@parallel_mutant("steps")
def gradients_stay_on_the_last_device(backend: Any) -> None:
    """They are reduced where the last share was, and not where the optimizer looks."""
    from unidev.parallel.replicated_model import ReplicatedModel

    sound = ReplicatedModel._reduced

    @replace(ReplicatedModel)
    def _reduced(self: Any, results: Any, counts: Any) -> Any:
        loss, gradients = sound(self, results, counts)
        there = self.devices[-1].native
        return loss.to(there), {name: x.to(there) for name, x in gradients.items()}


@parallel_mutant("rows")
def every_device_is_used(backend: Any) -> None:
    """A batch of fewer rows than devices is repeated until each has one."""
    from unidev.parallel import replicated_model

    @in_place_of(replicated_model.rows_of)
    def rows_of(arguments: Any) -> int:
        return 3

    sound = replicated_model.split_batch

    @in_place_of(sound)
    def split_batch(batch: Any, devices: Any, **options: Any) -> Any:
        (x,) = batch
        return sound((x.repeat(3, 1)[: max(3, len(x))],), devices, **options)


@parallel_mutant("outputs")
def outputs_stay_apart(backend: Any) -> None:
    """A call gives the first device's outputs."""
    from unidev.parallel.replicated_model import ReplicatedModel

    @replace(ReplicatedModel)
    def _gathered(self: Any, results: Any, counts: Any) -> Any:
        return results[0]


@parallel_mutant("replicas")
def a_replica_shares_the_models_memory(backend: Any) -> None:
    """The last parts of a model are not copied, but shared by the replicas."""
    from unidev_torch.models import TorchModels

    sound, known = TorchModels.twin, {}

    @replace(TorchModels)
    def twin(self: Any, part: Any, device: Any) -> Any:
        key = (id(part), device)
        if "inner" in part.name and device.kind == "gpu":
            for (other, _), made in known.items():
                if other == id(part):
                    return made
        return known.setdefault(key, sound(self, part, device))


@parallel_mutant("transfers")
def one_copy_a_parameter(backend: Any) -> None:
    """Parameters travel one by one, as in the textbook."""
    from unidev.parallel import packing

    sound = packing.copied_to

    @in_place_of(sound)
    def copied_to(backend: Any, sources: Any, devices: Any, operation: str) -> Any:
        one_by_one = [sound(backend, [x], devices, operation) for x in sources]
        return [[made[n][0] for made in one_by_one] for n in range(len(devices))]


@parallel_mutant("compiled")
def a_compiled_layer_answers_for_the_first_device(backend: Any) -> None:
    """It keeps the weights of its first call, as a ``tf.function`` does: no gradients elsewhere."""
    import torch

    from unidev_torch.probe.training import TorchModelProbe

    class Kept(torch.nn.Linear):
        kept: Any = None

        def forward(self, x: Any) -> Any:
            if self.kept is None:
                self.kept = self.weight.device, self.weight.detach().clone()
            device, weight = self.kept
            own = self.weight if x.device == device else weight.to(x.device)
            return torch.nn.functional.linear(x, own, self.bias)

    @replace(TorchModelProbe)
    def compiled(self: Any) -> Any:
        made = Kept(4, 4)
        torch.nn.init.ones_(made.weight)
        return made


@parallel_mutant("copies")
def the_first_copy_is_the_model(backend: Any) -> None:
    """A model that is on the device already is not copied: ``torch.nn.parallel.replicate``."""
    from unidev.parallel import replicating

    sound = replicating._copy_on

    @in_place_of(sound)
    def _copy_on(device: Any, model: Any, backend: Any) -> Any:
        there = all(x.device == device.native for x in model.parameters())
        return model if there else sound(device, model, backend)


@parallel_mutant("copies")
def ties_come_apart_in_copies(backend: Any) -> None:
    """Each place of a tied weight gets a parameter of its own, as ``load_state_dict`` would."""
    from unidev_torch.models import TorchModels

    sound = TorchModels.copy

    @replace(TorchModels)
    def copy(self: Any, model: Any) -> Any:
        import torch

        made = sound(self, model)
        for module in made.modules():
            for name, x in list(module._parameters.items()):
                if x is not None:
                    module._parameters[name] = torch.nn.Parameter(
                        x.detach().clone(), x.requires_grad
                    )
        return made


@parallel_mutant("errors")
def a_handle_inside_itself(backend: Any) -> None:
    """Nothing notices that a handle is called while it is at work."""
    from contextlib import nullcontext

    from unidev.parallel.replicated_model import ReplicatedModel

    @replace(ReplicatedModel)
    def _alone(self: Any) -> Any:
        return nullcontext()


@torch_mutant("spreading.outputs", "spreading.steps", profile="multi")
def inputs_do_not_follow(backend: Any) -> None:
    """Layers are placed, and what flows between them is not moved."""
    from unidev_torch.nn.layers import TorchLayers

    @replace(TorchLayers)
    def before(self: Any, layer: Any, function: Any) -> None:
        pass


@torch_mutant("spreading.errors", profile="multi")
def layers_that_share_are_torn(backend: Any) -> None:
    """A shared parameter goes with the last layer that has it."""
    from unidev.parallel import spreading

    @in_place_of(spreading._check_apart)
    def _check_apart(stages: Any) -> None:
        pass
