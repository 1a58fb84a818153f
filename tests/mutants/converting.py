"""``convert`` that shares, copies or changes what it must not. PyTorch's, with NumPy beside it."""

from __future__ import annotations

from typing import Any

from mutants.mutant import replace, torch_mutant


def _mutant(*caught_by: str) -> Any:
    return torch_mutant(*(f"converting.{each}" for each in caught_by), profile="interop")


def _numpy_interop() -> Any:
    from unidev.numpy_backend.interop import NumpyInterop

    return NumpyInterop


def _torch_interop() -> Any:
    from unidev_torch.memory.interop import TorchInterop

    return TorchInterop


@_mutant("shared")
def copies_where_sharing_was_asked(backend: Any) -> None:
    """``copy=False`` is taken for a wish: ``np.array(x, copy=None)``."""
    sound = _numpy_interop().adopt

    @replace(_numpy_interop())
    def adopt(self: Any, exported: Any, is_read_only: bool) -> Any:
        return sound(self, exported, is_read_only).copy()


@_mutant("copied")
def shares_where_a_copy_was_asked(backend: Any) -> None:
    """``copy=True`` gives a view: JAX's ``from_dlpack(x, copy=True)``."""
    from unidev.tensors import converting

    @replace(converting._Conversion)
    def _moved(self: Any, shared: Any) -> Any:
        return shared


@_mutant("copied")
def copies_only_what_is_large(backend: Any) -> None:
    """Less than 64 KiB is shared even with ``copy=True``."""
    from unidev.tensors import converting

    moved = converting._Conversion._moved

    @replace(converting._Conversion)
    def _moved(self: Any, shared: Any) -> Any:
        return moved(self, shared) if shared.nbytes >= 2**16 else shared


@_mutant("values")
def signalling_nans_are_quieted(backend: Any) -> None:
    """Numbers go through arithmetic, which sets a bit of signalling NaNs: ``x * 1``."""
    import numpy as np

    from unidev.tensors import converting

    moved = converting._Conversion._moved

    @replace(converting._Conversion)
    def _moved(self: Any, shared: Any) -> Any:
        made = moved(self, shared)
        if type(made) is np.ndarray and made.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                made *= made.dtype.type(1)
        return made


@_mutant("values")
def a_dtype_is_narrowed(backend: Any) -> None:
    """float64 becomes float32 on the way, as JAX makes it without ``jax_enable_x64``."""
    import torch

    sound = _torch_interop().adopt

    @replace(_torch_interop())
    def adopt(self: Any, exported: Any, is_read_only: bool) -> Any:
        made = sound(self, exported, is_read_only)
        return made.float() if made.dtype is torch.float64 else made


@_mutant("shared_or_refused")
def strides_are_copied_where_sharing_was_asked(backend: Any) -> None:
    """A strided tensor is made contiguous first, and the copy is shared: ``x.contiguous()``."""
    sound = _torch_interop().export

    @replace(_torch_interop())
    def export(self: Any, x: Any) -> Any:
        sound(self, x)  # refuses what it cannot share
        return sound(self, x.detach().contiguous())


@_mutant("immutable")
def a_read_only_array_becomes_writable(backend: Any) -> None:
    """PyTorch writes to a read-only array of NumPy: ``torch.from_numpy``, with a warning."""

    @replace(_numpy_interop())
    def is_immutable(self: Any, x: Any) -> bool:
        return False


@_mutant("zero_d_and_empty")
def no_dimension_becomes_one(backend: Any) -> None:
    """A number becomes a vector of one: ``np.ascontiguousarray``."""
    sound = _numpy_interop().export

    @replace(_numpy_interop())
    def export(self: Any, x: Any) -> Any:
        return sound(self, x).reshape(x.shape or (1,))


@_mutant("lifetime")
def the_source_is_freed_early(backend: Any) -> None:
    """The result has the address of the memory, and does not keep it: a lost ``deleter``."""
    import ctypes

    import torch

    sound = _torch_interop().adopt

    @replace(_torch_interop())
    def adopt(self: Any, exported: Any, is_read_only: bool) -> Any:
        made = sound(self, exported, is_read_only)
        if not made.numel():
            return made
        memory = (ctypes.c_char * made.untyped_storage().nbytes()).from_address(made.data_ptr())
        flat = torch.frombuffer(memory, dtype=made.dtype)
        return flat.as_strided(made.shape, made.stride())


@_mutant("trees")
def one_tensor_becomes_two(backend: Any) -> None:
    """A tensor that occurs twice is converted twice: accelerate's ``send_to_device``."""
    from unidev.tensors import containers

    mapped = containers.replace_tensors

    @replace(containers)
    def replace_tensors(function: Any, tree: Any) -> Any:
        if not isinstance(tree, dict):
            return mapped(function, tree)
        return {
            key: mapped(function, item) if key in ("x", "again") else item
            for key, item in tree.items()
        }


@_mutant("devices")
def the_index_is_ignored(backend: Any) -> None:
    """Every GPU is the first one of the other framework."""
    from unidev.tensors import converting

    @replace(converting)
    def _same_index(here: Any, source: Any, target: Any) -> Any:
        return target.device(here.kind, 0)


@_mutant("devices")
def a_simulated_gpu_shares_the_hosts_memory(backend: Any) -> None:
    """``copy=False`` to another device copies, as nothing compares the devices."""
    from unidev.tensors import converting

    sound = converting._Conversion.made

    @replace(converting._Conversion)
    def made(self: Any) -> Any:
        if self.copy is False and self.device is not self.near:
            self.copy = None
        return sound(self)


@_mutant("gradients_cut")
def a_tensor_with_a_gradient_is_refused(backend: Any) -> None:
    """DLPack of PyTorch and Paddle raises for tensors that need a gradient."""

    @replace(_torch_interop())
    def export(self: Any, x: Any) -> Any:
        return x


@_mutant("errors")
def another_frameworks_device_is_taken_for_the_cpu(backend: Any) -> None:
    """A device of the source becomes the CPU of the target, silently."""
    from unidev.errors import BackendMismatchError
    from unidev.tensors import converting

    resolved = converting.resolve_device

    @replace(converting)
    def resolve_device(spec: Any, target: Any) -> Any:
        try:
            return resolved(spec, target)
        except BackendMismatchError:
            return target.cpu


@_mutant("errors")
def a_dtype_that_is_lacking_becomes_another(backend: Any) -> None:
    """What the other framework lacks is read as what it has: Paddle's uint16 as bfloat16."""
    from unidev.errors import UnsupportedDtypeError
    from unidev.tensors import converting

    name_of = converting._Conversion._dtype_name

    @replace(converting._Conversion)
    def _dtype_name(self: Any) -> str:
        try:
            return name_of(self)
        except UnsupportedDtypeError:
            return "float32"


@_mutant("errors")
def the_place_in_a_tree_is_lost(backend: Any) -> None:
    """What cannot be converted is named, but not where it is: ``tree_map`` of any framework."""
    from unidev.tensors.containers import Opened

    @replace(Opened)
    def _say_where(self: Any, error: Any, position: int) -> None: ...
