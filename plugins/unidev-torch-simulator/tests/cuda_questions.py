"""What a program for CUDA relies on, as questions that are answered by assertions.

Each runs in a process of its own with four simulated H100 of 256 MiB, in which torch is imported
and CUDA has not been used. Those about training and processes: ``cuda_questions_of_training``.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from itertools import product
from typing import TYPE_CHECKING, Any

import unidev  # noqa: F401  before torch, which looks for CUDA while it is imported

# isort: split
import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20
QUESTIONS: dict[str, Callable[[], None]] = {}


def question(function: Callable[[], None]) -> Callable[[], None]:
    """Ask it."""
    QUESTIONS[function.__name__] = function
    return function


def ones(*shape: int, device: str = "cuda:1") -> torch.Tensor:
    return torch.ones(*(shape or (3,)), device=device)


def error_of(kind: type[BaseException], call: Callable[[], object]) -> str:
    """The message of the error that the call must raise."""
    try:
        result = call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}, but {result!r:.100}")


# -- copies ----------------------------------------------------------------------------------------


@question
def a_copy_to_the_gpu_shares_no_byte() -> None:
    x = torch.ones(3)
    y = x.cuda()
    x.fill_(7)
    assert y.device == torch.device("cuda", 0)
    assert y.tolist() == [1, 1, 1]


@question
def overlapping_memory_is_refused_as_on_the_cpu() -> None:
    """Whose checks are CUDA's, too: they precede the kernels, in ``copy_impl``, for one (2.13)."""
    index, mask, one = torch.tensor([0, 1]), torch.tensor([True, True]), torch.ones(2)
    calls: list[Callable[..., Any]] = [
        lambda x, *_: x[1:].copy_(x[:-1]), lambda x, *_: x[:2].copy_(x[:2]),
        lambda x, *_: x[1:].copy_(x[:-1].int()), lambda x, *_: x[::2].copy_(x[1:3]),
        lambda x, *_: x[1:].view(torch.int32).copy_(x[:-1]),
        lambda x, *_: x.view(2, 2).copy_(x.view(2, 2).T), lambda x, *_: x.expand(2, 4).copy_(x),
        lambda x, *_: (y := x.expand(2, 4)).copy_(y), lambda x, *_: x[1:].add_(x[:-1]),
        lambda x, *_: x.expand(2, 4).mul_(2), lambda x, *_: torch.add(x[:-1], 1, out=x[1:]),
        lambda x, i, *_: x[1:3].index_put_((i,), x[:2]),
        lambda x, i, *_: x[1:3].scatter_(0, i, x[:2]), lambda x, *_: x.expand(2, 4).normal_(),
        lambda x, i, _, y: x[:1].expand(2).index_put_((i,), y),
        lambda x, i, _, y: x[:1].expand(2).scatter_(0, i, y), lambda x, *_: x.expand(2, 4).zero_(),
        lambda x, i, _, y: x[:1].expand(2).index_copy_(0, i, y),
        lambda x, i, *_: x[1:3].index_add_(0, i, x[:2]),
        lambda x, _, m, y: x[:1].expand(2).masked_scatter_(m, y),
        lambda x, _, m, y: x[:1].expand(2).masked_fill_(m, 3.0),
    ]  # fmt: skip
    refused = 0
    for number, call in enumerate(calls):
        said = []
        for device in ("cpu", "cuda"):
            x, *others = (each.to(device) for each in (torch.arange(4.0), index, mask, one))
            try:
                call(x, *others)
                said.append(str(x.tolist()))
            except RuntimeError as error:
                said.append(str(error))
                refused += 1
        assert said[0] == said[1], f"number {number}: {said}"
    assert refused >= 24


@question
def numpy_does_not_see_the_devices_memory() -> None:
    assert "Use Tensor.cpu() to copy" in error_of(TypeError, lambda: ones().numpy())


@question
def other_libraries_get_no_pointer() -> None:
    assert "no __dlpack__" in error_of(NotImplementedError, lambda: ones().__dlpack__())
    assert not hasattr(ones(), "__cuda_array_interface__")


# -- refusals --------------------------------------------------------------------------------------


@question
def the_cpu_and_a_gpu_do_not_mix() -> None:
    said = error_of(RuntimeError, lambda: ones() + torch.ones(3))
    assert "Expected all tensors to be on the same device" in said
    assert "cuda:1 and cpu" in said


