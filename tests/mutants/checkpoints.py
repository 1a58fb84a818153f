"""Checkpoints that are not whole, not portable, or not what was saved."""

from __future__ import annotations

import contextlib

import unidev
from mutants.mutant import in_place_of, mutant, torch_mutant
from unidev.contract.models import Stored
from unidev.models.checkpoints import matching as checkpoint_fit
from unidev.models.checkpoints import verbs as checkpoints
from unidev.system import atomic_file


@torch_mutant(
    "checkpoints.round_trip", "checkpoints.loads_to_a_device", around=".models:TorchModels.write"
)
def load_that_loads_half(write_all, self, x, values):
    """A part of each tensor is as it was: a buffer that was too short."""
    if x.dim():
        half = len(x) // 2
        write_all(self, x[:half], values[:half])


@torch_mutant("checkpoints.loads_to_a_device")
def the_device_is_not_heeded(backend):
    """The values go to where the model was, whatever ``device`` says."""

    load = unidev.load_parameters

    @in_place_of(load)
    def load_parameters(model, /, path, *, device=None):
        return load(model, path)


@torch_mutant(
    "checkpoints.tensors_without_a_model", everywhere="unidev.models.checkpoints.verbs:_made"
)
def tensors_are_loaded_on_the_host(made, wanted, file, backend, *operation):
    """Whatever device is asked for: safetensors' ``load_file`` without ``device=``."""
    here = [(entry, dtype, backend.cpu) for entry, dtype, _ in wanted]
    return made(here, file, backend, *operation)


@mutant(
    "trees.numbers_kept", profile="train",
    everywhere="unidev.models.checkpoints.matching:numbers_of",
)  # fmt: skip
def numbers_are_left_out(all_of_them, backend, model):
    """A count of steps is lost, without a word: only arrays are looked for."""
    return {}


@torch_mutant("checkpoints.ties_are_stored_once")
def ties_are_stored_twice(backend):
    """Each name has values of its own, as in a plain ``state_dict``."""

    slots_of = checkpoint_fit.slots_of

    @in_place_of(slots_of)
    def separate(backend, model):
        found = []
        for slot in slots_of(backend, model):
            for name in slot.names:
                found.append(slot._replace(names=(name,), entry=slot.entry._replace(name=name)))  # noqa: PERF401
        return found

    @in_place_of(checkpoint_fit.merged)
    def merged(slots, backend):
        return list(slots)


@torch_mutant("checkpoints.view_without_its_storage")
def save_writes_the_whole_storage(backend):
    """Of a view all that is behind it goes into the file: ``torch.save``."""

    @in_place_of(checkpoints._save)
    def save(model, path, backend):
        from safetensors.numpy import save_file

        content = {}
        for name, (x, _) in backend.models.stored(model).items():
            count = x.untyped_storage().nbytes() // x.itemsize
            content[f"{name}.storage"] = unidev.to_numpy(x.as_strided((count,), (1,), 0))
            content[name] = unidev.to_numpy(x)
        save_file(content, path)


@mutant(
    "checkpoints.portable_names_and_layouts",
    "checkpoints.of_another_framework",
    profile="train",
    around=".models:NumpyModels.stored",
)
def weights_are_stored_inputs_first(own, self, model):
    """The file has the framework's own layout, ``(inputs, outputs)``: Keras and Paddle."""
    found = own(self, model)
    return {n: Stored(x, (1, 0)) if x.ndim == 2 else Stored(x) for n, (x, _) in found.items()}


@torch_mutant("damage.old_file_stays")
def non_atomic_write(backend):
    """The file itself is opened and written to: what fails half way has destroyed the old one."""

    @in_place_of(atomic_file.replacing)
    @contextlib.contextmanager
    def replacing(path):
        with open(path, "wb") as file:
            yield file


@torch_mutant("damage.old_file_stays")
def the_unfinished_file_stays(backend):
    """Each failure leaves a file beside the old one."""
    import os

    @in_place_of(atomic_file.replacing)
    @contextlib.contextmanager
    def replacing(path):
        with open(f"{path}.part", "wb") as file:
            yield file
            os.fsync(file.fileno())
        os.replace(f"{path}.part", path)


@torch_mutant(
    "damage.all_problems_in_one_error", everywhere="unidev.models.checkpoints.matching:misfit"
)
def one_problem_at_a_time(misfit, problems, *about):
    """The first thing that is wrong is said, and the next one the next time."""
    return misfit(problems[:1], *about)


@torch_mutant(
    "training_sequences.of_models_and_shards",
    "damage.damaged_file_is_refused",
    around="unidev.models.checkpoints.reading:CheckpointFile.check",
)
def content_is_not_checked(sound, self):
    """A header that is in order is believed: a plain safetensors file has no digest."""
    self.ties = self._ties()


@torch_mutant("damage.failure_while_loading")
def half_loaded_on_error(backend):
    """What was written before something failed stays written."""

    write_one = checkpoints._write_one

    @in_place_of(write_one)
    def write_all_but_the_old(x, values, backend, doing):
        if doing != "restoring the old values":
            write_one(x, values, backend, doing)
