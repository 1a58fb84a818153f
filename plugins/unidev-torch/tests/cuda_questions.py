"""What a program for CUDA relies on, as questions that are answered by assertions.

Each runs in a process of its own with four simulated H100 of 256 MiB, in which torch is imported
and CUDA has not been used.
"""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import pickle
import sys
import threading
import time
from typing import TYPE_CHECKING

import unidev  # noqa: F401  before torch, which looks for CUDA while it is imported

# isort: split
import torch
from torch import nn
from torch.nn import functional
from torch.nn.parallel import comm

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
def a_copy_to_another_gpu_shares_no_byte() -> None:
    x = ones()
    y = x.to("cuda:2")
    x.fill_(7)
    y.add_(1)
    assert (y.device.index, y.tolist(), x.tolist()) == (2, [2, 2, 2], [7, 7, 7])


@question
def a_copy_back_shares_no_byte() -> None:
    x = ones()
    y = x.cpu()
    y.fill_(7)
    assert (y.is_cuda, x.tolist()) == (False, [1, 1, 1])


@question
def a_tensor_that_is_there_is_returned_itself() -> None:
    x = ones()
    assert x.cuda(1) is x
    assert x.to("cuda:1", copy=True) is not x


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
def two_gpus_do_not_mix() -> None:
    said = error_of(RuntimeError, lambda: ones() * ones(device="cuda:2"))
    assert "cuda:1 and cuda:2" in said


@question
def weights_and_inputs_on_two_devices_do_not_mix() -> None:
    net = nn.Linear(3, 2).cuda(1)
    assert "same device" in error_of(RuntimeError, lambda: net(torch.ones(1, 3)))


@question
def a_number_of_the_cpu_is_taken() -> None:
    y = ones() * torch.tensor(2.0)
    assert (y.device.index, y.tolist()) == (1, [2, 2, 2])


@question
def sparse_tensors_are_refused_in_words() -> None:
    said = error_of(NotImplementedError, lambda: ones(2, 2).to_sparse())
    assert "dense (strided) tensors only" in said


@question
def inductor_is_refused_and_eager_compiles() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    assert torch.compile(double, backend="aot_eager")(ones()).tolist() == [2, 2, 2]
    said = error_of(RuntimeError, lambda: torch.compile(double)(ones()))
    assert "no Inductor: its kernels are Triton's" in said


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
def the_default_device_can_be_one() -> None:
    torch.set_default_device("cuda:2")
    assert torch.zeros(1).device.index == 2


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


@question
def so_is_a_result_that_does_not_fit() -> None:
    x = ones(40 * MIB)
    said = error_of(torch.OutOfMemoryError, lambda: x + x)
    assert "Tried to allocate 160.00 MiB. GPU 1" in said
    assert torch.cuda.memory_allocated(1) == x.nbytes


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
def pinned_memory_is_known_from_other() -> None:
    assert torch.ones(3).pin_memory().is_pinned()
    assert not torch.ones(3).is_pinned()


# -- random numbers --------------------------------------------------------------------------------


@question
def a_seed_gives_the_same_numbers_on_each() -> None:
    drawn = []
    for _ in range(2):
        torch.cuda.manual_seed_all(3)
        drawn.append([torch.rand(4, device=f"cuda:{index}").tolist() for index in (0, 1, 0)])
    assert drawn[0] == drawn[1]
    assert drawn[0][0] == drawn[0][1] != drawn[0][2]


@question
def the_state_has_16_bytes_and_can_be_restored() -> None:
    torch.cuda.manual_seed_all(5)
    state = torch.cuda.get_rng_state(1)
    assert (state.numel(), state.dtype) == (16, torch.uint8)
    first = torch.rand(4, device="cuda:1")
    torch.cuda.set_rng_state(state, 1)
    assert torch.equal(first, torch.rand(4, device="cuda:1"))


@question
def the_cpus_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    torch.rand(4, device="cuda:1")
    functional.dropout(ones(100))
    assert torch.equal(before, torch.get_rng_state())


@question
def a_forked_generator_is_restored() -> None:
    torch.cuda.init()
    before = torch.cuda.get_rng_state(1)
    with torch.random.fork_rng(devices=[1]):
        torch.rand(4, device="cuda:1")
    assert torch.equal(before, torch.cuda.get_rng_state(1))


# -- streams, events -------------------------------------------------------------------------------


@question
def a_stream_is_current_inside_its_block() -> None:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == side
    assert torch.cuda.current_stream() == torch.cuda.default_stream() != side


@question
def events_tell_the_time_between_them() -> None:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    time.sleep(0.02)
    end.record()
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) >= 20
    plain = torch.cuda.Event()
    assert "enable_timing=True" in error_of(ValueError, lambda: plain.elapsed_time(end))


# -- training --------------------------------------------------------------------------------------


