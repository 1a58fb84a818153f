"""The rest of the questions: random numbers, streams, training, files and processes."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import time
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from cuda_questions import error_of, ones, question

# isort: split
import torch
from torch import nn
from torch.nn import functional
from torch.nn.parallel import comm

if TYPE_CHECKING:
    from collections.abc import Callable


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
def a_state_is_contiguous_bytes_of_the_cpu() -> None:
    state = torch.cuda.get_rng_state()
    wrong = {
        "RNG state must be a torch.ByteTensor": [state.cuda(), state.view(torch.int64)],
        "RNG state must be contiguous": [torch.zeros(32, dtype=torch.uint8)[::2]],
        "RNG state is wrong size": [torch.zeros(17, dtype=torch.uint8)],
        "offset must be a multiple of 4": [torch.tensor([0, 5]).view(torch.uint8)],
    }
    for words, states in wrong.items():
        kind = TypeError if "ByteTensor" in words else RuntimeError
        for each, setter in product(
            states, (torch.Generator("cuda").set_state, torch.cuda.set_rng_state)
        ):
            assert error_of(kind, partial(setter, each)).startswith(words)


@question
def a_generator_of_the_cpu_is_refused() -> None:
    said = error_of(RuntimeError, lambda: torch.rand(2, device="cuda", generator=torch.Generator()))
    assert said == "Expected a 'cuda' device type for generator but found 'cpu'"


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
def softmax_of_half_precision_is_computed_in_float32() -> None:
    for layer in (nn.functional.softmax, nn.functional.log_softmax):
        plain = torch.tensor([[1.0, 2.0, 4.0]], requires_grad=True)
        layer(plain, dim=1).square().sum().backward()
        assert plain.grad is not None
        for half in (torch.float16, torch.bfloat16):
            x = plain.detach().to("cuda", half).requires_grad_()
            with torch.autocast("cuda", dtype=half):
                found = layer(x, dim=1)
            found.square().sum().backward()
            assert x.grad is not None
            assert (found.dtype, x.grad.dtype) == (torch.float32, half)
            assert torch.allclose(found.cpu(), layer(plain, dim=1))
            assert torch.allclose(x.grad.cpu().float(), plain.grad, rtol=1e-2, atol=1e-3)
        outside = layer(plain.detach().to("cuda", torch.float16), dim=1)
        assert outside.dtype == torch.float16


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
def complex_solutions_are_those_of_the_cpu() -> None:
    a, b = torch.randn(3, 3, dtype=torch.complex64), torch.randn(2, 3, dtype=torch.complex64)
    found = torch.linalg.lu_solve(*torch.linalg.lu_factor(a.cuda(1)), b.cuda(1), left=False)
    torch.testing.assert_close((found @ a.cuda(1)).cpu(), b)


@question
def normalizing_layers_take_weights_of_the_inputs_precision() -> None:
    """CUDA's kernels do, and keep statistics in float32; the CPU's take float32 for half, too."""
    x = torch.randn(2, 4, device="cuda:1").half().requires_grad_()
    for layer in (nn.LayerNorm(4).cuda(1), nn.GroupNorm(2, 4).cuda(1)):
        said = error_of(RuntimeError, partial(layer, x))
        assert said == "expected scalar type Half but found Float"
        result = layer.half()(x)
        result.square().sum().backward()
        exact = layer.float()(x.float())
        assert (result.dtype, result.tolist()) == (torch.half, exact.half().tolist())
        assert (x.grad.dtype, layer.weight.grad.dtype) == (torch.half, torch.float)
    _, *statistics = torch.native_layer_norm(x, [4], None, None, 1e-5)
    assert [each.dtype for each in statistics] == [torch.float] * 2


@question
def matrices_are_factored_by_cudas_drivers() -> None:
    """By gels alone, without a rank; by cuSOLVER's names; without pivots, which LAPACK lacks."""
    a, linalg = torch.randn(2, 4, 3, device="cuda:1"), torch.linalg
    found = linalg.lstsq(a, ones(2, 4, 1))
    torch.testing.assert_close(found.solution, linalg.pinv(a) @ ones(2, 4, 1))
    assert found.rank.numel() == found.singular_values.numel() == 0
    said = error_of(RuntimeError, lambda: linalg.lstsq(a, ones(2, 4, 1), driver="gelsd"))
    assert "`driver` other than `gels` is not supported on CUDA" in said
    for driver in ("gesvd", "gesvdj", "gesvda"):
        torch.testing.assert_close(linalg.svdvals(a, driver=driver), linalg.svdvals(a))
    assert "unknown svd driver" in error_of(RuntimeError, lambda: linalg.svd(a, driver="gelsd"))
    for each in (a, a.mT):
        none, lower, upper = linalg.lu(each, pivot=False)
        assert none.numel() == 0
        torch.testing.assert_close(lower @ upper, each)
    square = torch.tensor([[4.0, 2], [2, 3]], device="cuda:1")
    both, pivots = linalg.lu_factor(square, pivot=False)
    assert (both.tolist(), pivots.tolist()) == ([[4, 2], [0.5, 2]], [1, 2])


@question
def padded_positions_of_an_encoder_are_zero() -> None:
    """Which packs what is not padded into a nested tensor, without gradients."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    x, padded = torch.randn(2, 4, 8), torch.tensor([[False] * 3 + [True], [False] * 4])
    with torch.no_grad():
        expected = encoder(x, src_key_padding_mask=padded)
        found = encoder.cuda(1)(x.cuda(1), src_key_padding_mask=padded.cuda(1))
    assert found[0, 3].tolist() == [0] * 8
    torch.testing.assert_close(found.cpu(), expected)


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


@question
def a_loaders_workers_send_tensors_of_a_gpu() -> None:
    loader = torch.utils.data.DataLoader(
        torch.arange(4.0),
        batch_size=2,
        collate_fn=lambda rows: torch.stack(rows).to("cuda:1"),
        num_workers=1,
        multiprocessing_context="fork",
        timeout=60,
    )
    batches = list(loader)
    assert [batch.tolist() for batch in batches] == [[0, 1], [2, 3]]
    assert [batch.device.index for batch in batches] == [1, 1]


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
    for first in (ones, lambda: torch.cuda.set_device(1)):  # launchers that fork begin by this one
        assert "Cannot re-initialize CUDA in forked subprocess" in in_a_fork(first)
    assert "CUDA error: initialization error" in in_a_fork(lambda: x * 2)
    assert (x * 2).tolist() == [2, 2, 2]


@question
def looking_before_a_fork_does_no_harm() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 4
    assert not torch.cuda.is_initialized()
    assert in_a_fork(lambda: ones().sum().item()) == "3.0"
