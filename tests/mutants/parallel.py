"""Batches, replicas and reductions over several devices."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from mutants.mutant import NUMPY, TORCH, in_place_of, mutant, replace, replace_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from mutants.mutant import Breaks, Mutant


def multi_mutant(*caught_by: str, plugin: str = NUMPY) -> Callable[[Breaks], Mutant]:
    """Of the profile ``multi``."""
    return mutant(*caught_by, simulated_count=3, profile="multi", plugin=plugin)


@multi_mutant("reducing.values", "reducing.means", "reducing.order", "reducing.ties")
def reduces_nothing(backend: Any) -> None:
    """Each device gets back what it had: an ``all_reduce`` in a process group of one."""
    from unidev.numpy_backend.collectives import NumpyCollectives

    @replace(NumpyCollectives)
    def all_reduce(self: Any, flats: Any, op: str, factors: Any, copy: Any) -> Any:
        return [copy(flat, self.backend.device_of(flat)) for flat in flats]


@multi_mutant(
    "reducing.values",
    "reducing.in_place",
    "reducing.ties",
    "training_sequences.of_models_and_shards",
)
def only_the_first_gets_the_result(backend: Any) -> None:
    """A ``reduce`` in place of an ``all_reduce``: the other devices keep what they had."""
    from unidev.numpy_backend.collectives import NumpyCollectives

    sound = NumpyCollectives.all_reduce

    @replace(NumpyCollectives)
    def all_reduce(self: Any, flats: Any, op: str, factors: Any, copy: Any) -> Any:
        own = [copy(flat, self.backend.device_of(flat)) for flat in flats]
        return [sound(self, flats, op, factors, copy)[0], *own[1:]]


@multi_mutant("reducing.values", "replicating.dtypes")
def only_the_first_of_a_pack_arrives(backend: Any) -> None:
    """An offset that does not move on: each tensor of a pack gets the start of the buffer."""
    from unidev.numpy_backend.collectives import NumpyCollectives, _plain

    sound = NumpyCollectives.unpack

    @replace(NumpyCollectives)
    def unpack(self: Any, flat: Any, shapes: Any) -> Any:
        found = sound(self, flat, shapes)
        for x in found:
            _plain(x).reshape(-1)[...] = _plain(flat)[: x.size].copy()
        return found


@multi_mutant("packing.special_tensors")
def packs_the_values_that_a_sparse_tensor_has(backend: Any) -> None:
    """Without the zeros between them, as if it were a dense one."""
    import numpy as np

    from unidev.numpy_backend.collectives import NumpyCollectives, _like, _plain
    from unidev.numpy_backend.probe import NumpyProbe

    sound = NumpyCollectives.pack

    @replace(NumpyCollectives)
    def pack(self: Any, tensors: Any) -> Any:
        return sound(self, [_like(np.sort(_plain(x).reshape(-1))[::-1], x) for x in tensors])

    @replace(NumpyProbe)
    def specials(self: Any, device: Any) -> Any:
        return {"sparse": self.make(np.array([0.0, 2.0, 0.0, 3.0]), device)}


@multi_mutant("reducing.values", "replicating.dtypes")
def packs_in_another_order(backend: Any) -> None:
    """Packed by name and unpacked by position: a ``state_dict`` that was sorted on the way."""
    from unidev.numpy_backend.collectives import NumpyCollectives

    sound = NumpyCollectives.pack

    @replace(NumpyCollectives)
    def pack(self: Any, tensors: Any) -> Any:
        return sound(self, list(reversed(tensors)))


@multi_mutant("reducing.in_place")
def rebinds_entries(backend: Any) -> None:
    """The list gets new tensors, and who holds the old ones sees nothing: d2l's ``allreduce``."""
    from unidev.parallel import reducing

    sound = reducing.all_reduce

    @in_place_of(sound)
    def all_reduce(trees: Any, op: str = "sum", *, in_place: bool = False, **options: Any) -> Any:
        reduced = sound(trees, op, **options)
        if in_place:
            trees[:] = reduced
        return trees if in_place else reduced


@multi_mutant("reducing.memory")
def results_share_one_memory(backend: Any) -> None:
    """One result, labelled with each device: TensorFlow's ``ReductionToOneDevice``."""
    from unidev.numpy_backend.collectives import NumpyCollectives, _plain
    from unidev.numpy_backend.simulated_array import SimulatedArray

    @replace(NumpyCollectives)
    def all_reduce(self: Any, flats: Any, op: str, factors: Any, copy: Any) -> Any:
        devices = [self.backend.device_of(flat) for flat in flats]
        total = _plain(self.reduce(flats, devices[0], op, factors, copy))
        return [
            total.view() if device.kind == "cpu" else SimulatedArray.place(total, device)
            for device in devices
        ]


@multi_mutant("reducing.memory")
def results_overlap(backend: Any) -> None:
    """Equal parts of a buffer become one: identical constants that are merged."""
    from unidev.numpy_backend.collectives import NumpyCollectives

    sound = NumpyCollectives.unpack

    @replace(NumpyCollectives)
    def unpack(self: Any, flat: Any, shapes: Any) -> Any:
        found = list(sound(self, flat, shapes))
        same = [x for x in found if x.shape == found[0].shape and bool((x == found[0]).all())]
        return [found[0] if any(x is each for each in same) else x for x in found]


@multi_mutant("reducing.memory")
def the_result_is_the_input(backend: Any) -> None:
    """The sum is written to the first operand: ``torch.distributed.all_reduce`` on a list."""
    from unidev.parallel.packing import Bucket

    sound = Bucket.packed

    @replace(Bucket)
    def packed(self: Any, backend: Any, tensors: Any, device: Any) -> Any:
        return (
            sound(self, backend, tensors, device) if self.is_packed else tensors[self.positions[0]]
        )


