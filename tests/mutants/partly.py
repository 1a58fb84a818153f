"""Backends that are wrong in part: for some sizes, dtypes, layouts, values or scopes alone.

Each conformed once, as the checks went through lists: float32, few elements, nothing between 8 KiB
and 1 MB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mutants.mutant import Mutant, around, mutant, torch_mutant
from unidev.backends.scopes import innermost_device

if TYPE_CHECKING:
    from collections.abc import Callable

_DISJOINT = "copy.disjoint_on_the_same_device"
_APART = "create.from_numpy_without_aliasing"


def share_copies(backend: Any, when: Callable[[Any], bool]) -> None:
    """Let a copy on the same device be a view ``when`` that says so of the tensor."""

    @around(backend)
    def copy_to(copy: Any, self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if self.device_of(x) is device and when(x):
            return x.view()
        return copy(self, x, device, non_blocking)


def _shares_one_dtype(name: str) -> Mutant:
    def breaks(backend: Any) -> None:
        share_copies(backend, lambda x: x.dtype == name)

    breaks.__name__ = f"{name}_copies_are_shared"
    breaks.__doc__ = f"The kernel that copies {name} was never written."
    return mutant(_DISJOINT)(breaks)


bool_copies_are_shared = _shares_one_dtype("bool")
uint8_copies_are_shared = _shares_one_dtype("uint8")
complex64_copies_are_shared = _shares_one_dtype("complex64")
float64_copies_are_shared = _shares_one_dtype("float64")


@torch_mutant(_DISJOINT, profile="tensor")
def bfloat16_copies_are_shared(backend):
    """NumPy does not have the dtype, so a suite that draws from NumPy's never sees it."""
    import torch

    from mutants.gradients import change_copies

    change_copies(
        backend,
        lambda x, y: x.detach() if x.dtype == torch.bfloat16 and x.device == y.device else y,
    )


@mutant(_DISJOINT)
def medium_copies_are_shared(backend):
    """Contiguous tensors from 8 KiB to 1 MB: a pool of blocks that gives out one that is in use."""
    share_copies(backend, lambda x: 8192 <= x.nbytes < 10**6 and x.flags.c_contiguous)


@mutant(_DISJOINT)
def huge_copies_are_shared(backend):
    """Above 16 MiB the pages are shared, copy-on-write in name."""
    share_copies(backend, lambda x: x.nbytes > 2**24)


@mutant(
    "copy.disjoint_across_devices", "as_in_device.disjoint_copy_when_not_there", around="copy_to"
)
def medium_copies_change_only_the_label(copy, self, x, device, non_blocking):
    """Between devices, too, from 8 KiB to 1 MB: one pool for all of them."""
    if self.device_of(x) is not device and 8192 <= x.nbytes < 10**6:
        return self._on(x.view(np.ndarray), device)
    return copy(self, x, device, non_blocking)


@mutant(_DISJOINT)
def copies_inside_a_scope_are_shared(backend):
    """Inside ``with device:`` what is on that device counts as copied."""

    def is_inside(x):
        return innermost_device(backend_name) is not None

    backend_name = "mutant_copies_inside_a_scope_are_shared"
    share_copies(backend, is_inside)


def _alias(backend: Any, when: Callable[[Any], bool]) -> None:

    @around(backend)
    def from_numpy(make: Any, self: Any, array: Any, dtype: Any, device: Any) -> Any:
        if array.dtype == dtype and when(array):
            return self._on(array.view(), device)
        return make(self, array, dtype, device)


@mutant(_APART)
def read_only_arrays_are_shared(backend):
    """A read-only array is taken for one that nobody writes to: JAX's constants."""
    _alias(backend, lambda array: not array.flags.writeable)


@mutant(_APART, around="to_numpy")
def views_are_read_as_views(read, self, x):
    """``to_numpy`` copies what is contiguous, and of strided tensors gives the memory itself."""
    return read(self, x) if x.flags.c_contiguous else x.view(np.ndarray)


@mutant("create.on_each_device", around="zeros")
def zeros_of_a_large_size_are_not(make, self, shape, dtype, device):
    """The last page is not cleared where there are more than 5,000 elements."""
    made = make(self, shape, dtype, device)
    if made.size > 5000:
        made.reshape(-1)[-1] = 1
    return made


@mutant("create.on_each_device", around="full")
def full_is_wrong_for_three_axes(make, self, shape, value, dtype, device):
    """Two axes and no more: TF's ``Fill`` kernels by rank."""
    made = make(self, shape, value, dtype, device)
    if len(shape) == 3 and made.size:
        made.reshape(-1)[0] = 0 if value else 1
    return made


@mutant("create.from_another_tensor", around="cast")
def cast_is_wrong_beyond_three_elements(convert, self, x, dtype, device):
    """The first three are converted, as in every example."""
    made = convert(self, x, dtype, device)
    if made.size > 3:
        made.reshape(-1)[3:] = 0
    return made


@torch_mutant("errors.index_out_of_range", profile="tensor", around="parse_native")
def missing_native_device_becomes_the_cpu(parse, self, spec):
    """``cuda:7`` on a machine with fewer is the CPU: TF's soft placement."""
    found = parse(self, spec)
    if isinstance(spec, str) and found and found[1] >= self.device_count(found[0]):
        return "cpu", 0
    return found


@mutant("copy.disjoint_across_devices", "copy.from_a_view", around="copy_to")
def large_copies_have_a_bit_flipped(copy, self, x, device, non_blocking):
    """One bit of a staging buffer is stuck, which only copies that fill it show."""
    made = copy(self, x, device, non_blocking)
    if made.size > 100_000:
        made.view(np.ndarray).reshape(-1).view(np.uint8)[7] ^= 1
    return made


@mutant("queued.read_at_once", around="copy_to")
def queued_copies_empty_their_source(copy, self, x, device, non_blocking):
    """With ``non_blocking`` the memory of the source is handed on, not copied."""
    made = copy(self, x, device, non_blocking)
    if non_blocking and x.flags.writeable:
        x[...] = 0
    return made
