"""``convert`` that shares, copies or changes what it must not. PyTorch's, with NumPy beside it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mutants.mutant import around, replace, torch_mutant
from unidev.backends.numpy_backend.interop import NumpyInterop
from unidev.backends.scopes import innermost_device
from unidev.errors import BackendMismatchError


def _mutant(*caught_by: str, **options: Any) -> Any:
    checks = (f"converting.{each}" for each in caught_by)
    return torch_mutant(*checks, profile="interop", **options)


def _numpy_interop() -> Any:

    return NumpyInterop


def _torch_interop() -> Any:
    from unidev_torch.memory.interop import TorchInterop

    return TorchInterop


@_mutant("shared")
def copies_where_sharing_was_asked(backend):
    """``copy=False`` is taken for a wish: ``np.array(x, copy=None)``."""

    @around(_numpy_interop())
    def adopt(sound, self, exported, is_read_only):
        return sound(self, exported, is_read_only).copy()


@_mutant("copied", around="unidev.tensors.converting:_Conversion._moved")
def copies_only_what_is_large(moved, self, shared):
    """Less than 64 KiB is shared even with ``copy=True``."""
    return moved(self, shared) if shared.nbytes >= 2**16 else shared


@_mutant("values", around="unidev.tensors.converting:_Conversion._moved")
def signalling_nans_are_quieted(moved, self, shared):
    """Numbers go through arithmetic, which sets a bit of signalling NaNs: ``x * 1``."""
    made = moved(self, shared)
    if type(made) is np.ndarray and made.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            made *= made.dtype.type(1)
    return made


@_mutant("shared_or_refused")
def strides_are_copied_where_sharing_was_asked(backend):
    """A strided tensor is made contiguous first, and the copy is shared: ``x.contiguous()``."""

    @around(_torch_interop())
    def export(sound, self, x):
        sound(self, x)  # refuses what it cannot share
        return sound(self, x.detach().contiguous())


@_mutant("immutable")
def a_read_only_array_becomes_writable(backend):
    """PyTorch writes to a read-only array of NumPy: ``torch.from_numpy``, with a warning."""

    @replace(_numpy_interop())
    def is_immutable(self, x):
        return False


@_mutant("zero_d_and_empty")
def no_dimension_becomes_one(backend):
    """A number becomes a vector of one: ``np.ascontiguousarray``."""

    @around(_numpy_interop())
    def export(sound, self, x):
        return sound(self, x).reshape(x.shape or (1,))


@_mutant("lifetime")
def the_source_is_freed_early(backend):
    """The result has the address of the memory, and does not keep it: a lost ``deleter``."""
    import ctypes

    import torch

    @around(_torch_interop())
    def adopt(sound, self, exported, is_read_only):
        made = sound(self, exported, is_read_only)
        if not made.numel():
            return made
        memory = (ctypes.c_char * made.untyped_storage().nbytes()).from_address(made.data_ptr())
        flat = torch.frombuffer(memory, dtype=made.dtype)
        return flat.as_strided(made.shape, made.stride())


@_mutant("trees", around="unidev.tensors.containers:replace_tensors")
def one_tensor_becomes_two(mapped, function, tree):
    """A tensor that occurs twice is converted twice: accelerate's ``send_to_device``."""
    if not isinstance(tree, dict):
        return mapped(function, tree)
    return {
        key: mapped(function, item) if key in ("x", "again") else item for key, item in tree.items()
    }


@_mutant("devices", around="unidev.tensors.converting:_same_index")
def the_index_is_ignored(sound, here, source, target):
    """Every GPU is the first one of the other framework."""
    return target.device(here.kind, 0)


@_mutant("devices", around="unidev.tensors.converting:_Conversion.made")
def a_simulated_gpu_shares_the_hosts_memory(sound, self):
    """``copy=False`` to another device copies, as nothing compares the devices."""
    if self.copy is False and self.device is not self.near:
        self.copy = None
    return sound(self)


@_mutant("gradients_cut")
def a_tensor_with_a_gradient_is_refused(backend):
    """DLPack of PyTorch and Paddle raises for tensors that need a gradient."""

    @replace(_torch_interop())
    def export(self, x):
        return x


@_mutant("errors", around="unidev.tensors.converting:resolve_device")
def another_frameworks_device_is_taken_for_the_cpu(resolved, spec, target):
    """A device of the source becomes the CPU of the target, silently."""
    try:
        return resolved(spec, target)
    except BackendMismatchError:
        return target.cpu


@_mutant("errors", everywhere="unidev.tensors.kinds:say_where")
def the_place_in_a_tree_is_lost(say_where, error, at):
    """What cannot be converted is named, but not where it is: ``tree_map`` of any framework."""


@_mutant("values", around="unidev.tensors.converting:_Conversion.__init__")
def what_is_converted_goes_to_the_scope(sound, self, x, source, target, device, copy):
    """``with device:`` is where all new tensors are made: as of ``zeros``."""
    sound(self, x, source, target, device or innermost_device(target.name), copy)
