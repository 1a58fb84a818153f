"""Models on several devices: replicas, their steps, and nets that are spread."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from mutants.mutant import in_place_of, replace, torch_mutant
from unidev.parallel.devices import packing, replicated_model, replicating
from unidev.parallel.devices.twins import Twins


def parallel_mutant(*caught_by: str, **options: Any) -> Any:
    """Of PyTorch's backend, in the profile ``multi``."""
    checks = (f"data_parallel.{each}" for each in caught_by)
    return torch_mutant(*checks, profile="multi", **options)


@parallel_mutant("steps", "changes")
def twins_left_stale(backend):
    """Replicas get the values of the start: whatever steps the user's own optimizer makes."""

    sound, first = Twins.current, {}

    @replace(Twins)
    def current(self, count):
        values = sound(self, count)
        if count < 2:
            return values
        kept = first.setdefault((id(self), count), [[x.clone() for x in one] for one in values])
        return [[x.clone() for x in one] for one in kept]


@parallel_mutant("failures")
def statistics_of_a_failed_step_stay(backend):
    """The first device's share has changed its running statistics before another one's failed."""

    @replace(Twins)
    @contextmanager
    def restoring(self):
        yield


@parallel_mutant("failures", around="unidev.parallel.devices.twins:Bindings.restore")
def what_a_failed_step_binds_stays(sound, self):
    """The model keeps the buffers that the step has bound anew."""


@parallel_mutant(
    "statistics", around="unidev.parallel.devices.running_statistics:Statistics.average"
)
def mean_by_devices(sound, self, rows, *others):
    """Each device counts the same, however many rows it had."""
    sound(self, [1] * len(rows), *others)


@parallel_mutant("rows")
def every_device_is_used(backend):
    """A batch of fewer rows than devices is repeated until each has one."""

    @in_place_of(replicated_model.rows_of)
    def rows_of(arguments):
        return 3

    sound = replicated_model.split_batch

    @in_place_of(sound)
    def split_batch(batch, devices, **options):
        (x,) = batch
        return sound((x.repeat(3, 1)[: max(3, len(x))],), devices, **options)


@parallel_mutant(
    "outputs", around="unidev.parallel.devices.replicated_model:ReplicatedModel._gathered"
)
def outputs_stay_apart(sound, self, results, counts):
    """A call gives the first device's outputs."""
    return results[0]


@parallel_mutant("replicas")
def a_replica_shares_the_models_memory(backend):
    """The last parts of a model are not copied, but shared by the replicas."""
    from unidev_torch.models import TorchModels

    sound, known = TorchModels.twin, {}

    @replace(TorchModels)
    def twin(self, part, device):
        key = (id(part), device)
        if "inner" in part.name and device.kind == "gpu":
            for (other, _), made in known.items():
                if other == id(part):
                    return made
        return known.setdefault(key, sound(self, part, device))


@parallel_mutant("transfers")
def one_copy_a_parameter(backend):
    """Parameters travel one by one, as in the textbook."""

    sound = packing.copied_to

    @in_place_of(sound)
    def copied_to(backend, sources, devices, operation):
        one_by_one = [sound(backend, [x], devices, operation) for x in sources]
        return [[made[n][0] for made in one_by_one] for n in range(len(devices))]


@parallel_mutant("compiled")
def a_compiled_layer_answers_for_the_first_device(backend):
    """It keeps the weights of its first call, as a ``tf.function`` does: no gradients elsewhere."""
    import torch

    from unidev_torch.probe.training import TorchModelProbe

    class Kept(torch.nn.Linear):
        kept: Any = None

        def forward(self, x):
            if self.kept is None:
                self.kept = self.weight.device, self.weight.detach().clone()
            device, weight = self.kept
            own = self.weight if x.device == device else weight.to(x.device)
            return torch.nn.functional.linear(x, own, self.bias)

    @replace(TorchModelProbe)
    def compiled(self):
        made = Kept(4, 4)
        torch.nn.init.ones_(made.weight)
        return made


@parallel_mutant("copies")
def the_first_copy_is_the_model(backend):
    """A model that is on the device already is not copied: ``torch.nn.parallel.replicate``."""

    sound = replicating._copy_on

    @in_place_of(sound)
    def _copy_on(device, model, backend):
        there = all(x.device == device.native for x in model.parameters())
        return model if there else sound(device, model, backend)


@parallel_mutant("errors", around="unidev.parallel.devices.replicated_model:ReplicatedModel._alone")
def a_handle_inside_itself(sound, self):
    """Nothing notices that a handle is called while it is at work."""
    from contextlib import nullcontext

    return nullcontext()


@torch_mutant(
    "spreading.outputs", "spreading.steps", profile="multi", around=".nn.layers:TorchLayers.before"
)
def inputs_do_not_follow(sound, self, layer, function):
    """Layers are placed, and what flows between them is not moved."""


@torch_mutant(
    "spreading.errors", profile="multi", everywhere="unidev.parallel.devices.spreading:_check_apart"
)
def layers_that_share_are_torn(sound, stages):
    """A shared parameter goes with the last layer that has it."""
