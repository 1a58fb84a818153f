"""Torch's kinds of tensor: which have memory, where it is, and how they convert to NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from unidev.contract import Extent
from unidev.errors import DeletedTensorError, UnsupportedDtypeError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
_NUMPY_NAMES = {getattr(torch, name): name for name in NAMES if name != "bfloat16"}

_NOT_ON_MPS = frozenset({"float64", "complex128"})
"""For a torch that does not report dtypes."""

_LIKE = {0: torch.zeros_like, 1: torch.ones_like, None: torch.empty_like}
_CPU = torch.device("cpu")
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
_LAZY = (UninitializedBuffer, UninitializedParameter)

_PARTS: dict[torch.layout, tuple[str, ...]] = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


def names_on(native: torch.device) -> Sequence[str]:
    """The dtypes of which torch can make tensors on an accelerator."""
    try:
        carried = torch.accelerator.get_device_capability(native)["supported_dtypes"]
    except (AttributeError, RuntimeError):  # torch 2.9; CUDA, of which torch reports none
        return [name for name in NAMES if native.type != "mps" or name not in _NOT_ON_MPS]
    return [name for name in NAMES if getattr(torch, name) in carried]


def check_memory(x: torch.Tensor) -> None:
    """Refuse tensors on which torch would crash or read out of bounds, or that have no shape yet.

    Does nothing while a compiler follows: it knows no addresses.

    Raises:
        DeletedTensorError: the tensor's storage ends before its last element.
        UnsupportedOperation: it is a lazy parameter.
    """
    if type(x) in _PLAIN:
        try:
            if is_covered(x):
                return  # the usual case, in a third of the time
        except (RuntimeError, NotImplementedError):  # no storage of its own
            pass
    if torch.compiler.is_compiling():
        return
    if isinstance(x, _LAZY):
        raise UnsupportedOperation(
            "the values of a lazy parameter", "it has no shape yet: run the model once"
        )
    if x.layout is not torch.strided or x.is_nested:
        for part in parts_of(x):
            check_memory(part)
        return
    try:
        held = len(x.untyped_storage())
    except (RuntimeError, NotImplementedError):
        return  # a wrapper without a storage of its own, such as those of torch.func
    if held < span(x)[1] and x.numel():
        raise DeletedTensorError(
            f"the memory of this tensor of shape {tuple(x.shape)} is gone: its storage was resized "
            f"to {held} bytes (FSDP resizes those of parameters that it has released to 0)."
        )


def is_covered(x: torch.Tensor) -> bool:
    """Whether ``x`` is contiguous, from the beginning of a storage that is as long, or longer.

    Raises RuntimeError or NotImplementedError where ``x`` has no storage.
    """
    # Each of these calls counts, as this is asked of every tensor that is read: `len` is faster
    # than `nbytes()`.
    return x.nbytes <= len(x.untyped_storage()) and x.is_contiguous() and not x.storage_offset()


def are_covered(xs: Sequence[torch.Tensor]) -> bool:
    """Whether all of ``xs`` are contiguous, in storages that cover them; False if in doubt."""
    try:
        for x in xs:
            offset = x.storage_offset()  # of a part of a packed tensor
            end = x.nbytes + offset * x.itemsize if offset else x.nbytes
            if end > len(x.untyped_storage()) or not x.is_contiguous():
                return False
    except (RuntimeError, NotImplementedError, ValueError):  # no storage; lazy: no shape
        return False
    return True


def _no_addresses(_: object) -> bool:
    """In place of the two above while torch.compile follows, which knows no addresses."""
    return True


check_memory._torchdynamo_inline = _no_addresses  # type: ignore[attr-defined]
are_covered._torchdynamo_inline = _no_addresses  # type: ignore[attr-defined]


def parts_of(x: torch.Tensor) -> list[torch.Tensor]:
    """The dense tensors that hold the values of a sparse or nested one; none if it is dense."""
    names = ("values",) if x.is_nested else _PARTS.get(x.layout, ())
    return [getattr(x.detach(), name)() for name in names]


def span(x: torch.Tensor) -> tuple[int, int]:
    """The offsets in its storage of the first byte of ``x`` and of the one after its last."""
    first = int(x.storage_offset()) * x.itemsize
    if x.numel() == 0:
        return first, first
    steps = sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True))
    return first, first + (int(steps) + 1) * x.itemsize


def check_movable(x: torch.Tensor, *, is_simulated: bool) -> None:
    """Refuse tensors that cannot be moved to another device.

    Raises:
        UnsupportedOperation: it is spread over several devices, or is not dense and goes to a
        simulated one.
    """
    refuse_spread(x, "moving")
    is_dense = x.layout is torch.jagged or (x.layout is torch.strided and not x.is_nested)
    if is_simulated and (x.is_quantized or not is_dense):
        kind = "quantized" if x.is_quantized else _kind_of(x)
        raise UnsupportedOperation(
            f"moving a {kind} tensor", "torch's simulated devices hold dense tensors only"
        )


def unstorable(x: torch.Tensor) -> str | None:
    """Why no array has the values of ``x``, and what to keep instead."""
    if x.is_quantized:
        return "it is quantized: keep x.int_repr(), its scale and its zero point"
    if x.is_nested:
        return "it is nested: keep x.to_padded_tensor(0.0)"
    if x.layout is not torch.strided:
        return f"it is {_kind_of(x)}: keep x.to_dense()"
    return f"it is a {type(x).__name__}, which wraps others: keep those" if wraps(x) else None


def wraps(x: torch.Tensor) -> bool:
    """Whether other tensors hold the values of ``x``, a subclass, whose storage has no memory."""
    try:
        return type(x) not in {*_PLAIN, *_LAZY} and x.untyped_storage().data_ptr() < 0
    except RuntimeError:
        return True


def new_like(
    x: torch.Tensor, value: int | None, native: torch.device, *, is_simulated: bool
) -> torch.Tensor:
    """Zeros, ones or (None) undefined values by torch's own functions.

    Raises:
        UnsupportedOperation: torch makes none, as ones like a sparse tensor.
    """
    if x.device != native:
        check_movable(x, is_simulated=is_simulated)
    try:
        with torch.no_grad():
            if x.is_quantized and value is not None:  # zeros_like refuses
                return torch.full_like(x, value, device=native)
            return _LIKE[value](x, device=native)
    except (NotImplementedError, TypeError) as error:  # the second is MaskedTensor's
        is_strided = x.layout is torch.strided and not x.is_nested
        kind = type(x).__name__ if is_strided else _kind_of(x)
        raise UnsupportedOperation(
            f"{_LIKE[value].__name__} of a {kind} tensor",
            f"torch has none: unidev.full(x.shape, {value or 0}, dtype=x.dtype) is dense",
        ) from error


def from_numpy(
    array: np.ndarray[Any, Any], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """The values of ``array``, converted to ``dtype``, in new memory of torch's on ``device``."""
    # From ml_dtypes, which torch does not support. NumPy does not count it as a float.
    if array.dtype.kind not in "biufc" and array.dtype.name == "bfloat16":
        bits = from_numpy(array.view(np.uint16), torch.uint16, torch.device("cpu"))
        return bits.view(torch.bfloat16).to(device=device, dtype=dtype)
    if device == _CPU and array.flags.carray:  # the usual case, in two thirds of the time
        try:
            shared = torch.from_numpy(array)
        except ValueError:  # it asks also for the strides of dimensions of length 1
            pass
        else:
            if shared.dtype is dtype:
                return shared.clone()
    strides_fit = all(stride >= 0 and stride % array.itemsize == 0 for stride in array.strides)
    if not (strides_fit and array.flags.aligned):
        array = array.copy()
    # Not torch.from_numpy, which warns of read-only arrays.
    return torch.tensor(array, dtype=dtype, device=device)


