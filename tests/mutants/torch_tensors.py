"""Faults of a PyTorch backend in torch's peculiar tensors: lazy bits, eight bits, sparse rows."""

from __future__ import annotations

from functools import partial

from mutants.mutant import around, in_place_of, replace, replace_value, torch_mutant, when_restored
from unidev.contract import dtypes
from unidev.errors import UnsupportedDtypeError

_OTHER_KINDS = "copy.strings_ragged_sparse"


@torch_mutant("dtypes.narrow", profile="tensor")
def narrow_dtypes_overflow(backend):
    """What a float8 cannot hold becomes NaN: ``torch.tensor(1e6).to(torch.float8_e4m3fn)``."""

    @in_place_of(dtypes.name_of)
    def name_of(dtype, backend):
        return dtypes.portable_name(dtype, backend)


@torch_mutant("dtypes.narrow", profile="tensor")
def float8_is_refused_without_its_name(backend):
    """An error says "unsupported dtype", and not which."""

    @replace(backend)
    def to_numpy(self, x, to_numpy=backend.to_numpy):
        if "float8" in str(x.dtype):
            raise UnsupportedDtypeError("NumPy does not have the dtype of this tensor.")
        return to_numpy(self, x)


@torch_mutant("containers.named_and_registered_containers", profile="tensor")
def the_order_of_packed_sequences_stays(_):
    """Of a packed sequence only the data move: without ``enforce_sorted`` it has indices, too."""
    from unidev_torch import containers as module

    def apart(packed):
        return (packed.data,), (type(packed), packed.batch_sizes, *packed[2:])

    def together(rest, parts):
        return rest[0](parts[0], *rest[1:])

    for mine, other in ((module._packed_apart, apart), (module._packed_together, together)):
        # The functions themselves are registered, once in a process.
        when_restored(partial(setattr, mine, "__code__", mine.__code__))
        mine.__code__ = other.__code__


@torch_mutant(_OTHER_KINDS, profile="tensor", around="copy_to")
def the_negative_bit_is_forgotten(copy, self, x, device, non_blocking):
    """Between devices the memory is copied as it is, though torch has yet to negate its numbers."""
    import torch

    if type(x) is torch.Tensor and x.is_neg() and self.device_of(x) is not device:
        x = torch._neg_view(x)
    return copy(self, x, device, non_blocking)


@torch_mutant("copy.gradient_reaches_the_source", profile="tensor")
def complex_gradients_lose_a_part(backend):
    """Gradients between devices travel as real numbers."""
    import torch

    class Copy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, native):
            ctx.home = x.device
            return x.to(native, copy=True)

        @staticmethod
        def backward(ctx, gradient):
            return gradient.real.to(ctx.home).to(gradient.dtype), None

    @around(backend)
    def copy_to(copy, self, x, device, non_blocking):
        if x.is_complex() and x.requires_grad and self.device_of(x) is not device:
            return Copy.apply(x, device.native)
        return copy(self, x, device, non_blocking)


@torch_mutant(_OTHER_KINDS, profile="tensor", around="to_numpy")
def eight_bits_are_read_as_integers(read, self, x):
    """``to_numpy`` of float8 returns its bits, as uint8, since ``x.numpy()`` refuses it."""
    import torch

    if x.is_floating_point() and x.itemsize == 1:
        x = x.detach().view(torch.uint8)
    return read(self, x)


@torch_mutant(
    "values.memory_that_is_cut_short", profile="tensor", everywhere=".tensors:check_memory"
)
def memory_is_judged_by_its_length(check, x):
    """A storage as long as the elements covers them: not if they begin at an offset in it."""
    import torch

    is_plain = type(x) is torch.Tensor and x.layout is torch.strided
    if not (is_plain and x.nbytes <= len(x.untyped_storage())):
        check(x)


@torch_mutant(_OTHER_KINDS, profile="tensor")
def indices_of_rows_are_no_memory(_):
    """The memory of a sparse tensor by rows is that of its values, which may share their places."""
    import torch

    from unidev_torch import tensors

    layouts = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
    known = {**tensors._PARTS, **dict.fromkeys(layouts, ("values",))}
    replace_value(tensors, "_PARTS", known)


@torch_mutant(_OTHER_KINDS, profile="tensor", around="copy_to")
def a_failed_copy_leaves_its_device_current(copy, self, x, device, non_blocking):
    """``torch.cuda.set_device`` before a copy, and again after it, but not in a ``finally``."""
    import torch

    if device.kind == "cpu":
        return copy(self, x, device, non_blocking)
    before = torch.accelerator.current_device_index()
    torch.accelerator.set_device_index(device.index)
    copied = copy(self, x, device, non_blocking)
    torch.accelerator.set_device_index(before)
    return copied