@multi_mutant("reducing.order")
def sums_in_another_order(backend: Any) -> None:
    """In the order of arrival: a parameter server (MXNet's ``dist_async``)."""
    from unidev.numpy_backend.collectives import NumpyCollectives

    sound = NumpyCollectives.reduce

    @replace(NumpyCollectives)
    def reduce(self: Any, flats: Any, device: Any, op: str, factors: Any, copy: Any) -> Any:  # noqa: PLR0917
        turned = None if factors is None else list(reversed(factors))
        return sound(self, list(reversed(flats)), device, op, turned, copy)


@multi_mutant("reducing.ties", "replicating.copies")
def ties_come_apart(backend: Any) -> None:
    """Each place gets its own tensor: ``jax.tree.map``."""
    from unidev.tensors.containers import Opened

    sound = Opened.with_tensors

    @replace(Opened)
    def with_tensors(self: Any, tensors: Any) -> Any:
        seen: set[int] = set()
        apart = []
        for x in tensors:
            apart.append(x.copy() if id(x) in seen else x)
            seen.add(id(x))
        return sound(self, apart)


@multi_mutant("reducing.means")
def means_by_devices(backend: Any) -> None:
    """Each device counts the same, however many rows it had: DistributedDataParallel."""
    from unidev.parallel import packing

    sound = packing.combination

    @in_place_of(sound)
    def combination(op: str, count: int, weights: Any) -> Any:
        return sound(op, count, None)


@multi_mutant("reducing.means")
def float16_overflows(backend: Any) -> None:
    """The sum is taken in float16, and divided afterwards: gloo, and many a hand-written mean."""
    from types import MappingProxyType

    from unidev.numpy_backend.collectives import NumpyCollectives

    sound = NumpyCollectives.reduce
    replace_value(NumpyCollectives, "wider", MappingProxyType({}))

    @replace(NumpyCollectives)
    def reduce(self: Any, flats: Any, device: Any, op: str, factors: Any, copy: Any) -> Any:  # noqa: PLR0917
        if factors is None or flats[0].dtype != "float16":
            return sound(self, flats, device, op, factors, copy)
        return self.scale(sound(self, flats, device, op, None, copy), factors[0])


@multi_mutant("reducing.transfers", "replicating.transfers")
def one_copy_a_tensor(backend: Any) -> None:
    """Nothing is packed: a loop over the parameters."""
    from unidev.parallel import packing

    sound = packing.buckets_of

    @in_place_of(sound)
    def buckets_of(backend: Any, kinds: Any) -> Any:
        for bucket in sound(backend, kinds):
            for position, shape in zip(bucket.positions, bucket.shapes, strict=True):
                yield packing.Bucket([position], [shape])


@multi_mutant("reducing.refusals")
def trees_are_zipped(backend: Any) -> None:
    """Tensors are matched by position, whatever their names: ``zip(*map(leaves, trees))``."""
    from unidev.tensors.containers import Opened

    @replace(Opened)
    def has_structure_of(self: Any, other: Any) -> bool:
        return len(self.tensors) == len(other.tensors)


@multi_mutant("reducing.cut_from_autograd", plugin=TORCH)
def reductions_are_recorded(backend: Any) -> None:
    """Gradients flow through a reduction: ``torch.distributed.nn``."""
    from unidev.parallel import packing

    @in_place_of(packing.unrecorded)
    def unrecorded(backend: Any) -> Any:
        return nullcontext()


@multi_mutant("splitting.gather_inverts")
def gathers_out_of_order(backend: Any) -> None:
    """In the order in which the devices finish."""
    from unidev.numpy_backend.collectives import NumpyCollectives

    sound = NumpyCollectives.concatenate

    @replace(NumpyCollectives)
    def concatenate(self: Any, tensors: Any) -> Any:
        return sound(self, list(reversed(tensors)))


@multi_mutant("splitting.memory")
def a_shard_is_a_view(backend: Any) -> None:
    """A shard that is on its device already is not copied: ``gluon.utils.split_and_load``."""
    from unidev.parallel import packing

    sound = packing.copied

    @in_place_of(sound)
    def copied(backend: Any, operation: str, x: Any, device: Any) -> Any:
        there = backend.device_of(x) is device
        return x if there and operation == "split_batch" else sound(backend, operation, x, device)


@multi_mutant("splitting.shards", "splitting.refusals")
def devices_stay_without_rows(backend: Any) -> None:
    """Equal shares, rounded up, for as long as there are rows: ``torch.chunk``."""
    from unidev.parallel import batches

    @in_place_of(batches.shares)
    def shares(rows: int, count: int, weights: Any) -> Any:
        size = -(-rows // count)
        found = [max(0, min(size, rows - size * number)) for number in range(count)]
        return [size or 1 for size in found]


@multi_mutant("replicating.copies")
def the_first_replica_is_the_original(backend: Any) -> None:
    """What is on the device already is not copied: ``torch.nn.parallel.replicate``."""
    from unidev.parallel import packing

    sound = packing.copied

    @in_place_of(sound)
    def copied(backend: Any, operation: str, x: Any, device: Any) -> Any:
        there = backend.device_of(x) is device
        return x if there and operation == "replicate" else sound(backend, operation, x, device)


@multi_mutant("splitting.gradients", plugin=TORCH)
def shards_are_detached(backend: Any) -> None:
    """Shards have no history: ``tensor.data``, and a data loader's collation."""
    from unidev.parallel import packing

    sound = packing.copied

    @in_place_of(sound)
    def copied(backend: Any, operation: str, x: Any, device: Any) -> Any:
        return sound(backend, operation, x.detach(), device)