@question
def weights_and_inputs_on_two_devices_do_not_mix() -> None:
    net = nn.Linear(3, 2).cuda(1)
    assert "same device" in error_of(RuntimeError, lambda: net(torch.ones(1, 3)))


@question
def a_number_of_the_cpu_is_taken() -> None:
    y = ones() * torch.tensor(2.0)
    assert (y.device.index, y.tolist()) == (1, [2, 2, 2])


@question
def an_operator_with_a_device_check_takes_no_number() -> None:
    x, one, index = ones(), torch.tensor(1.0), torch.tensor(1)
    for call, argument, wrapper in (
        (lambda: x.gather(0, index), "index", "gather"),
        (lambda: x.take(index), "index", "_take"),
        (lambda: torch.take(x, index, out=ones(1)), "index", "out_take_out"),
        (lambda: x.index_select(0, index), "index", "_index_select"),
        (lambda: x.scatter(0, index, 2.0), "index", "scatter_value"),
        (lambda: nn.functional.cross_entropy(x, index), "target", "nll_loss_forward"),
        (lambda: torch.addmm(ones(1, 1), ones(1, 1), one), "mat2", "addmm"),
        (lambda: torch.normal(x, one), "std", "Tensor_Tensor_normal"),
    ):
        said = error_of(RuntimeError, call)
        assert "Expected all tensors to be on the same device, but" in said
        assert f"argument {argument} " in said or f"got {argument} is on cpu" in said
        assert f"in method wrapper_CUDA_{wrapper})" in said
    for other in (lambda: x.addcdiv(one, x), lambda: torch.lerp(x, one, 0.5)):  # by the kernel
        error_of(RuntimeError, other)
    assert torch.where(x > 0, one, x).lerp(x, one).device == x.device


@question
def assignment_takes_indices_from_anywhere() -> None:
    """And numbers of other GPUs: it moves both. Reading does not."""
    index, x = torch.tensor([0, 2], device="cuda:2"), ones()
    x[index] = torch.tensor(5.0, device="cuda:3")
    x.index_put_((index,), ones(2), accumulate=True)
    x[torch.tensor([False, True, False], device="cuda:2")] = 7
    y = torch.zeros(3)
    y[index] = 1.0
    assert (x.tolist(), y.tolist()) == ([6, 7, 6], [1, 0, 1])
    assert "indices should be either on cpu" in error_of(RuntimeError, lambda: x[index])
    assert "cuda:1 and cuda:2" in error_of(RuntimeError, lambda: x.index_put_((index,), index))


# -- layouts ---------------------------------------------------------------------------------------


@question
def sparse_tensors_are_on_it_with_their_parts() -> None:
    x = torch.tensor([[0.0, 2, 0], [3, 0, 4]]).to_sparse().to("cuda:1")
    assert x.layout == torch.sparse_coo
    assert x.to("cuda:2")._indices().device == x.to("cuda:2").device == torch.device("cuda:2")
    weight = ones(3, 2).requires_grad_()
    for layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr):
        y = x.to_dense().to_sparse(layout=layout, blocksize=(1, 1) if "bs" in str(layout) else None)
        assert y.device == y.values().device == (y @ weight).device == x.device
        assert (y @ weight).tolist() == [[2, 2], [7, 7]] == (y.cpu() @ torch.ones(3, 2)).tolist()
        said = error_of(RuntimeError, lambda y=y: y @ torch.ones(3, 2))  # type: ignore[misc]
        assert "mat2 is on cpu" in said or "mat1 is on cuda:1" in said
        kind = "" if layout == torch.sparse_coo else "Csr"
        assert f"in method wrapper_Sparse{kind}CUDA__" in said
    with torch.sparse.check_sparse_tensor_invariants():
        assert torch._sparse_broadcast_to(x, (2, 2, 3)).sum().item() == 18  # type: ignore[attr-defined]
    torch.sparse.mm(x, weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[3, 3], [2, 2], [4, 4]]
    table = nn.Embedding(3, 2, sparse=True).cuda(1)
    nn.init.zeros_(table.weight)
    table(torch.tensor([1, 1], device="cuda:1")).sum().backward()
    assert table.weight.grad is not None
    assert table.weight.grad.is_sparse
    torch.optim.SGD(table.parameters(), lr=1).step()
    assert table.weight.tolist() == [[0, 0], [-2, -2], [0, 0]]


# -- devices ---------------------------------------------------------------------------------------


@question
def there_are_as_many_as_were_asked_for() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 4


