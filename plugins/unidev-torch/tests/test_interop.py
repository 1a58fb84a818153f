"""``convert`` between NumPy and PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import unidev
from unidev.backends.loading import load_backend
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from fresh_programs import Python


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (np.arange(6)[::-1], "negative stride"),
        (np.zeros(41, np.uint8)[1:].view(np.float32), "not aligned"),
        (np.arange(6).astype(">i8"), "byte order"),
        (np.zeros(3, "c8,f4")["f0"], "itemsize"),
    ],
    ids=["reversed", "unaligned", "big-endian", "field"],
)
def test_arrays_that_cannot_be_shared_are_copied(x: np.ndarray[Any, Any], reason: str) -> None:
    expected = x.tolist()
    with pytest.raises(UnsupportedOperation, match=reason):
        unidev.convert(x, "torch", copy=False)
    y = unidev.convert(x, "torch")
    x[...] = 1
    assert y.tolist() == expected


def test_a_dtype_that_numpy_lacks_is_an_error() -> None:
    for dtype in (torch.bfloat16, torch.float8_e4m3fn):
        with pytest.raises(unidev.UnsupportedDtypeError, match=r"numpy has no dtype .* Cast it"):
            unidev.convert(torch.ones(3).to(dtype), "numpy")
    with pytest.raises(unidev.UnsupportedDtypeError, match=r"^at \['x'\]\[1\]: numpy has no"):
        unidev.convert({"x": (1, torch.ones(3).bfloat16())}, "numpy")
    for array in (np.array(["a"]), np.array([None]), np.zeros(2, "M8[s]"), np.zeros(2, "i4,f4")):
        with pytest.raises(unidev.UnsupportedDtypeError, match="torch has no dtype"):
            unidev.convert(array, "torch")


def test_sparse_nested_and_released_tensors_are_refused() -> None:
    dense = torch.eye(3)
    for copy in (None, False, True):
        with pytest.raises(UnsupportedOperation, match=r"sparse|to_dense"):
            unidev.convert(dense.to_sparse(), "numpy", copy=copy)
    gone = torch.ones(100)
    gone.untyped_storage().resize_(0)
    for copy in (None, False, True):
        with pytest.raises(unidev.DeletedTensorError):
            unidev.convert(gone, "numpy", copy=copy)


def test_the_first_call_loads_the_other_framework(warm_python: Python) -> None:
    program = """
import sys
import numpy, unidev
x = numpy.arange(3)
y = unidev.convert(x, "torch")
assert type(y) is sys.modules["torch"].Tensor
assert y.data_ptr() == x.ctypes.data
"""
    done = warm_python(program)
    assert done.returncode == 0, done.stderr


def test_a_trace_shows_only_what_crosses_devices() -> None:
    x = torch.ones(2, 3)
    with unidev.trace_transfers() as trace:
        unidev.convert(x, "numpy")
        unidev.convert(x, "numpy", copy=True)
        with unidev.use_backend("numpy"):  # beside torch, it has no GPUs
            unidev.convert(x, "numpy", device="gpu:1")
    (found,) = trace.transfers
    assert (found.operation, found.nbytes) == ("convert", 24)
    assert (str(found.source), str(found.target)) == ("cpu:0", "gpu:1")


RESIZED: dict[str, Callable[[torch.Tensor], object]] = {
    "resize_": lambda x: x.resize_(1_000_000),
    "a resize_ of its base": lambda x: x._base.resize_(1_000_000),  # type: ignore[union-attr]
    "its storage": lambda x: x.untyped_storage().resize_(0),
}
REPLACED: dict[str, Callable[[torch.Tensor], object]] = {
    "set_": lambda x: x.set_(torch.ones(2)),  # type: ignore[call-overload]
    "data": lambda x: setattr(x, "data", torch.ones(2)),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex64"])
@pytest.mark.parametrize("resize", RESIZED.values(), ids=RESIZED)
def test_shared_memory_is_not_resized(resize: Callable[[torch.Tensor], object], dtype: str) -> None:
    x = torch.ones(1000, dtype=getattr(torch, dtype))[:]
    shared = load_backend("torch").interop.export(x)  # NumPy has no bfloat16
    address = x.data_ptr()
    with pytest.raises(RuntimeError, match="not resizable"):
        resize(x)
    assert torch.from_dlpack(shared).data_ptr() == x.data_ptr() == address


@pytest.mark.parametrize("replace", REPLACED.values(), ids=REPLACED)
def test_shared_memory_is_kept_when_its_tensor_gets_another(
    replace: Callable[[torch.Tensor], object],
) -> None:
    x = torch.ones(1000)
    y = unidev.convert(x, "numpy", copy=False)
    replace(x)
    others = [torch.zeros(1000) for _ in range(50)]  # would be in its memory
    assert y.sum() == 1000
    assert all(other.data_ptr() != y.ctypes.data for other in others)


def test_a_buffer_that_is_shared_stays_when_its_model_is_placed() -> None:
    model = torch.nn.Module()
    model.register_buffer("ones", torch.ones(1000))
    y = unidev.convert(model.ones, "numpy", copy=False)
    unidev.place(model, "gpu:1")
    others = [torch.zeros(1000) for _ in range(50)]  # would be in its memory
    assert y.sum() == 1000
    assert all(other.data_ptr() != y.ctypes.data for other in others)