@question
def a_model_moves_in_place_with_its_ties() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    weight = net[0].weight
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net.cuda(1)
    assert net[0].weight is net[1].weight is weight
    assert weight.device.index == 1
    before = weight.detach().clone()
    net(ones(1, 3)).sum().backward()
    optimizer.step()
    assert (weight.grad.device.index, torch.equal(weight, before)) == (1, False)


@question
def gradients_are_those_of_the_cpu() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    there, x = copy.deepcopy(net).cuda(1), torch.randn(2, 3, 6, 6)
    assert there[0].weight.device.index == 1
    net(x).square().sum().backward()
    there(x.cuda(1)).square().sum().backward()
    for ours, theirs in zip(there.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad)


@question
def data_parallel_runs_a_replica_on_each() -> None:
    seen: list[int] = []

    class Net(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(x.device.index)
            return super().forward(x)

    net = Net(3, 2).cuda(0)
    x = torch.randn(8, 3, device="cuda")
    result = nn.DataParallel(net)(x)
    result.square().sum().backward()
    assert sorted(seen) == [0, 1, 2, 3]
    assert result.device.index == 0
    gradient = net.weight.grad.clone()
    net.zero_grad()
    net(x).square().sum().backward()
    torch.testing.assert_close(gradient, net.weight.grad)


@question
def a_broadcast_is_a_copy_on_each() -> None:
    first, second = comm.broadcast(ones(device="cuda:0"), [0, 1])
    first.fill_(7)
    assert (second.device.index, second.tolist()) == (1, [1, 1, 1])


@question
def scatter_and_gather_go_there_and_back() -> None:
    x = torch.arange(8.0)
    parts = comm.scatter(x, [0, 1, 2])
    assert [part.device.index for part in parts] == [0, 1, 2]
    assert [part.numel() for part in parts] == [3, 3, 2]
    assert torch.equal(comm.gather(parts, destination=1).cpu(), x)


@question
def autocast_computes_in_half_precision() -> None:
    x = ones(3, 3)
    with torch.autocast("cuda"):
        assert (x @ x).dtype == torch.float16
        assert x.sum().dtype == torch.float32
    assert (x @ x).dtype == torch.float32


@question
def a_scaler_leaves_out_a_step_with_infinities() -> None:
    weight = nn.Parameter(ones(2))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
    scaler.scale((weight * torch.inf).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert (weight.tolist(), scaler.get_scale()) == ([1, 1], 2.0)


@question
def attention_is_that_of_the_cpu() -> None:
    q, k, v = torch.randn(3, 2, 4, 5, 8).unbind()
    ours = functional.scaled_dot_product_attention(q.cuda(), k.cuda(), v.cuda(), is_causal=True)
    theirs = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(ours.cpu(), theirs)


# -- files, processes ------------------------------------------------------------------------------


def saved(x: torch.Tensor) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return file


@question
def a_file_loads_where_it_was_saved() -> None:
    assert torch.load(saved(ones())).device.index == 1


@question
def a_file_loads_where_it_is_told_to() -> None:
    assert torch.load(saved(ones()), map_location="cuda:2").device.index == 2
    assert torch.load(saved(ones()), map_location={"cuda:1": "cpu"}).device.type == "cpu"


@question
def a_pickle_keeps_the_device() -> None:
    x = pickle.loads(pickle.dumps(ones()))
    assert (x.device.index, x.tolist()) == (1, [1, 1, 1])


@question
def a_loaders_batches_are_pinned_and_its_workers_live() -> None:
    ones()  # the workers are forks of a process that has used CUDA
    loader = torch.utils.data.DataLoader(
        torch.arange(6.0),
        batch_size=3,
        num_workers=1,
        pin_memory=True,
        multiprocessing_context="fork",
    )
    batches = list(loader)
    assert [batch.tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5]]
    assert all(batch.is_pinned() for batch in batches)


def in_a_fork(call: Callable[[], object]) -> str:
    """What the call comes to in a fork of this process."""
    mine, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    if os.fork() == 0:
        try:
            theirs.send(f"{call()}")
        except RuntimeError as error:
            theirs.send(f"{type(error).__name__}: {error}")
        os._exit(0)
    os.wait()
    return str(mine.recv())


@question
def use_after_a_fork_is_refused_as_cuda_refuses_it() -> None:
    x = ones()
    assert "Cannot re-initialize CUDA in forked subprocess" in in_a_fork(ones)
    assert "CUDA error: initialization error" in in_a_fork(lambda: x * 2)
    assert (x * 2).tolist() == [2, 2, 2]


@question
def looking_before_a_fork_does_no_harm() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 4
    assert not torch.cuda.is_initialized()
    assert in_a_fork(lambda: ones().sum().item()) == "3.0"


if __name__ == "__main__":
    sys.exit("run by test_cuda_questions.py")
