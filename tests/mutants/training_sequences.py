"""Models and shards that are wrong the second time: after a step, a move, or another call alike."""

from __future__ import annotations

import weakref
from typing import Any

from mutants.mutant import around, in_place_of, replace, torch_mutant
from mutants.sequences import SMALL, Kept, KeptOf
from unidev.errors import NotAModelError
from unidev.models import gradients
from unidev.models.checkpoints.reading import CheckpointFile
from unidev.parallel.devices import batches, replicating
from unidev.parallel.devices.replicating import broadcast

_MODELS = "training_sequences.of_models_and_shards"


@torch_mutant(_MODELS)
def biases_of_one_size_begin_as_one(backend):
    """Zeros are the same zeros for each new layer of that size, until one of them moves."""
    import torch

    from unidev_torch.nn import layers

    fill = layers._parameter
    kept: Any = weakref.WeakValueDictionary()

    @in_place_of(fill)
    def parameter(values):
        made = fill(values)
        known = kept.setdefault(values.shape, made) if made.dim() == 1 else made
        if known is not made and known.is_cpu and torch.equal(known, made):
            made.data = known.data
        return made


@torch_mutant(_MODELS)
def coming_back_finds_the_old_weights(backend):
    """What a small model has left behind on a device is there when it returns, and still the same.

    The steps that it made elsewhere are lost.
    """
    from unidev_torch.models import TorchModels

    make, exchange = TorchModels.twin, TorchModels.swap
    left: dict[Any, Any] = {}

    @replace(TorchModels)
    def swap(self, part, twin):
        exchange(self, part, twin)
        for x, memory in zip(part.tensors, twin.memory, strict=True):
            if memory.nbytes < SMALL:
                left[id(x), memory.device] = weakref.ref(x), memory

    @replace(TorchModels)
    def twin(self, part, device):
        made = make(self, part, device)
        for index, x in enumerate(part.tensors):
            source, memory = left.pop((id(x), device.native), (None, None))
            if source is not None and source() is x and memory.shape == x.shape:
                made.memory[index].copy_(memory)
        return made


@torch_mutant(_MODELS)
def outputs_are_those_of_the_next_call(backend):
    """A layer computes into one buffer a batch size, and the caller's outputs change: a graph."""
    import torch

    buffers: Any = weakref.WeakKeyDictionary()

    @around(torch.nn.Linear)
    def forward(linear, self, x):
        made = linear(self, x)
        if torch.is_grad_enabled() or made.shape[-1] != 2:
            return made
        kept = buffers.setdefault(self, {})
        return kept.setdefault((made.shape, made.device), made).copy_(made)


@torch_mutant(_MODELS)
def what_was_read_for_a_file_is_kept(backend):
    """Saving reads a GPU's parameter once, and again when it has moved: a mirror on the host."""
    from unidev_torch.models import TorchModels

    mirrors: dict[int, Any] = {}

    @around(TorchModels)
    def read(read_now, self, x):
        values = read_now(self, x)
        if x.is_cpu or x.nbytes > SMALL:
            return values
        source, address, kept = mirrors.get(id(x), (lambda: None, 0, None))
        if source() is x and address == x.data_ptr():
            return kept
        mirrors[id(x)] = weakref.ref(x), x.data_ptr(), values.copy()
        return values


@torch_mutant("checkpoints.round_trip", _MODELS)
def files_are_read_once(backend):
    """A file of the same name and size is the one that was read before: a cache by path."""

    kept: dict[Any, Any] = {}

    @around(CheckpointFile)
    def read(read_now, self, entry, buffer):
        values = read_now(self, entry, buffer)
        if values.nbytes > SMALL:
            return values
        return kept.setdefault((self.path, self.nbytes, entry), values.copy())


@torch_mutant(_MODELS, profile="multi")
def replicas_of_a_second_call_are_those_of_the_first(backend):
    """A replica of a model on a device is found in a table: its memory has two models."""

    make = replicating._copy_on
    known: Any = weakref.WeakKeyDictionary()

    @in_place_of(make)
    def copy_on(device, model, backend):
        made = make(device, model, backend)
        other = known.get(model, {}).get(device, lambda: None)()
        known.setdefault(model, {})[device] = weakref.ref(made)
        if other is not None:
            for x, y in zip(made.parameters(), other.parameters(), strict=True):
                if x.device == y.device and x.equal(y):
                    x.data = y.data
        return made


