"""Devices that are miscounted, misspelt, listed wrongly, or unequal to themselves."""

from __future__ import annotations

from typing import Any

from mutants.mutant import in_place_of, mutant, replace_value
from unidev.device import Device
from unidev.tensors import devices
from unidev.tensors.devices import gpu


@mutant("devices.not_empty", simulated_count=0)
def no_device_is_listed(backend):
    """The list is empty on a machine without accelerators: ``jax.devices("gpu")`` taken for all."""

    in_place_of(devices.devices_of)(lambda backend: [])


@mutant("devices.stable_order")
def devices_shuffled(backend):
    """Another order at each call: CUDA's ``FASTEST_FIRST``, from one driver to the next."""

    listed = devices.devices_of
    calls: list[None] = []

    def shuffled(backend):
        calls.append(None)
        found = listed(backend)
        return found[len(calls) % 2 :] + found[: len(calls) % 2]

    in_place_of(listed)(shuffled)


@mutant("devices.unique")
def device_listed_twice(backend):
    """One accelerator under two names: TF's ``XLA_GPU:0`` beside ``GPU:0``."""
    replace_value(backend, "kinds", ("cpu", "gpu", "gpu"))


@mutant("devices.unique", "devices.count_equals_simulated", around="device")
def index_is_ignored(sound, self, kind, index):
    """Every index means the first device: ``torch.device("cpu:1")`` is the one CPU."""
    return Device(self.name, kind, 0)


@mutant("devices.count_equals_simulated", around="device_count")
def only_the_first_gpu_is_seen(sound, self, kind):
    """One GPU, however many there are: a PrivateUse1 backend of torch without a guard in C++."""
    return 1 if kind == "cpu" else min(self.simulated_count, 1)


@mutant("devices.equality_and_hash")
def alias_unequal(backend):
    """A device made a second time is another one: ``torch.device("cpu") != "cpu:0"``."""

    def made_anew(cls, backend, kind, index):
        return _twin(backend, kind, index)

    # __new__ is wrapped by Python only in a class's own body.
    replace_value(Device, "__new__", staticmethod(made_anew))


def _twin(backend: str, kind: str, index: int) -> Any:
    """A Device that is not the one there should be."""

    made = object.__new__(Device)
    for name, value in (("backend", backend), ("kind", kind), ("index", index)):
        object.__setattr__(made, name, value)
    return made


@mutant("devices.equality_and_hash")
def devices_cannot_be_keys(backend):
    """Equal by value, and not hashable: Python's own default where only ``__eq__`` is written."""

    def hashed(self):
        raise TypeError(f"unhashable type: {type(self).__name__!r}")

    replace_value(Device, "__hash__", hashed)


@mutant("devices.equality_and_hash")
def devices_of_one_kind_are_equal(backend):
    """``gpu:0 == gpu:1``: code that compares torch's ``device.type``."""

    replace_value(Device, "__eq__", lambda self, other: self.kind == getattr(other, "kind", None))
    replace_value(Device, "__hash__", lambda self: hash(self.kind))


@mutant("devices.pickles", "devices.survives_spawn")
def pickle_drops_the_index(backend):
    """A device comes back as the first of its kind: a file saved on gpu:1, loaded by default."""

    replace_value(Device, "__reduce__", lambda self: (Device, (self.backend, self.kind, 0)))


@mutant("devices.string_round_trip")
def string_drops_the_index(backend):
    """``str(device)`` is the kind alone: ``x.device.type`` of torch, ``Place`` names of Paddle."""

    replace_value(Device, "__str__", lambda self: self.kind)


@mutant("devices.aliases_mean_one_device", around="native_name")
def native_names_mean_another_device(sound, self, kind, index):
    """A GPU's native name is a CPU's in unidev's spelling: JAX's ``cpu:1``, if that is a GPU."""
    return f"cpu:{index + (kind == 'gpu')}"


@mutant("devices.each_listed_device_is_usable")
def listed_device_raises(backend):
    """The last GPU is listed, and every use of it fails: CUDA's "no kernel image is available"."""
    for name in ("from_numpy", "empty", "zeros", "full", "copy_to"):
        _fail_on_the_last(backend, name)


def _fail_on_the_last(backend: Any, name: str) -> None:
    use = getattr(backend, name)

    def used(self: Any, *arguments: Any) -> Any:
        last = self.device("gpu", self.simulated_count - 1)
        if last in [each for each in arguments if type(each) is type(last)]:
            raise RuntimeError("CUDA error: no kernel image is available for execution")
        return use(self, *arguments)

    replace_value(backend, name, used)


@mutant("devices.each_listed_device_is_usable", around="from_numpy")
def listed_device_forgets(make, self, array, dtype, device):
    """The last GPU takes values and gives back others: operators on torch's meta device."""
    made = make(self, array, dtype, device)
    if device.kind == "gpu" and device.index == self.simulated_count - 1:
        made[...] = 0
    return made


@mutant("devices.try_gpu_in_and_out_of_range", everywhere="unidev.tensors.devices:try_gpu")
def try_gpu_clamps(try_gpu, index=0):
    """``try_gpu(10)`` is the last GPU there is, where it promised the CPU."""
    from unidev import num_gpus

    return try_gpu(min(index, max(num_gpus() - 1, 0)))


@mutant("devices.try_gpu_in_and_out_of_range", everywhere="unidev.tensors.devices:try_gpu")
def try_gpu_raises(sound, index=0):
    """``try_gpu(10)`` is an error: a program that tries ends on a machine with fewer."""
    return gpu(index)


@mutant("devices.free_memory_chooses", everywhere="unidev.tensors.devices:try_gpu")
def free_memory_is_not_looked_at(try_gpu, index=0, *, free=None, most_free=False):
    """The first GPU, however full it is: ``torch.device("cuda")``, the usual "first free" GPU."""
    if free is not None:
        try_gpu(free=free)  # checked, and not heeded
    return try_gpu(index)


@mutant("devices.free_memory_chooses", everywhere="unidev.tensors.devices:try_gpu")
def an_index_beside_free_is_passed_over(try_gpu, index=0, *, free=None, most_free=False):
    """``try_gpu(1, free=…)`` is the first GPU with enough memory: the index is a hint."""
    if free is None:
        return try_gpu(index, most_free=True) if most_free else try_gpu(index)
    return try_gpu(free=free, most_free=most_free)


@mutant(
    "devices.try_all_gpus_without_any_gives_cpu",
    simulated_count=0,
    everywhere="unidev.tensors.devices:try_all_gpus",
)
def try_all_gpus_gives_nothing(sound):
    """``[]`` without a GPU: what the textbook's published package returns."""
    from unidev import list_devices

    return [device for device in list_devices() if device.kind == "gpu"]


@mutant("threads.first_use_from_several_threads")
def two_threads_make_two_devices(backend):
    """The last one is kept: a table that is looked at, and then written to, without a lock."""
    known: dict[Any, Any] = {}

    def made(cls, backend, kind, index):
        found = known.get((backend, kind, index))
        if found is None:
            found = _twin(backend, kind, index)
            known[backend, kind, index] = found
        return found

    replace_value(Device, "__new__", staticmethod(made))


@mutant("devices.equality_and_hash")
def devices_can_be_written_to(backend):
    """``device.index = 1`` is silent: a class of Python's without ``__setattr__``."""
    replace_value(Device, "__setattr__", object.__setattr__)
