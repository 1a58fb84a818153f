"""Libraries that only pretend to be CUDA, as mutants: each lies once, as such libraries do.

A liar patches a torch that is imported, and has the questions that find it out.
"""
# mypy: disable-error-code="method-assign, assignment, misc"

from __future__ import annotations

import contextlib
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.parallel import comm

if TYPE_CHECKING:
    from collections.abc import Callable

LIARS: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {}
Tensor, Cuda = torch.Tensor, torch.cuda


def caught_by(*questions: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Add a liar under its function's name."""

    def add(lie: Callable[[], None]) -> Callable[[], None]:
        LIARS[lie.__name__] = lie, questions
        return lie

    return add


def always(value: Any) -> Callable[..., Any]:
    """A function that has one answer."""
    return lambda *_, **__: value


def set_in(owner: Any, name: str, value: Any) -> None:
    """As ``owner.name = value``; mypy knows that none of these is to be replaced."""
    setattr(owner, name, value)


REPLACED: tuple[tuple[str, Any, str, Any], ...] = (
    ("a_copy_to_the_gpu_shares_no_byte", Tensor, "cuda", lambda self, *_, **__: self),
    ("assignment_takes_indices_from_anywhere",
     Tensor, "__getitem__", lambda self, index: self.index_select(0, index.to(self.device))),
    ("sparse_tensors_are_on_it_with_their_parts",
     Tensor, "to_sparse", lambda self, **_: self.clone()),
    ("there_are_as_many_as_were_asked_for visible_devices_are_cudas_choice",
     Cuda, "device_count", always(1)),
    ("visible_devices_are_read_at_the_first_use",
     Cuda, "device_count", lambda: min(4, len(Cuda._parse_visible_devices()))),
    ("names_say_that_they_are_simulated", Cuda, "get_device_name", always("NVIDIA H100 80GB HBM3")),
    ("capability_and_memory_are_those_that_were_asked_for",
     Cuda, "get_device_capability", always((8, 0))),
    ("no_library_is_misled_about_a_toolkit", torch.version, "cuda", "12.8"),
    ("cuda_without_a_number_is_the_current_device",
     Cuda, "device", lambda _: contextlib.nullcontext()),
    ("a_device_that_is_not_there_is_cudas_own_error", Cuda, "set_device", always(None)),
    ("none_can_be_visible", Cuda, "is_available", always(True)),
    ("the_accelerator_is_cuda", torch.accelerator, "current_accelerator", always(None)),
    ("memory_is_counted_and_given_back", Cuda, "memory_allocated", always(0)),
    ("the_peak_is_kept_until_it_is_reset", Cuda, "reset_peak_memory_stats", always(None)),
    ("free_and_total_are_of_the_limit", Cuda, "mem_get_info", always((256 << 20, 256 << 20))),
    ("so_is_a_result_that_does_not_fit so_is_one_that_the_host_has_no_room_for",
     Tensor, "__add__", lambda a, _: a),
    ("after_it_the_program_goes_on", Cuda, "memory_stats", always({"num_ooms": 0})),
    ("a_process_may_have_a_fraction", Cuda, "set_per_process_memory_fraction", always(None)),
    ("new_memory_is_filled_where_algorithms_are_deterministic", torch, "empty", torch.zeros),
    ("what_waits_for_the_gpu_is_refused_or_warned_of", Cuda, "set_sync_debug_mode", always(None)),
    ("pinned_memory_is_known_from_other", Tensor, "is_pinned", always(True)),
    ("a_seed_gives_the_same_numbers_on_each", Cuda, "manual_seed_all", always(None)),
    ("the_state_has_16_bytes_and_can_be_restored",
     Cuda, "get_rng_state", lambda *_: torch.get_rng_state()),
    ("a_forked_generator_is_restored",
     torch.random, "fork_rng", lambda **_: contextlib.nullcontext()),
    ("a_stream_is_current_inside_its_block", Cuda, "stream", lambda _: contextlib.nullcontext()),
    ("events_tell_the_time_between_them", Cuda.Event, "elapsed_time", always(0.0)),
    ("normalizing_layers_take_weights_of_the_inputs_precision",
     nn.LayerNorm, "forward", lambda _, x: nn.functional.layer_norm(x, [4])),
    ("matrices_are_factored_by_cudas_drivers",
     torch.linalg, "svdvals", lambda a, driver="": a.sum() + len(driver)),
    ("data_parallel_runs_a_replica_on_each",
     nn.DataParallel, "forward", lambda self, x: self.module(x)),
    ("a_broadcast_is_a_copy_on_each",
     comm, "broadcast", lambda tensor, devices: [tensor] * len(devices)),
    ("scatter_and_gather_go_there_and_back",
     comm, "scatter", lambda tensor, devices: tensor.chunk(len(devices))),
    ("autocast_computes_in_half_precision",
     torch, "autocast", lambda *_, **__: contextlib.nullcontext()),
    ("a_scaler_leaves_out_a_step_with_infinities",
     torch.amp.GradScaler, "step", lambda _, optimizer: optimizer.step()),
    ("padded_positions_of_an_encoder_are_zero",
     torch, "_nested_tensor_from_mask_left_aligned", always(False)),
    ("a_loaders_batches_are_pinned_and_its_workers_live",
     torch.utils.data._utils.pin_memory, "pin_memory", lambda data, *_: data),
    ("use_after_a_fork_is_refused_as_cuda_refuses_it", Cuda, "_lazy_init", always(None)),
)  # fmt: skip
"""The questions that find out the lie, and what is replaced by what."""
for _questions, *_replaced in REPLACED:
    LIARS[_questions] = partial(set_in, *_replaced), tuple(_questions.split())


@caught_by("overlapping_memory_is_refused_as_on_the_cpu")
def what_is_copied_has_memory_of_its_own() -> None:
    exact = Tensor.copy_
    set_in(Tensor, "copy_", lambda self, x, *a: exact(self, x.clone() if x.is_cuda else x, *a))


@caught_by("numpy_does_not_see_the_devices_memory")
def numpy_is_given() -> None:
    numpy = Tensor.numpy
    set_in(Tensor, "numpy", lambda self: numpy(self.cpu()))


@caught_by("other_libraries_get_no_pointer")
def pointers_are_given() -> None:
    dlpack = Tensor.__dlpack__
    set_in(Tensor, "__dlpack__", lambda self: dlpack(self.cpu()))


@caught_by("the_cpu_and_a_gpu_do_not_mix")
def operands_are_moved() -> None:
    for name in ("__add__", "__mul__"):
        own = getattr(Tensor, name)
        set_in(Tensor, name, lambda a, b, own=own: own(a, b.to(a.device)))


@caught_by("weights_and_inputs_on_two_devices_do_not_mix")
def layers_move_their_inputs() -> None:
    forward = nn.Linear.forward
    set_in(nn.Linear, "forward", lambda self, x: forward(self, x.to(self.weight.device)))


@caught_by("a_number_of_the_cpu_is_taken")
def numbers_pull_results_to_the_cpu() -> None:
    multiply = Tensor.__mul__
    set_in(Tensor, "__mul__", lambda a, b: multiply(a.cpu(), b.cpu()))


@caught_by("an_operator_with_a_device_check_takes_no_number")
def indices_are_moved() -> None:
    gather = Tensor.gather
    set_in(Tensor, "gather", lambda self, dim, index: gather(self, dim, index.to(self.device)))


@caught_by("a_new_thread_starts_on_the_first")
def threads_share_a_current_device() -> None:
    own, current = Cuda.set_device, [0]
    set_in(Cuda, "set_device", lambda index: (current.__setitem__(0, index), own(index)))
    set_in(Cuda, "current_device", lambda: current[0])


@caught_by("a_tensor_shows_where_it_is")
def tensors_look_like_the_cpus() -> None:
    own = Tensor.__repr__
    set_in(Tensor, "__repr__", lambda self, **_: own(self.cpu()))


@caught_by("each_counts_its_own")
def all_count_together() -> None:
    own = Cuda.memory_allocated
    set_in(Cuda, "memory_allocated", lambda *_: sum(own(index) for index in range(4)))


@caught_by("too_much_is_cudas_own_error_with_its_numbers")
def too_much_goes_to_the_host() -> None:
    own = torch.empty
    set_in(torch, "empty", lambda *size, device=None: own(0, device=device))


@caught_by("a_storage_can_be_on_it")
def storages_are_the_cpus() -> None:
    own = torch.UntypedStorage.__new__
    set_in(torch.UntypedStorage, "__new__", lambda cls, size, **_: own(cls, size))


@caught_by("a_state_is_contiguous_bytes_of_the_cpu")
def states_are_brought_to_the_cpu() -> None:
    own = Cuda.set_rng_state
    set_in(Cuda, "set_rng_state", lambda state, *index: own(state.cpu().contiguous(), *index))


@caught_by("a_generator_of_the_cpu_is_refused")
def any_generator_is_taken() -> None:
    own = torch.rand
    set_in(torch, "rand", lambda *size, device, **_: own(*size, device=device))


@caught_by("complex_solutions_are_those_of_the_cpu")
def solutions_are_conjugated() -> None:
    own = torch.linalg.lu_solve
    set_in(torch.linalg, "lu_solve", lambda *given, **named: own(*given, **named).conj())


@caught_by("the_cpus_generator_is_left_alone")
def numbers_are_drawn_on_the_cpu() -> None:
    own = torch.rand
    set_in(torch, "rand", lambda *size, device="cpu": own(*size).to(device))


@caught_by("softmax_of_half_precision_is_computed_in_float32")
def softmax_stays_in_half_precision() -> None:
    own = nn.functional.softmax
    set_in(nn.functional, "softmax", lambda x, dim: own(x, dim=dim).to(x.dtype))


@caught_by("attention_is_that_of_the_cpu")
def attention_sees_the_future() -> None:
    own = nn.functional.scaled_dot_product_attention
    set_in(
        nn.functional, "scaled_dot_product_attention",
        lambda q, k, v, is_causal: own(q, k, v, is_causal=is_causal and not q.is_cuda),
    )  # fmt: skip


@caught_by("a_file_loads_where_it_was_saved", "a_file_loads_where_it_is_told_to")
def files_load_on_the_cpu() -> None:
    own = torch.load
    set_in(torch, "load", lambda file, **_: own(file, map_location="cpu"))


@caught_by("a_pickle_keeps_the_device")
def pickles_are_the_cpus() -> None:
    own = Tensor.__reduce_ex__
    set_in(Tensor, "__reduce_ex__", lambda self, protocol: own(self.cpu(), protocol))


@caught_by("a_loaders_workers_send_tensors_of_a_gpu")
def workers_send_tensors_of_the_cpu() -> None:
    own = torch.multiprocessing.reductions.reduce_tensor
    ForkingPickler.register(Tensor, lambda tensor: own(tensor.cpu()))


@caught_by("looking_before_a_fork_does_no_harm")
def looking_uses_the_device() -> None:
    def is_available() -> bool:
        torch.ones(1, device="cuda")
        return True

    set_in(Cuda, "is_available", is_available)