@question
def names_say_that_they_are_simulated() -> None:
    assert torch.cuda.get_device_name(3) == "NVIDIA H100 80GB HBM3 (simulated)"


@question
def capability_and_memory_are_those_that_were_asked_for() -> None:
    assert torch.cuda.get_device_capability() == (9, 0)
    assert torch.cuda.get_device_properties(2).total_memory == 256 * MIB


@question
def no_library_is_misled_about_a_toolkit() -> None:
    assert torch.version.cuda is None
    assert not torch.backends.cudnn.is_available()


@question
def cuda_without_a_number_is_the_current_device() -> None:
    with torch.cuda.device(2):
        assert torch.ones(1, device="cuda").device.index == 2
    assert torch.ones(1, device="cuda").device.index == 0


@question
def a_new_thread_starts_on_the_first() -> None:
    torch.cuda.set_device(1)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.cuda.current_device()))
    thread.start()
    thread.join()
    assert (found, torch.cuda.current_device()) == ([0], 1)


@question
def a_device_that_is_not_there_is_cudas_own_error() -> None:
    said = error_of(torch.AcceleratorError, lambda: torch.cuda.set_device(9))
    assert said.startswith("CUDA error: invalid device ordinal")


@question
def a_tensor_shows_where_it_is() -> None:
    assert repr(ones(2)) == "tensor([1., 1.], device='cuda:1')"


@question
def visible_devices_are_cudas_choice() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = "2,0,9,1"  # before the first use, as programs do
    assert torch.cuda.device_count() == 2
    assert torch.cuda.get_device_properties(0).pci_bus_id == 2
    ones(device="cuda:1")
    assert "invalid device ordinal" in error_of(RuntimeError, lambda: ones(device="cuda:2"))


@question
def visible_devices_are_read_at_the_first_use() -> None:
    assert torch.cuda.device_count() == 4
    os.environ["CUDA_VISIBLE_DEVICES"] = "1,3"
    assert torch.cuda.device_count() == 2  # by NVML, which is no use of CUDA
    assert torch.cuda.is_available()  # one
    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1,2"
    assert torch.cuda.get_device_properties(1).pci_bus_id == 3
    assert torch.cuda.device_count() == 2


@question
def none_can_be_visible() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    assert not torch.cuda.is_available()
    assert "No CUDA GPUs are available" in error_of(RuntimeError, ones)


@question
def the_accelerator_is_cuda() -> None:
    found = torch.accelerator.current_accelerator()
    assert found is not None
    assert found.type == "cuda"
    assert torch.accelerator.device_count() == 4


# -- memory ----------------------------------------------------------------------------------------


@question
def memory_is_counted_and_given_back() -> None:
    before = torch.cuda.memory_allocated(1)
    x = ones(MIB)
    assert torch.cuda.memory_allocated(1) - before == 4 * MIB
    del x
    assert torch.cuda.memory_allocated(1) == before


@question
def each_counts_its_own() -> None:
    x = ones(MIB, device="cuda:2")
    assert torch.cuda.memory_allocated(2) == x.nbytes
    assert torch.cuda.memory_allocated(1) == torch.cuda.memory_allocated(0) == 0


@question
def the_peak_is_kept_until_it_is_reset() -> None:
    del_later = ones(MIB)
    del del_later
    assert torch.cuda.max_memory_allocated(1) == 4 * MIB
    torch.cuda.reset_peak_memory_stats(1)
    assert torch.cuda.max_memory_allocated(1) == 0


@question
def free_and_total_are_of_the_limit() -> None:
    x = ones(MIB)
    assert torch.cuda.mem_get_info(1) == (252 * MIB, 256 * MIB)
    assert x.nbytes == 4 * MIB


@question
def too_much_is_cudas_own_error_with_its_numbers() -> None:
    said = error_of(torch.OutOfMemoryError, lambda: torch.empty(256 * MIB, device="cuda"))
    assert said.startswith(
        "CUDA out of memory. Tried to allocate 1024.00 MiB. GPU 0 has a total capacity of 256.00 "
        "MiB of which 256.00 MiB is free."
    )
    said = error_of(torch.OutOfMemoryError, lambda: torch.empty(1 << 60, device="cuda"))
    assert said.endswith("Tried to allocate more than 1EB memory.")


@question
def so_is_a_result_that_does_not_fit() -> None:
    x = ones(40 * MIB)
    said = error_of(torch.OutOfMemoryError, lambda: x + x)
    assert "Tried to allocate 160.00 MiB. GPU 1" in said
    assert torch.cuda.memory_allocated(1) == x.nbytes


