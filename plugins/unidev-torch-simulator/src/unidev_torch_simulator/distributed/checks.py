"""What NCCL and torch's ``ProcessGroupNCCL`` refuse, in their words (torch 2.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from unidev_torch_simulator.cuda.devices import NCCL_VERSION
from unidev_torch_simulator.distributed import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DistBackendError: type[RuntimeError] = torch._C._DistBackendError
_EIGHTS = (
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
)  # fmt: skip
_KNOWN = frozenset(
    {
        torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
        torch.int32, torch.int64, torch.bool, *_EIGHTS,
    }
)  # fmt: skip
_ANYWHERE = ("SUM", "PRODUCT", "MIN", "MAX", "AVG", "PREMUL_SUM")
_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check_tensors(tensors: Iterable[torch.Tensor], *, is_nccl: bool) -> None:
    """Raise what ``ProcessGroupNCCL`` raises for tensors that it does not take."""
    for tensor in tensors:
        if tensor.device.type == "cpu" or tensor.layout is not torch.strided:
            raise ValueError(f"Tensors must be {names.current().device.upper()} and dense")
        if not is_dense(tensor):
            raise ValueError("Tensors must be contiguous")
        if is_nccl and tensor.dtype not in _KNOWN and not tensor.is_complex():
            raise TypeError(
                f"Input tensor data type is not supported for {names.current().title} process "
                f"group: {dtype_name(tensor)}"
            )


def dtype_name(tensor: torch.Tensor) -> str:
    """PyTorch's word in C++ for the dtype, such as ``Float``."""
    return str(tensor.type()).rpartition(".")[2].removesuffix("Tensor")


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill a block of memory, in whichever order."""
    if tensor.is_contiguous():
        return True
    import torch._prims_common as prims

    return bool(prims.is_non_overlapping_and_dense_or_false(tensor))


def check_reduction(op: str, dtype: torch.dtype) -> None:
    """Raise what ``ProcessGroupNCCL`` raises for reductions that NCCL lacks."""
    if op not in _ANYWHERE:
        raise ValueError(f"Cannot use ReduceOp.{op} with {names.current().title}")
    if dtype is torch.bool and op == "AVG":
        raise TypeError("Cannot use ReduceOp.AVG with Bool")
    if op == "PREMUL_SUM" and dtype not in _FLOATS:
        raise ValueError("PreMulSum Data type must be half, float, bfloat16 or double")
    if dtype in _EIGHTS:
        raise NotImplementedError(
            "GPUs simulated by unidev do not reduce float8: the CPU build adds none of its values"
        )


def check_same_dtype(tensors: Sequence[torch.Tensor], text: str) -> None:
    """Raise ``text`` if two tensors differ in dtype."""
    if len({tensor.dtype for tensor in tensors}) > 1:
        raise TypeError(text)


def check_numel(found: int, expected: int, text: str) -> None:
    """Raise ``text`` unless the numbers of elements are equal; shapes may differ."""
    if found != expected:
        raise ValueError(text)


def check_splits(numel_of_row: int, rows: int, splits: Sequence[int], size: int) -> list[int]:
    """Numbers of elements for each rank, of a tensor split along its first dimension."""
    if not splits:
        if rows % size:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        return [rows // size * numel_of_row] * size
    if len(splits) != size:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(splits) != rows:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    return [each * numel_of_row for each in splits]


def duplicate_gpu(rank: int, other: int, device: Any) -> RuntimeError:
    """The error of two ranks on one GPU, which NCCL finds when it makes its communicator."""
    first, second = sorted((rank, other))
    where = f"sim:{device}" if names.current() is names.SIM else f"CUDA device {device}"
    return invalid_usage(f"Duplicate GPU detected : rank {second} and rank {first} both on {where}")


def invalid_usage(text: str) -> RuntimeError:
    """The error of a call that NCCL itself refuses."""
    if names.current() is names.SIM:
        return DistBackendError(text)
    version = ".".join(map(str, NCCL_VERSION))
    return DistBackendError(
        "NCCL error, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version "
        f"{version}\n"
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
        f"Last error:\n{text}"
    )


def unmatched(*, is_sent: bool) -> RuntimeError:
    """The error of a rank that sends to itself and does not receive, or the reverse."""
    ways = ("send", "recv") if is_sent else ("recv", "send")
    return invalid_usage(f"Trying to {ways[0]} to self without a matching {ways[1]}")


def aborted(rank: int) -> RuntimeError:
    """The error of a communicator that was destroyed, or has failed."""
    return DistBackendError(f"{names.current().title} communicator was aborted on rank {rank}.")
