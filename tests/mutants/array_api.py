"""Faults of a backend for array-api-strict: the calls of the standard that look right."""

from __future__ import annotations

from functools import partial

from mutants.mutant import ARRAY_API, mutant

strict_mutant = partial(mutant, plugin=ARRAY_API)


@strict_mutant("copy.disjoint_on_the_same_device", around="copy_to")
def copy_is_to_device(sound, self, x, device, non_blocking):
    """``to_device`` returns an array that is there already."""
    return x.to_device(device.native)


@strict_mutant("create.from_numpy_without_aliasing", around="from_numpy")
def host_arrays_are_adopted(sound, self, array, dtype, device):
    """``asarray`` shares the memory of a NumPy array of the same dtype."""
    return self.xp.asarray(array, dtype=dtype, device=device.native)


@strict_mutant("copy.lands_on_the_device_asked_for", around="copy_to")
def copies_go_by_dlpack(sound, self, x, device, non_blocking):
    """``from_dlpack`` without ``device`` puts an array of ``device1`` on the CPU."""
    return self.xp.from_dlpack(x, copy=True)


@strict_mutant("converting.shared", profile="interop", around=".interop:StrictInterop.tensor_of")
def adopted_memory_is_copied(sound, self, array):
    """``asarray(copy=True)``: another tensor than that of the memory."""
    return self.backend.xp.asarray(array, copy=True)
