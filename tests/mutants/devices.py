"""Devices that are miscounted, misspelt, listed wrongly, or unequal to themselves."""

from __future__ import annotations

from typing import Any

from mutants.mutant import in_place_of, mutant, replace, replace_value


@mutant("devices.not_empty", simulated_count=0)
def no_device_is_listed(backend: Any) -> None:
    """The list is empty on a machine without accelerators: ``jax.devices("gpu")`` taken for all."""
    from unidev.devices import finding as devices

    in_place_of(devices.devices_of)(lambda backend: [])


@mutant("devices.stable_order")
def devices_shuffled(backend: Any) -> None:
    """Another order at each call: CUDA's ``FASTEST_FIRST``, from one driver to the next."""
    from unidev.devices import finding as devices

    listed = devices.devices_of
    calls: list[None] = []

    def shuffled(backend: Any) -> list[Any]:
        calls.append(None)
        found = listed(backend)
        return found[len(calls) % 2 :] + found[: len(calls) % 2]

    in_place_of(listed)(shuffled)


@mutant("devices.unique")
def device_listed_twice(backend: Any) -> None:
    """One accelerator under two names: TF's ``XLA_GPU:0`` beside ``GPU:0``."""
    replace_value(backend, "kinds", ("cpu", "gpu", "gpu"))


@mutant("devices.unique", "devices.count_equals_simulated")
def index_is_ignored(backend: Any) -> None:
    """Every index means the first device: ``torch.device("cpu:1")`` is the one CPU."""
    from unidev.contract.device import Device

    @replace(backend)
    def device(self: Any, kind: str, index: int) -> Any:
        return Device(self.name, kind, 0)


@mutant("devices.count_equals_simulated")
def only_the_first_gpu_is_seen(backend: Any) -> None:
    """One GPU, however many there are: a PrivateUse1 backend of torch without a guard in C++."""

    @replace(backend)
    def device_count(self: Any, kind: str) -> int:
        return 1 if kind == "cpu" else min(self.simulated_count, 1)


@mutant("devices.equality_and_hash")
def alias_unequal(backend: Any) -> None:
    """A device made a second time is another one: ``torch.device("cpu") != "cpu:0"``."""
    from unidev.contract.device import Device

    def made_anew(cls: type[Device], backend: str, kind: str, index: int) -> Any:
        return _twin(backend, kind, index)

    # __new__ is wrapped by Python only in a class's own body.
    replace_value(Device, "__new__", staticmethod(made_anew))


def _twin(backend: str, kind: str, index: int) -> Any:
    """A Device that is not the one there should be."""
    from unidev.contract.device import Device

    made = object.__new__(Device)
    for name, value in (("backend", backend), ("kind", kind), ("index", index)):
        object.__setattr__(made, name, value)
    return made


@mutant("devices.equality_and_hash")
def devices_cannot_be_keys(backend: Any) -> None:
    """Equal by value, and not hashable: Python's own default where only ``__eq__`` is written."""
    from unidev.contract.device import Device

    def hashed(self: Device) -> int:
        raise TypeError(f"unhashable type: {type(self).__name__!r}")

    replace_value(Device, "__hash__", hashed)


@mutant("devices.equality_and_hash")
def devices_of_one_kind_are_equal(backend: Any) -> None:
    """``gpu:0 == gpu:1``: code that compares torch's ``device.type``."""
    from unidev.contract.device import Device

    replace_value(Device, "__eq__", lambda self, other: self.kind == getattr(other, "kind", None))
    replace_value(Device, "__hash__", lambda self: hash(self.kind))


@mutant("devices.pickles", "devices.survives_spawn")
def pickle_drops_the_index(backend: Any) -> None:
    """A device comes back as the first of its kind: a file saved on gpu:1, loaded by default."""
    from unidev.contract.device import Device

    replace_value(Device, "__reduce__", lambda self: (Device, (self.backend, self.kind, 0)))


