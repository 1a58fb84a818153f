"""``as_in_device`` that does too much, or too little."""

from __future__ import annotations

from typing import Any

from mutants.mutant import in_place_of, mutant
from unidev.tensors import transfer
from unidev.tensors.transfer import as_in_device, copy_to


@mutant(
    "as_in_device.same_object_when_there",
    "as_in_device.nothing_allocated",
    "as_in_device.differs_from_copy_to",
    "as_in_device.unmoved_tree_is_itself",
    "as_in_device.leaves_there_stay_themselves",
    "sequences.of_tensors",
)
def as_in_device_always_copies(backend):
    """A copy also where it is there already: ``x.to("cpu:0")`` of torch."""

    in_place_of(as_in_device)(copy_to)


@mutant("as_in_device.disjoint_copy_when_not_there")
def as_in_device_ignores_the_device(backend):
    """The tensor as it is, wherever it was to go: ``tf.identity`` with soft placement."""

    in_place_of(as_in_device)(lambda x, device, *, non_blocking=False: x)


@mutant("as_in_device.same_object_when_there", "as_in_device.leaves_there_stay_themselves")
def as_in_device_gives_a_new_object(backend):
    """Another object on the same memory: JAX's ``device_put(x, same_device)``."""

    move = transfer.moved

    @in_place_of(transfer.moved)
    def moved(operation, x, *arguments):
        found = move(operation, x, *arguments)
        return x.view() if found is x else found

    @in_place_of(transfer.as_in_device)
    def as_in_device(x, device, *, non_blocking=False):
        return transfer._each(x, device, non_blocking, as_in_device)


@mutant("as_in_device.same_object_when_there", everywhere="unidev.tensors.transfer:as_in_device")
def as_in_device_copies_for_another_spelling(as_in_device, x, device, *, non_blocking=False):
    """A copy unless the device is spelled one way: torch's ``cpu:0``, which is not ``cpu``."""
    verb = copy_to if isinstance(device, str) and ":" in device else as_in_device
    return verb(x, device, non_blocking=non_blocking)


@mutant("as_in_device.nothing_allocated")
def as_in_device_keeps_a_copy(backend):
    """The tensor itself, and a copy set aside: Keras 3's variables beside their backup."""

    kept: list[Any] = []

    @in_place_of(as_in_device)
    def moved(x, device, *, non_blocking=False):
        kept.append(copy_to(x, device))
        return as_in_device(x, device, non_blocking=non_blocking)


@mutant("as_in_device.unmoved_tree_is_itself", everywhere="unidev.tensors.transfer:as_in_device")
def as_in_device_rebuilds_trees(as_in_device, x, device, *, non_blocking=False):
    """A new container of the same tensors: accelerate's ``send_to_device``, ``tree_map``."""
    found = as_in_device(x, device, non_blocking=non_blocking)
    if found is x and type(x) is dict:
        return dict(x)
    return type(x)(x) if found is x and type(x) in (list, tuple) else found


@mutant(
    "as_in_device.leaves_there_stay_themselves", everywhere="unidev.tensors.transfer:as_in_device"
)
def as_in_device_copies_what_travels_along(as_in_device, x, device, *, non_blocking=False):
    """If one tensor of a container moves, all are copied: a batch packed into one transfer."""
    found = as_in_device(x, device, non_blocking=non_blocking)
    return found if found is x else copy_to(x, device, non_blocking=non_blocking)
