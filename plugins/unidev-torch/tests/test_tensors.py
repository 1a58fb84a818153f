"""Each kind of tensor that torch has: copied, or refused with a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.masked import masked_tensor
from torch.nested import nested_tensor as nested

import unidev

if TYPE_CHECKING:
    from fresh_programs import Python

DEVICES = ("cpu", "gpu:1")


@pytest.mark.parametrize("source", DEVICES)
@pytest.mark.parametrize("target", DEVICES)
def test_a_conjugated_or_negated_view_keeps_its_values(source: str, target: str) -> None:
    c = torch.randn(3, dtype=torch.cfloat, device=unidev.as_device(source).native)
    for view in (c.conj(), c.conj().imag):
        copied = unidev.copy_to(view, target)
        assert torch.equal(copied.cpu().resolve_conj(), view.cpu().resolve_conj())
        assert not unidev.shares_memory(copied, c)
        assert unidev.to_numpy(view).tolist() == view.cpu().resolve_conj().resolve_neg().tolist()


def test_a_subclass_stays_one() -> None:
    x = torch.ones(3).as_subclass(Mine)
    assert unidev.as_in_device(x, "cpu") is x
    for target in DEVICES:
        y = unidev.copy_to(x, target)
        assert type(y) is Mine
        assert unidev.device_of(y) is unidev.as_device(target)


# torch says once in a process that this layout is young.
@pytest.mark.filterwarnings("ignore:Sparse (CSR|BSR) tensor support is in beta:UserWarning")
@pytest.mark.parametrize("layout", ["coo", "csr", "bsr"])
def test_a_sparse_tensor_is_copied_on_the_cpu_and_refused_by_simulated_devices(layout: str) -> None:
    dense = torch.eye(4)
    x = {
        "coo": dense.to_sparse,
        "csr": dense.to_sparse_csr,
        "bsr": lambda: dense.to_sparse_bsr((2, 2)),
    }[layout]()
    y = unidev.copy_to(x, "cpu")
    assert torch.equal(y.to_dense(), dense)
    assert not unidev.shares_memory(x, y)
    assert unidev.shares_memory(x, x)
    with pytest.raises(unidev.UnsupportedOperation, match="dense tensors only"):
        unidev.copy_to(x, "gpu:1")
    with pytest.raises(unidev.UnsupportedOperation, match="to_dense"):
        unidev.to_numpy(x)


def test_a_jagged_nested_tensor_is_copied_but_for_its_offsets() -> None:
    x = torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)], layout=torch.jagged)
    y = unidev.copy_to(x, "cpu")
    assert torch.equal(x.values(), y.values())
    assert not unidev.shares_memory(x, y)
    assert unidev.device_of(unidev.copy_to(x, "gpu:1")) is unidev.gpu(1)


class Mine(torch.Tensor):
    pass


LIKE = {
    "jagged": lambda: nested([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    "nested": lambda: nested([torch.ones(2), torch.ones(3)]),
    "subclass": lambda: torch.ones(2, 3).as_subclass(Mine),
    "csr": lambda: torch.eye(3).to_sparse_csr(),
    "channels_last": lambda: torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("what", LIKE)
@pytest.mark.parametrize("function", ["zeros_like", "ones_like", "empty_like"])
def test_a_tensor_like_another_is_of_its_kind(what: str, function: str) -> None:
    x = LIKE[what]()
    own, made = getattr(torch, function)(x), getattr(unidev, function)(x)
    assert (type(made), made.layout, made.is_nested) == (type(own), own.layout, own.is_nested)
    if what == "channels_last":
        there = getattr(unidev, function)(x, device="gpu:1")
        assert made.stride() == there.stride() == x.stride()
        assert unidev.device_of(there) is unidev.gpu(1)
    if function != "empty_like":
        parts = made.values() if made.is_nested or what == "csr" else made
        assert parts.eq(function == "ones_like").all()


@pytest.mark.filterwarnings("ignore:.*MaskedTensor:UserWarning")
def test_a_tensor_like_a_kind_that_torch_does_not_fill_is_refused_with_its_name() -> None:
    for x, function, kind in (
        (masked_tensor(torch.ones(2), torch.ones(2) > 0), unidev.zeros_like, "MaskedTensor"),
        (torch.eye(2).to_sparse(), unidev.ones_like, "sparse_coo"),
    ):
        with pytest.raises(unidev.UnsupportedOperation, match=f"of a {kind} tensor"):
            function(x)


# torch says so of all tensors of these kinds; they are still in use.
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("kind", ["quantized", "nested"])
def test_old_kinds_are_copied_on_the_cpu_and_refused_elsewhere(kind: str) -> None:
    x = (
        torch.quantize_per_tensor(torch.ones(3), 0.5, 0, torch.quint8)
        if kind == "quantized"
        else torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    )
    y = unidev.copy_to(x, "cpu")
    assert not unidev.shares_memory(x, y)
    read = torch.dequantize if kind == "quantized" else lambda x: torch.cat(x.unbind())
    assert torch.equal(read(x), read(y))
    with pytest.raises(unidev.UnsupportedOperation, match="dense tensors only"):
        unidev.copy_to(x, "gpu:1")
    with pytest.raises((unidev.UnsupportedOperation, unidev.UnsupportedDtypeError)):
        unidev.to_numpy(x)


def test_a_tensor_that_lies_on_several_devices_is_copied_where_it_is_and_not_moved(
    python: Python,
) -> None:
    done = python(
        "import warnings, torch\n"
        "import torch.distributed as dist\n"
        "with warnings.catch_warnings():\n"
        "    warnings.simplefilter('ignore')  # torch's own, at import\n"
        "    from torch.distributed.tensor import DTensor, Replicate, init_device_mesh\n"
        "    from torch.testing._internal.distributed.fake_pg import FakeStore\n"
        "dist.init_process_group('fake', store=FakeStore(), rank=0, world_size=2)\n"
        "mesh = init_device_mesh('cpu', (2,))\n"
        "x = DTensor.from_local(torch.ones(2), mesh, [Replicate()], run_check=False)\n"
        "import unidev\n"
        "y = unidev.copy_to(x, 'cpu')\n"
        "print(type(y) is DTensor, unidev.shares_memory(x.to_local(), y.to_local()))\n"
        "for ask in (unidev.to_numpy, lambda x: unidev.copy_to(x, 'gpu')):\n"
        "    try:\n"
        "        ask(x)\n"
        "    except unidev.UnsupportedOperation as error:\n"
        "        print('a DTensor is not supported: it is spread over devices' in str(error))\n"
        "dist.destroy_process_group()\n",
        UNIDEV_SIMULATE="1",
    )
    assert done.stdout == "True False\nTrue\nTrue\n", done.stderr


@pytest.mark.parametrize("operation", ["device_of", "to_numpy", "copy"])
def test_a_tensor_on_meta_has_no_device(operation: str) -> None:
    x = torch.ones(3, device="meta")
    call = {
        "device_of": unidev.device_of,
        "to_numpy": unidev.to_numpy,
        "copy": lambda x: unidev.copy_to(x, "cpu"),
    }[operation]
    with pytest.raises(unidev.UnsupportedOperation, match="no memory"):
        call(x)


def test_a_fake_tensor_moves_as_the_real_one_would_and_has_no_values() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.ones(3)
        assert unidev.device_of(x) is unidev.cpu()
        assert unidev.device_of(unidev.copy_to(x, "gpu:1")) is unidev.gpu(1)
    for ask in (unidev.to_numpy, lambda x: unidev.shares_memory(x, x)):
        with pytest.raises(unidev.UnsupportedOperation, match="no memory"):
            ask(x)


def test_a_lazy_parameter_is_refused() -> None:
    x = nn.LazyLinear(3).weight
    for target in DEVICES:
        with pytest.raises(unidev.UnsupportedOperation, match="no shape yet"):
            unidev.copy_to(x, target)


def test_copying_works_inside_transforms_of_torch_func() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(torch.func.vmap(lambda v: unidev.copy_to(v, "cpu") * 2)(x), x * 2)
    grad = torch.func.grad(lambda v: (unidev.copy_to(v, "gpu:1") ** 2).sum())(x)
    assert torch.equal(grad, 2 * x)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")  # torch's
@pytest.mark.parametrize(
    ("dtype", "remedy"),
    [
        (torch.bfloat16, r"x\.float\(\)"),
        (torch.float8_e4m3fn, r"x\.float\(\)"),
        (torch.complex32, r"x\.to\(torch\.complex64\)"),
    ],
)
def test_a_dtype_that_numpy_lacks_is_an_error_that_says_what_to_do(
    dtype: torch.dtype, remedy: str
) -> None:
    with pytest.raises(unidev.UnsupportedDtypeError, match=remedy):
        unidev.to_numpy(torch.empty(3, dtype=dtype))


def test_a_complex_tensor_does_not_silently_lose_its_imaginary_part() -> None:
    with pytest.raises(unidev.InvalidDataError, match="float32 cannot hold complex"):
        unidev.array(torch.ones(2, dtype=torch.cfloat), dtype="float32")
    with pytest.raises(unidev.UnsupportedDtypeError, match="imaginary"):
        unidev.array(torch.ones(2, dtype=torch.complex32), dtype="float32")


@pytest.mark.parametrize("device", ["cpu", "gpu:1"])
def test_a_bfloat16_tensor_is_checked_before_it_is_converted(device: str) -> None:
    x = torch.tensor([1.5, 1e30], dtype=torch.bfloat16, device=unidev.as_device(device).native)
    assert unidev.array(x, dtype="float32", device=device).device == x.device
    for dtype in ("float16", "int32"):
        with pytest.raises(unidev.InvalidDataError, match=f"{dtype} cannot hold"):
            unidev.array(x, dtype=dtype, device=device)
        assert unidev.to_numpy(unidev.array(x[:1], dtype=dtype, device=device)) in (1.5, 1)


def test_a_mode_takes_part_where_tensors_are_made_of_numpy() -> None:
    with FakeTensorMode():
        put = unidev.device_put([np.ones(3, np.float32)], "cpu")
    assert type(put[0]) is FakeTensor


def test_making_zeros_on_a_device_makes_no_copy_elsewhere() -> None:
    torch.sim.reset_peak_memory_stats(2)
    before = torch.sim.memory_allocated(2)
    x = unidev.zeros(2**18, device="gpu:2")
    assert torch.sim.max_memory_allocated(2) == before + x.nbytes


def test_only_copies_from_an_accelerator_are_left_to_torch_without_blocking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[bool] = []
    real = torch.Tensor.to

    class Spy(torch.Tensor):
        def to(self, *arguments: object, **options: object) -> torch.Tensor:
            seen.append(bool(options["non_blocking"]))
            return real(self.as_subclass(torch.Tensor), *arguments, **options)

    unidev.copy_to(torch.ones(3).as_subclass(Spy), "gpu:1", non_blocking=True)
    assert seen == [False]
