"""Batches, replicas and reductions over several devices."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import numpy as np

from mutants.mutant import TENSORFLOW, TORCH, around, in_place_of, mutant, replace, replace_value
from unidev.backends.numpy_backend.collectives import NumpyCollectives, _like, _plain
from unidev.backends.numpy_backend.probe import NumpyProbe
from unidev.parallel.devices import packing

multi_mutant = partial(mutant, simulated_count=3, profile="multi")


@multi_mutant(
    "reducing.values",
    "reducing.means",
    "reducing.order",
    "reducing.ties",
    around=".collectives:NumpyCollectives.all_reduce",
)
def reduces_nothing(sound, self, flats, op, factors, copy):
    """Each device gets back what it had: an ``all_reduce`` in a process group of one."""
    return [copy(flat, self.backend.device_of(flat)) for flat in flats]


@multi_mutant(
    "reducing.values",
    "reducing.in_place",
    "reducing.ties",
    "training_sequences.of_models_and_shards",
    around=".collectives:NumpyCollectives.all_reduce",
)
def only_the_first_gets_the_result(sound, self, flats, op, factors, copy):
    """A ``reduce`` in place of an ``all_reduce``: the other devices keep what they had."""
    own = [copy(flat, self.backend.device_of(flat)) for flat in flats]
    return [sound(self, flats, op, factors, copy)[0], *own[1:]]


@multi_mutant(
    "reducing.values", "replicating.dtypes", around=".collectives:NumpyCollectives.unpack"
)
def only_the_first_of_a_pack_arrives(sound, self, flat, shapes):
    """An offset that does not move on: each tensor of a pack gets the start of the buffer."""
    found = sound(self, flat, shapes)
    for x in found:
        _plain(x).reshape(-1)[...] = _plain(flat)[: x.size].copy()
    return found


@multi_mutant("packing.special_tensors")
def packs_the_values_that_a_sparse_tensor_has(backend):
    """Without the zeros between them, as if it were a dense one."""

    @around(NumpyCollectives)
    def pack(sound, self, tensors):
        return sound(self, [_like(np.sort(_plain(x).reshape(-1))[::-1], x) for x in tensors])

    @replace(NumpyProbe)
    def specials(self, device):
        return {"sparse": self.make(np.array([0.0, 2.0, 0.0, 3.0]), device)}


@multi_mutant(
    "packing.special_tensors",
    plugin=TENSORFLOW,
    around=".collectives:TensorFlowCollectives.check_dense",
)
def sparse_tensors_are_packed_as_dense_ones(sound, self, tensors, is_packed):
    """TensorFlow's own error, in the middle of its work."""


@multi_mutant("reducing.values", "replicating.dtypes", around=".collectives:NumpyCollectives.pack")
def packs_in_another_order(sound, self, tensors):
    """Packed by name and unpacked by position: a ``state_dict`` that was sorted on the way."""
    return sound(self, list(reversed(tensors)))


@multi_mutant("reducing.in_place", everywhere="unidev.parallel.devices.reducing:all_reduce")
def rebinds_entries(sound, trees, op="sum", *, in_place=False, **options):
    """The list gets new tensors, and who holds the old ones sees nothing: d2l's ``allreduce``."""
    reduced = sound(trees, op, **options)
    if in_place:
        trees[:] = reduced
    return trees if in_place else reduced


@multi_mutant("reducing.memory", around=".collectives:NumpyCollectives.unpack")
def results_overlap(sound, self, flat, shapes):
    """Equal parts of a buffer become one: identical constants that are merged."""
    found = list(sound(self, flat, shapes))
    same = [x for x in found if x.shape == found[0].shape and bool((x == found[0]).all())]
    return [found[0] if any(x is each for each in same) else x for x in found]


@multi_mutant("reducing.order", around=".collectives:NumpyCollectives.reduce")
def sums_in_another_order(sound, self, flats, device, op, factors, copy):
    """In the order of arrival: a parameter server (MXNet's ``dist_async``)."""
    turned = None if factors is None else list(reversed(factors))
    return sound(self, list(reversed(flats)), device, op, turned, copy)


