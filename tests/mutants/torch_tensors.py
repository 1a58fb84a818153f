"""Faults of a PyTorch backend in torch's peculiar tensors: lazy bits, eight bits, sparse rows."""

from __future__ import annotations

from functools import partial
from typing import Any

from mutants.mutant import in_place_of, replace, replace_value, torch_mutant, when_restored

_OTHER_KINDS = "copy.strings_ragged_sparse"


@torch_mutant("dtypes.narrow", profile="tensor")
def narrow_dtypes_overflow(backend: Any) -> None:
    """What a float8 cannot hold becomes NaN: ``torch.tensor(1e6).to(torch.float8_e4m3fn)``."""
    from unidev.contract import dtypes

    @in_place_of(dtypes.name_of)
    def name_of(dtype: Any, backend: Any) -> str | None:
        return dtypes.portable_name(dtype, backend)


@torch_mutant("dtypes.narrow", profile="tensor")
def float8_is_refused_without_its_name(backend: Any) -> None:
    """An error says "unsupported dtype", and not which."""
    from unidev.errors import UnsupportedDtypeError

    @replace(backend)
    def to_numpy(self: Any, x: Any, to_numpy: Any = backend.to_numpy) -> Any:
        if "float8" in str(x.dtype):
            raise UnsupportedDtypeError("NumPy does not have the dtype of this tensor.")
        return to_numpy(self, x)


@torch_mutant("containers.named_and_registered_containers", profile="tensor")
def the_order_of_packed_sequences_stays(_: Any) -> None:
    """Of a packed sequence only the data move: without ``enforce_sorted`` it has indices, too."""
    from unidev_torch import containers as module

    def apart(packed: Any) -> Any:
        return (packed.data,), (type(packed), packed.batch_sizes, *packed[2:])

    def together(rest: Any, parts: Any) -> Any:
        return rest[0](parts[0], *rest[1:])

    for mine, other in ((module._packed_apart, apart), (module._packed_together, together)):
        # The functions themselves are registered, once in a process.
        when_restored(partial(setattr, mine, "__code__", mine.__code__))
        mine.__code__ = other.__code__


@torch_mutant(_OTHER_KINDS, profile="tensor")
def the_negative_bit_is_forgotten(backend: Any) -> None:
    """Between devices the memory is copied as it is, though torch has yet to negate its numbers."""
    import torch

    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if type(x) is torch.Tensor and x.is_neg() and self.device_of(x) is not device:
            x = torch._neg_view(x)
        return copy(self, x, device, non_blocking)


@torch_mutant("copy.gradient_reaches_the_source", profile="tensor")
def complex_gradients_lose_a_part(backend: Any) -> None:
    """Gradients between devices travel as real numbers."""
    import torch

    copy = backend.copy_to

    class Copy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, native: Any) -> Any:
            ctx.home = x.device
            return x.to(native, copy=True)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient.real.to(ctx.home).to(gradient.dtype), None

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if x.is_complex() and x.requires_grad and self.device_of(x) is not device:
            return Copy.apply(x, device.native)
        return copy(self, x, device, non_blocking)


@torch_mutant(_OTHER_KINDS, profile="tensor")
def eight_bits_are_read_as_integers(backend: Any) -> None:
    """``to_numpy`` of float8 returns its bits, as uint8, since ``x.numpy()`` refuses it."""
    read = backend.to_numpy

    @replace(backend)
    def to_numpy(self: Any, x: Any) -> Any:
        import torch

        if x.is_floating_point() and x.itemsize == 1:
            x = x.detach().view(torch.uint8)
        return read(self, x)


@torch_mutant("values.memory_that_is_cut_short", profile="tensor")
def memory_is_judged_by_its_length(_: Any) -> None:
    """A storage as long as the elements covers them: not if they begin at an offset in it."""
    import torch

    from unidev_torch import tensors

    check = tensors.check_memory

    @in_place_of(check)
    def check_length(x: Any) -> None:
        is_plain = type(x) is torch.Tensor and x.layout is torch.strided
        if not (is_plain and x.nbytes <= len(x.untyped_storage())):
            check(x)


@torch_mutant(_OTHER_KINDS, profile="tensor")
def indices_of_rows_are_no_memory(_: Any) -> None:
    """The memory of a sparse tensor by rows is that of its values, which may share their places."""
    import torch

    from unidev_torch import tensors

    layouts = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
    known = {**tensors._PARTS, **dict.fromkeys(layouts, ("values",))}
    replace_value(tensors, "_PARTS", known)


@torch_mutant(_OTHER_KINDS, profile="tensor")
def a_failed_copy_leaves_its_device_current(backend: Any) -> None:
    """``torch.cuda.set_device`` before a copy, and again after it, but not in a ``finally``."""
    import torch

    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if device.kind == "cpu":
            return copy(self, x, device, non_blocking)
        before = torch.accelerator.current_device_index()
        torch.accelerator.set_device_index(device.index)
        copied = copy(self, x, device, non_blocking)
        torch.accelerator.set_device_index(before)
        return copied
