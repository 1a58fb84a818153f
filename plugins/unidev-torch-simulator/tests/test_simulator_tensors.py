"""Memory of simulated devices: made, counted, viewed, resized, copied, and never mixed."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
import torch
from turns import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from fresh_programs import Python

SIM = torch.device("sim:1")
SAME = (
    "(?i)expected (all tensors|self and mask) to be on the same device"
    "|either on cpu or on the same device as the indexed tensor"
)

BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "add": lambda p, q: p + q,
    "add_": lambda p, q: p.add_(q),
    "out": lambda p, q: torch.add(p, p, out=q),
    "matmul": lambda p, q: p @ q,
    "einsum": lambda p, q: torch.einsum("ij,jk->ik", p, q),
    "cat": lambda p, q: torch.cat([p, q]),
    "stack": lambda p, q: torch.stack([p, q]),
    "eq": lambda p, q: p == q,
    "equal": torch.equal,
    "where": lambda p, q: torch.where(p > 0, p, q),
    "linear": torch.nn.functional.linear,
    "conv2d": lambda p, q: torch.nn.functional.conv2d(p[None, None], q[None, None]),
    "mse_loss": torch.nn.functional.mse_loss,
    "layer_norm": lambda p, q: torch.nn.functional.layer_norm(p, (3,), q[0], q[0]),
    "embedding": lambda p, q: torch.nn.functional.embedding(q.long(), p),
    "gather": lambda p, q: p.gather(1, q.long()),
    "masked_fill_": lambda p, q: p.masked_fill_(q > 0, 1),
    "foreach": lambda p, q: torch._foreach_add([p], [q]),
    "dot": lambda p, q: torch.dot(p[0], q[0]),
    "cdist": torch.cdist,
    "index": lambda p, q: p[q[:1, :2].long()] if q.device.type == "sim" else p + q,
    "solve": torch.linalg.solve,
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(("one", "other"), [("sim:0", "sim:1"), ("sim:1", "cpu"), ("cpu", "sim:1")])
def test_tensors_of_two_devices_are_refused_in_torchs_words(
    name: str, one: str, other: str
) -> None:
    p, q = torch.ones(3, 3, device=one), torch.ones(3, 3, device=other)
    with pytest.raises(RuntimeError, match=SAME):
        BINARY[name](p, q)
    assert torch.equal(p.cpu(), torch.ones(3, 3))
    assert torch.equal(q.cpu(), torch.ones(3, 3))


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: torch.tensor(2.0) * x,
        lambda x: x * torch.tensor(2.0),
        lambda x: torch.tensor(2.0, dtype=torch.float64) * x,
        lambda x: torch.where(x > 0, torch.tensor(2.0), x),
        lambda x: torch.where(x > 0, 2.0, x),
        lambda x: 3.0 - x,
        lambda x: 2.0**x,
    ],
)
def test_a_number_on_the_cpu_goes_with_a_tensor_and_changes_neither_device_nor_dtype(
    compute: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    y = compute(torch.ones(3, device=SIM))
    assert (y.device, y.dtype, y.tolist()) == (SIM, torch.float32, [2.0, 2.0, 2.0])


def test_a_device_that_is_not_there_is_an_error() -> None:
    for make in (lambda: torch.empty(1, device="sim:4"), lambda: torch.ones(1).to("sim:9")):
        with pytest.raises(RuntimeError, match=r"does not exist: this process simulates 4 device"):
            make()


def test_memory_is_counted_exactly_by_device_and_given_back() -> None:
    gc.collect()
    before = [torch.sim.memory_allocated(i) for i in range(4)]
    x = torch.empty(1000, device="sim:2")
    y = x[10:]
    assert torch.sim.memory_allocated(2) == before[2] + 4000
    assert torch.accelerator.memory_allocated(2) == before[2] + 4000
    x.untyped_storage().resize_(8)
    assert torch.sim.memory_allocated(2) == before[2] + 8
    del x, y
    assert [torch.sim.memory_allocated(i) for i in range(4)] == before


def test_computing_leaves_no_memory_behind() -> None:
    layer = torch.nn.LSTM(3, 5).to(SIM)
    gc.collect()
    before = torch.sim.memory_allocated(1)
    for _ in range(3):
        layer(torch.ones(4, 2, 3, device=SIM))[0].sum().backward()
        layer.zero_grad(set_to_none=True)
    gc.collect()
    assert torch.sim.memory_allocated(1) == before


def test_free_and_total_memory_are_the_hosts() -> None:
    free, total = torch.sim.mem_get_info(1)
    x = torch.empty(2**20, dtype=torch.uint8, device=SIM)
    assert 0 < free <= total
    assert torch.sim.mem_get_info(0) == (free - x.nbytes, total)
    if hasattr(torch.accelerator, "get_memory_info"):  # since torch 2.10
        assert torch.accelerator.get_memory_info(1) == (free - x.nbytes, total)


def test_too_much_memory_is_torchs_own_error_and_is_not_counted() -> None:
    gc.collect()
    torch.sim.reset_peak_memory_stats(1)
    before, total = torch.sim.memory_allocated(1), torch.sim.mem_get_info(1)[1]
    ooms, half = torch.ops.unidev_sim.memory_stats(1)[12], total // 2 + 1
    kept = torch.empty(half, dtype=torch.uint8, device="sim:2")  # of the memory that all share
    for size in (half, 2**60):
        with pytest.raises(torch.OutOfMemoryError, match=r"tried to allocate .* GiB\. sim:1 has a"):
            torch.empty(size, dtype=torch.uint8, device=SIM)
    assert torch.ops.unidev_sim.memory_stats(1)[12] == ooms + 2
    assert torch.sim.max_memory_allocated(1) == torch.sim.memory_allocated(1) == before
    del kept


def test_out_and_storage_can_be_resized() -> None:
    out = torch.empty(0, device=SIM)
    torch.add(torch.ones(5, device=SIM), 1, out=out)
    assert out.tolist() == [2.0] * 5
    out.resize_(10)
    assert out[:5].tolist() == [2.0] * 5
    out.set_()
    assert (out.numel(), out.device) == (0, SIM)
    assert torch.UntypedStorage(10, device=SIM).device == SIM


def test_many_threads_on_many_devices_do_not_disturb_each_other() -> None:
    def work(number: int) -> None:
        for _ in range(30):
            x = torch.full((100,), float(number), device=f"sim:{number % 4}")
            y = x.to(f"sim:{(number + 1) % 4}").requires_grad_()
            (y * number).sum().backward()
            assert y.grad.eq(number).all()

    in_threads(work, range(8))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64, torch.float])
def test_integers_are_counted_into_bins_as_on_cuda(dtype: torch.dtype) -> None:
    values = torch.tensor([0, 1, 2, 2, 5, 7, 8, 3], dtype=dtype)
    for bins, low, high in ((8, 0, 7), (3, 0, 8), (4, 0, 0)):
        found = torch.histc(values.to("sim:1"), bins, low, high)
        assert (found.dtype, str(found.device)) == (dtype, "sim:1")
        assert found.tolist() == torch.histc(values.double(), bins, low, high).tolist()


def test_zeros_without_memory_are_read_as_zeros(warm_python: Python) -> None:
    # Forward mode has them for gradients of zero; reading address 0 ended the process.
    done = warm_python(
        "import torch, unidev\n"
        "device, = (gpu.native for gpu in unidev.try_all_gpus())\n"
        "zero, x = torch._efficientzerotensor(3, device=device), torch.ones(3, device=device)\n"
        "print(torch.dot(zero, x).item(), (zero + x).tolist(), zero.clone().tolist())\n",
        UNIDEV_SIMULATE="1",
    )
    assert (done.returncode, done.stdout) == (0, "0.0 [1.0, 1.0, 1.0] [0.0, 0.0, 0.0]\n")
