"""Training that is wrong in part: for dtypes other than float32, or for many elements."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from mutants.autograd import change_copies
from mutants.gradients import change_slopes
from mutants.mutant import Mutant, in_place_of, replace, replace_value, torch_mutant

if TYPE_CHECKING:
    from collections.abc import Iterator

_GRADIENTS = "gradients.any_dtype_and_size"
_OF_TREES = "value_and_grad.of_any_tree"
_CHECKPOINTS = "checkpoints.any_dtype_and_size"


def _cuts_one_dtype(name: str) -> Mutant:
    def breaks(backend: Any) -> None:
        change_copies(backend, lambda x, y: y.detach() if str(x.dtype) == f"torch.{name}" else y)

    breaks.__name__ = f"gradients_of_{name}_are_cut"
    breaks.__doc__ = f"The copy of {name} has no backward kernel, and so it is recorded as none."
    return torch_mutant(_GRADIENTS)(breaks)


gradients_of_float16_are_cut = _cuts_one_dtype("float16")
gradients_of_bfloat16_are_cut = _cuts_one_dtype("bfloat16")
gradients_of_float64_are_cut = _cuts_one_dtype("float64")
gradients_of_complex64_are_cut = _cuts_one_dtype("complex64")


@torch_mutant(_GRADIENTS)
def gradients_are_scaled_beyond_64_elements(backend: Any) -> None:
    """A reduction in blocks of 64 counts each block twice."""

    def scaled(x: Any, y: Any) -> Any:
        if y.requires_grad and y.numel() > 64:
            y.register_hook(lambda gradient: gradient * 2)
        return y

    change_copies(backend, scaled)


def _loses_one_dtype(name: str) -> Mutant:
    def breaks(backend: Any) -> None:
        import numpy as np

        from unidev_torch.models import TorchModels

        read_all = TorchModels.read

        @replace(TorchModels)
        def read(self: Any, x: Any) -> Any:
            values = read_all(self, x)
            return np.zeros_like(values) if str(x.dtype) == f"torch.{name}" else values

    breaks.__name__ = f"checkpoints_lose_{name}"
    breaks.__doc__ = f"What is stored of {name} are zeros: a writer of the usual dtypes."
    return torch_mutant(_CHECKPOINTS)(breaks)


checkpoints_lose_float64 = _loses_one_dtype("float64")
checkpoints_lose_float16 = _loses_one_dtype("float16")
checkpoints_lose_int32 = _loses_one_dtype("int32")
checkpoints_lose_bool = _loses_one_dtype("bool")
checkpoints_lose_complex64 = _loses_one_dtype("complex64")


@torch_mutant(_CHECKPOINTS)
def large_tensors_are_loaded_in_part(backend: Any) -> None:
    """The first 5,000 elements are written: a staging buffer of that size."""
    from unidev_torch.models import TorchModels

    write_all = TorchModels.write

    @replace(TorchModels)
    def write(self: Any, x: Any, values: Any) -> None:
        if x.numel() <= 5000:
            write_all(self, x, values)
        else:
            write_all(self, x.view(-1)[:5000], values.reshape(-1)[:5000])


@torch_mutant("value_and_grad.of_a_tensor", "value_and_grad.of_a_container")
def functions_get_arrays(backend: Any) -> None:
    """The function is handed NumPy's view of the tensor, which is none of the framework's."""
    from unidev_torch.autograd import TorchAutograd

    @replace(TorchAutograd)
    def leaf(self: Any, x: Any) -> Any:
        return x.detach().cpu().numpy()


@torch_mutant(_CHECKPOINTS)
def numbers_without_axes_are_stored_with_one(backend: Any) -> None:
    """A step counter of shape ``()`` is in the file as ``(1,)``: ``numpy.atleast_1d``."""
    from unidev.models.checkpoints import matching

    slots_of = matching.slots_of

    @in_place_of(slots_of)
    def with_an_axis(backend: Any, model: Any) -> Any:
        return [
            slot._replace(entry=slot.entry._replace(shape=slot.entry.shape or (1,)))
            for slot in slots_of(backend, model)
        ]


@torch_mutant(_CHECKPOINTS)
def integers_are_stored_as_doubles(backend: Any) -> None:
    """By way of float64, which has no 2**53 + 1: a writer for MATLAB."""
    from unidev_torch.models import TorchModels

    read_all = TorchModels.read

    @replace(TorchModels)
    def read(self: Any, x: Any) -> Any:
        values = read_all(self, x)
        return values.astype("float64").astype("int64") if values.dtype == "int64" else values


@torch_mutant(_CHECKPOINTS)
def tensors_beyond_sixteen_are_not_loaded(backend: Any) -> None:
    """A table of so many entries, and whatever comes later keeps its values."""
    from unidev.models.checkpoints import verbs

    sound = verbs._write

    @in_place_of(sound)
    def write(slots: Any, entries: Any, *others: Any) -> None:
        sound(slots[:16], entries[:16], *others)


@torch_mutant(_CHECKPOINTS)
def names_are_trimmed(backend: Any) -> None:
    """White space at the ends of a name is not stored."""
    from unidev.models.checkpoints import matching

    slots_of = matching.slots_of

    @in_place_of(slots_of)
    def trimmed(backend: Any, model: Any) -> Any:
        return [
            slot._replace(entry=slot.entry._replace(name=slot.entry.name.strip()))
            for slot in slots_of(backend, model)
        ]


@torch_mutant(_OF_TREES)
def both_operands_of_a_sum_have_one_gradient(backend: Any) -> None:
    """As ``torch.autograd.grad`` gives them: one tensor for both, so a step scales it twice."""
    from unidev_torch import autograd

    @in_place_of(autograd._each_its_own)
    def _each_its_own(gradients: Any) -> Any:
        return list(gradients)


@torch_mutant(_OF_TREES)
def gradients_beyond_sixteen_are_zeros(backend: Any) -> None:
    """The first sixteen leaves are differentiated: a fused kernel's list of arguments."""
    change_slopes(lambda slope, number: slope * (number < 16))


@torch_mutant(_OF_TREES)
def gradients_are_of_float32(backend: Any) -> None:
    """Whatever the parameter's dtype: an accumulator's."""
    change_slopes(lambda slope, number: slope.float())


@torch_mutant("gradients.no_grad_records_nothing")
def no_grad_ends_with_the_inner_scope(backend: Any) -> None:
    """The end of a scope turns recording on, whatever it was before."""
    import torch

    from unidev_torch.autograd import TorchAutograd

    @contextlib.contextmanager
    def scope(self: Any) -> Iterator[None]:
        torch.set_grad_enabled(False)
        try:
            yield
        finally:
            torch.set_grad_enabled(True)

    replace_value(TorchAutograd, "no_grad", scope)