def to_numpy(x: torch.Tensor) -> np.ndarray[Any, Any]:
    """A new, writable array in C order, detached from autograd.

    Raises:
        UnsupportedDtypeError: NumPy has no such dtype.
        UnsupportedOperation: not a dense tensor with memory.
    """
    check_memory(x)
    refuse_spread(x, "reading")
    if x.dtype not in _NUMPY_NAMES:
        hint = "x.to(torch.complex64)" if x.is_complex() else "x.float()"
        if x.is_quantized:
            hint = "x.dequantize()"
        raise UnsupportedDtypeError(f"NumPy has no {x.dtype}: convert first, with {hint}.")
    if x.layout is not torch.strided or x.is_nested:
        raise UnsupportedOperation(
            "to_numpy", f"NumPy has no {_kind_of(x)} arrays; x.to_dense() or x.to_padded_tensor()"
        )
    if not has_memory(x):
        _no_memory(x, "to_numpy")
    shared = x.device.type == "cpu"
    array = x.numpy(force=True)
    return np.array(array, order="C", copy=True) if shared else np.asarray(array, order="C")


def extents(x: torch.Tensor) -> list[Extent]:
    """The complete storages behind ``x``.

    Raises:
        UnsupportedOperation: there is no memory, or torch does not report its address.
    """
    if not has_memory(x) or isinstance(x, _LAZY):
        _no_memory(x, "extents")
    parts = parts_of(x)
    if parts:
        return [extent for part in parts for extent in extents(part)]
    try:
        storage = x.untyped_storage()
        return [Extent(storage.data_ptr(), storage.nbytes())]
    except (RuntimeError, NotImplementedError) as error:
        raise UnsupportedOperation("extents", f"torch reports no address: {error}") from error


def has_memory(x: torch.Tensor) -> bool:
    """Whether ``x`` has values: not on ``meta``, nor while torch.compile traces."""
    return x.device.type != "meta" and type(x).__name__ != "FakeTensor"


def refuse_spread(x: torch.Tensor, doing: str) -> None:
    """Raise UnsupportedOperation for a tensor that is spread over several devices."""
    if type(x).__name__ == "DTensor":
        raise UnsupportedOperation(
            f"{doing} a DTensor", "it is spread over devices: use x.to_local() or x.full_tensor()"
        )


def _kind_of(x: torch.Tensor) -> str:
    return "nested" if x.is_nested else str(x.layout).removeprefix("torch.")


def _no_memory(x: torch.Tensor, operation: str) -> NoReturn:
    raise UnsupportedOperation(operation, f"a {type(x).__name__} on {x.device} has no memory")