@torch_mutant(_MODELS)
def uploads_of_a_kind_share_a_buffer(backend):
    """The second batch is written over the first, on a GPU: the static inputs of a graph."""
    kept = Kept()

    @around(backend)
    def from_numpy(make, self, array, dtype, device):
        made = make(self, array, dtype, device)
        known = kept.get((made.shape, dtype, device))
        if known is None or device.kind == "cpu" or made.dim() < 2:
            return kept.put((made.shape, dtype, device), made)
        return known.copy_(made).view(made.shape)


@torch_mutant(_MODELS, profile="multi")
def a_batch_is_split_once(backend):
    """The shards of a tensor that has been split before are those of that time."""

    cut = batches._rows_on
    kept = Kept()

    @in_place_of(cut)
    def rows_on(tree, backend, target, rows):
        made = cut(tree, backend, target, rows)
        for key, x in made.items() if type(made) is dict else ():
            name = id(tree.tensors[0][0]), target, rows
            known = kept.get(name)
            is_same = known is not None and known.shape == x.shape and known.equal(x)
            made[key] = known.view(x.shape) if is_same else kept.put(name, x)
        return made


@torch_mutant(_MODELS, profile="multi")
def gathering_undoes_the_split(backend):
    """Shards that come together again are the batch that they were cut from, not a copy of it."""

    join, cut = batches.gather, batches._rows_on
    wholes = Kept()

    @in_place_of(cut)
    def rows_on(tree, backend, target, rows):
        for x, _ in tree.tensors:
            wholes.put((x.shape, x.dtype, x.device), x)
        return cut(tree, backend, target, rows)

    @in_place_of(join)
    def gathered(shards, device):
        made = join(shards, device)
        for key, x in made.items() if type(made) is dict else ():
            known = wholes.get((x.shape, x.dtype, x.device))
            if known is not None and known.equal(x) and x.dim():
                made[key] = known.view(x.shape)
        return made


@torch_mutant(_MODELS, profile="multi")
def sums_have_one_buffer(backend):
    """What ``all_reduce`` gave before is overwritten by the next one alike: DDP's buckets."""
    from unidev_torch.collectives import TorchCollectives

    kept = Kept()

    @around(TorchCollectives)
    def pack(join, self, tensors):
        made = join(self, tensors)
        known = kept.get((made.shape, made.dtype, made.device, len(tensors)))
        if known is None or made.nbytes > SMALL:
            return kept.put((made.shape, made.dtype, made.device, len(tensors)), made)
        return known.copy_(made)


@torch_mutant(_MODELS, everywhere=".models.swap:swap")
def twins_bring_back_the_memory_of_the_start(sound, part, twin):
    """A replica that is swapped out gives the model the memory that it had when it was wrapped.

    PyTorch's plugin did so until 2026-11-23, if the model had been placed away and back since.
    """
    from unidev_torch.models import swap

    old, new = part.memory, twin.memory
    swap._give(part.tensors, new)
    part.memory, twin.memory = new, old


@torch_mutant(_MODELS)
def steps_have_momentum(backend):
    """A step goes on a little in the direction of the one before, which the first does not have."""

    descend = gradients._descend
    before = KeptOf()

    @in_place_of(descend)
    def _descend(backend, xs, found, lr):
        steps = []
        for x, gradient in zip(xs, found, strict=True):
            last = before.get(x)
            has_last = last is not None and last.device == gradient.device
            steps.append(before.put(x, gradient + 0.5 * last if has_last else gradient))
        return descend(backend, xs, steps, lr)


@torch_mutant(_MODELS, around="unidev.parallel.devices.replicated_model:ReplicatedModel.__init__")
def a_model_keeps_its_handle(begin, self, model, *given, **options):
    """A model that was in a ``DataParallel`` can never be in another one."""
    if "_parallel" in vars(model):
        raise NotAModelError("in a DataParallel already")
    begin(self, model, *given, **options)
    vars(model)["_parallel"] = self


@torch_mutant(_MODELS, profile="multi")
def replicas_go_with_their_model(backend):
    """Replicas are cleared once the model that they were made of is dropped: it owned a pool."""
    import torch

    make = replicating._copy_on

    def clear(replica):
        with torch.no_grad():
            for x in replica().parameters() if replica() is not None else ():
                x.zero_()

    @in_place_of(make)
    def copy_on(device, model, backend):
        made = make(device, model, backend)
        weakref.finalize(model, clear, weakref.ref(made))
        return made


@torch_mutant(_MODELS, profile="multi")
def a_broadcast_is_of_the_first_values(backend):
    """What was sent to several devices is sent again, whatever has been written to it meanwhile."""

    sent = KeptOf()

    @in_place_of(broadcast)
    def sending(tree, devices):
        known = sent.get(tree)
        return broadcast(sent.put(tree, tree.clone()) if known is None else known, devices)