@multi_mutant(
    "reducing.ties", "replicating.copies", around="unidev.tensors.containers:Opened.with_tensors"
)
def ties_come_apart(sound, self, tensors):
    """Each place gets its own tensor: ``jax.tree.map``."""
    seen: set[int] = set()
    apart = []
    for x in tensors:
        apart.append(x.copy() if id(x) in seen else x)
        seen.add(id(x))
    return sound(self, apart)


@multi_mutant("reducing.means", everywhere="unidev.parallel.devices.packing:combination")
def means_by_devices(sound, op, count, weights):
    """Each device counts the same, however many rows it had: DistributedDataParallel."""
    return sound(op, count, None)


@multi_mutant(
    "reducing.means", "workers.weights", everywhere="unidev.parallel.devices.packing:shares_of"
)
def the_sum_of_weights_overflows(sound, weights):
    """Shares of an infinite sum: all are 0, and so is the mean."""
    return [each / sum(weights) for each in weights]


@multi_mutant("reducing.means")
def float16_overflows(backend):
    """The sum is taken in float16, and divided afterwards: gloo, and many a hand-written mean."""
    from types import MappingProxyType

    replace_value(NumpyCollectives, "wider", MappingProxyType({}))

    @around(NumpyCollectives)
    def reduce(sound, self, flats, device, op, factors, copy):
        if factors is None or flats[0].dtype != "float16":
            return sound(self, flats, device, op, factors, copy)
        return self.scale(sound(self, flats, device, op, None, copy), factors[0])


@multi_mutant("reducing.transfers", "replicating.transfers")
def one_copy_a_tensor(backend):
    """Nothing is packed: a loop over the parameters."""

    sound = packing.buckets_of

    @in_place_of(sound)
    def buckets_of(backend, kinds):
        for bucket in sound(backend, kinds):
            for position, shape in zip(bucket.positions, bucket.shapes, strict=True):
                yield packing.Bucket([position], [shape])


@multi_mutant("reducing.refusals", around="unidev.tensors.containers:Opened.has_structure_of")
def trees_are_zipped(sound, self, other):
    """Tensors are matched by position, whatever their names: ``zip(*map(leaves, trees))``."""
    return len(self.tensors) == len(other.tensors)


@multi_mutant(
    "reducing.cut_from_autograd",
    plugin=TORCH,
    everywhere="unidev.parallel.devices.packing:unrecorded",
)
def reductions_are_recorded(sound, backend):
    """Gradients flow through a reduction: ``torch.distributed.nn``."""
    return nullcontext()


@multi_mutant("splitting.memory")
def a_shard_is_a_view(backend):
    """A shard that is on its device already is not copied: ``gluon.utils.split_and_load``."""

    sound = packing.copied

    @in_place_of(sound)
    def copied(backend, operation, x, device):
        there = backend.device_of(x) is device
        return x if there and operation == "split_batch" else sound(backend, operation, x, device)


@multi_mutant(
    "splitting.shards", "splitting.refusals", everywhere="unidev.parallel.devices.batches:shares"
)
def devices_stay_without_rows(sound, rows, count, weights):
    """Equal shares, rounded up, for as long as there are rows: ``torch.chunk``."""
    size = -(-rows // count)
    found = [max(0, min(size, rows - size * number)) for number in range(count)]
    return [size or 1 for size in found]


@multi_mutant("replicating.copies")
def the_first_replica_is_the_original(backend):
    """What is on the device already is not copied: ``torch.nn.parallel.replicate``."""

    sound = packing.copied

    @in_place_of(sound)
    def copied(backend, operation, x, device):
        there = backend.device_of(x) is device
        return x if there and operation == "replicate" else sound(backend, operation, x, device)


@multi_mutant("splitting.gradients", plugin=TORCH)
def shards_are_detached(backend):
    """Shards have no history: ``tensor.data``, and a data loader's collation."""

    sound = packing.copied

    @in_place_of(sound)
    def copied(backend, operation, x, device):
        return sound(backend, operation, x.detach(), device)


@multi_mutant("reducing.in_place", around=".collectives:NumpyCollectives.is_writable")
def what_is_read_only_is_written_to(sound, self, x):
    """Only the write itself finds out, after other tensors have been written to."""
    return True