@question
def so_is_one_that_the_host_has_no_room_for() -> None:
    x = ones(1).expand(1 << 44)
    said = error_of(torch.OutOfMemoryError, lambda: x + 1)
    assert "Tried to allocate 65536.00 GiB. GPU 1 has a total capacity of 256.00 MiB of" in said
    assert torch.cuda.memory_stats(1)["num_ooms"] == 1


@question
def after_it_the_program_goes_on() -> None:
    error_of(torch.OutOfMemoryError, lambda: ones(100 * MIB))
    assert torch.cuda.memory_stats(1)["num_ooms"] == 1
    assert ones(10 * MIB).sum().item() == 10 * MIB


@question
def a_process_may_have_a_fraction() -> None:
    torch.cuda.set_per_process_memory_fraction(0.5, 1)
    assert "128.00 MiB allowed" in error_of(torch.OutOfMemoryError, lambda: ones(40 * MIB))
    ones(40 * MIB, device="cuda:2")


@question
def a_storage_can_be_on_it() -> None:
    storage = torch.UntypedStorage(10, device="cuda:1")
    assert (storage.device.index, storage.nbytes()) == (1, 10)
    storage.resize_(20)
    assert (storage.device.index, storage.nbytes()) == (1, 20)


@question
def new_memory_is_filled_where_algorithms_are_deterministic() -> None:
    torch.use_deterministic_algorithms(True)
    for dtype in (torch.float, torch.int):
        strided = torch.empty_strided((1, 2), (2, 1), dtype=dtype, device="cuda")
        grown = ones(1).to(dtype).resize_(3)[1:]
        for x in (torch.empty(2, device="cuda", dtype=dtype), strided, grown):
            assert (x.isnan() | (x == torch.iinfo(torch.int).max)).all()
    torch.utils.deterministic.fill_uninitialized_memory = False
    assert not torch.empty(3, device="cuda:3").isnan().any()


@question
def what_waits_for_the_gpu_is_refused_or_warned_of() -> None:
    """Most are those of test_sync_warning of PyTorch's test_torch.py (2.13)."""
    x, y, functional = torch.rand(4, device="cuda"), torch.rand((), device="cuda"), nn.functional
    at, twice, mask = torch.arange(3, device="cuda"), torch.full((1,), 2, device="cuda"), x > 0.5
    here, mask_here, event = at.cpu(), mask.cpu(), torch.cuda.current_stream().record_event()
    goes_on = (
        lambda: x.__setitem__(mask, 1.0), lambda: x.__setitem__(mask_here, y), lambda: x[at],
        lambda: x.__setitem__(at, y), lambda: functional.one_hot(at, num_classes=4),
        lambda: x[mask_here],
        lambda: torch.randperm(20000, device="cuda"), lambda: torch.any(y),
        lambda: torch.repeat_interleave(x, 2, output_size=8),
        lambda: torch.repeat_interleave(x, twice, output_size=8),
        lambda: x.to("cpu", non_blocking=True), lambda: x.cuda(1), torch.cuda.synchronize,
        event.synchronize,
    )  # fmt: skip
    waits = (
        lambda: x.__setitem__(mask, y), lambda: x.__setitem__(here, y), lambda: x[mask],
        lambda: x[here], x.nonzero, y.__bool__, lambda: functional.one_hot(at), y.item,
        lambda: torch.repeat_interleave(x, twice), lambda: torch.equal(x, x), x.cpu, here.cuda,
        lambda: torch.tensor([1.0], device="cuda"), torch.cuda.current_stream().synchronize,
    )  # fmt: skip
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for mode, call in product(("error", "warn"), (*goes_on, *waits)):
            torch.cuda.set_sync_debug_mode(mode)
            warned.clear()
            if mode == "error" and call in waits:
                assert error_of(RuntimeError, call) == "called a synchronizing CUDA operation"
            else:
                call()
            torch.cuda.set_sync_debug_mode(0)
            said = [str(each.message) for each in warned if "called" in str(each.message)]
            assert bool(said) == (mode == "warn" and call in waits), (mode, call)


@question
def pinned_memory_is_known_from_other() -> None:
    assert torch.ones(3).pin_memory().is_pinned()
    assert torch.ones(3).pin_memory()[1:].is_pinned()
    assert not torch.ones(3).is_pinned()


if __name__ == "__main__":
    sys.exit("run by test_cuda_questions.py")