@mutant("devices.string_round_trip")
def string_drops_the_index(backend: Any) -> None:
    """``str(device)`` is the kind alone: ``x.device.type`` of torch, ``Place`` names of Paddle."""
    from unidev.contract.device import Device

    replace_value(Device, "__str__", lambda self: self.kind)


@mutant("devices.aliases_mean_one_device")
def native_names_mean_another_device(backend: Any) -> None:
    """A GPU's native name is a CPU's in unidev's spelling: JAX's ``cpu:1``, if that is a GPU."""

    @replace(backend)
    def native_name(self: Any, kind: str, index: int) -> str:
        return f"cpu:{index + (kind == 'gpu')}"


@mutant("devices.aliases_mean_one_device")
def spelled_out_index_is_another_device(backend: Any) -> None:
    """``cpu:0`` is not ``cpu``: torch, where ``x.to("cpu:0")`` copies every time."""
    from unidev.devices.finding import resolve_device

    @in_place_of(resolve_device)
    def resolve(spec: Any, backend: Any) -> Any:
        found = resolve_device(spec, backend)
        if isinstance(spec, str) and ":" in spec:
            return _twin(found.backend, found.kind, found.index)
        return found


@mutant("devices.each_listed_device_is_usable")
def listed_device_raises(backend: Any) -> None:
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


@mutant("devices.each_listed_device_is_usable")
def listed_device_forgets(backend: Any) -> None:
    """The last GPU takes values and gives back others: operators on torch's meta device."""
    make = backend.from_numpy

    @replace(backend)
    def from_numpy(self: Any, array: Any, dtype: Any, device: Any) -> Any:
        made = make(self, array, dtype, device)
        if device.kind == "gpu" and device.index == self.simulated_count - 1:
            made[...] = 0
        return made


@mutant("devices.try_gpu_in_and_out_of_range")
def try_gpu_clamps(backend: Any) -> None:
    """``try_gpu(10)`` is the last GPU there is, where it promised the CPU."""
    from unidev.devices.finding import try_gpu

    @in_place_of(try_gpu)
    def clamping(index: int = 0) -> Any:
        from unidev import num_gpus

        return try_gpu(min(index, max(num_gpus() - 1, 0)))


@mutant("devices.try_gpu_in_and_out_of_range")
def try_gpu_raises(backend: Any) -> None:
    """``try_gpu(10)`` is an error: a program that tries ends on a machine with fewer."""
    from unidev.devices.finding import gpu, try_gpu

    @in_place_of(try_gpu)
    def trying(index: int = 0) -> Any:
        return gpu(index)


@mutant("devices.free_memory_chooses")
def free_memory_is_not_looked_at(backend: Any) -> None:
    """The first GPU, however full it is: ``torch.device("cuda")``, the usual "first free" GPU."""
    from unidev.devices.finding import try_gpu

    @in_place_of(try_gpu)
    def trying(index: int = 0, *, free: Any = None, most_free: bool = False) -> Any:
        if free is not None:
            try_gpu(free=free)  # checked, and not heeded
        return try_gpu(index)


@mutant("devices.free_memory_chooses")
def an_index_beside_free_is_passed_over(backend: Any) -> None:
    """``try_gpu(1, free=…)`` is the first GPU with enough memory: the index is a hint."""
    from unidev.devices.finding import try_gpu

    @in_place_of(try_gpu)
    def trying(index: int = 0, *, free: Any = None, most_free: bool = False) -> Any:
        if free is None:
            return try_gpu(index, most_free=True) if most_free else try_gpu(index)
        return try_gpu(free=free, most_free=most_free)


@mutant("devices.try_all_gpus_without_any_gives_cpu", simulated_count=0)
def try_all_gpus_gives_nothing(backend: Any) -> None:
    """``[]`` without a GPU: what the textbook's published package returns."""
    from unidev.devices.finding import try_all_gpus

    @in_place_of(try_all_gpus)
    def trying() -> list[Any]:
        from unidev import list_devices

        return [device for device in list_devices() if device.kind == "gpu"]
