"""Training that is wrong in part: for dtypes other than float32, or for many elements."""

from __future__ import annotations

import contextlib
from typing import Any

from mutants.gradients import change_copies
from mutants.mutant import Mutant, in_place_of, replace, replace_value, torch_mutant
from unidev.models.checkpoints import matching

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


@torch_mutant(
    "value_and_grad.of_a_tensor",
    "value_and_grad.of_a_container",
    around=".autograd:TorchAutograd.leaf",
)
def functions_get_arrays(sound, self, x):
    """The function is handed NumPy's view of the tensor, which is none of the framework's."""
    return x.detach().cpu().numpy()


@torch_mutant(_CHECKPOINTS, everywhere="unidev.models.checkpoints.verbs:_write")
def tensors_beyond_sixteen_are_not_loaded(sound, slots, entries, *others):
    """A table of so many entries, and whatever comes later keeps its values."""
    sound(slots[:16], entries[:16], *others)


@torch_mutant(_CHECKPOINTS)
def names_are_trimmed(backend):
    """White space at the ends of a name is not stored."""

    slots_of = matching.slots_of

    @in_place_of(slots_of)
    def trimmed(backend, model):
        return [
            slot._replace(entry=slot.entry._replace(name=slot.entry.name.strip()))
            for slot in slots_of(backend, model)
        ]


@torch_mutant(_OF_TREES, everywhere=".autograd:_each_its_own")
def both_operands_of_a_sum_have_one_gradient(sound, gradients):
    """As ``torch.autograd.grad`` gives them: one tensor for both, so a step scales it twice."""
    return list(gradients)


@torch_mutant("gradients.no_grad_records_nothing")
def no_grad_ends_with_the_inner_scope(backend):
    """The end of a scope turns recording on, whatever it was before."""
    import torch

    from unidev_torch.autograd import TorchAutograd

    @contextlib.contextmanager
    def scope(self):
        torch.set_grad_enabled(False)
        try:
            yield
        finally:
            torch.set_grad_enabled(True)

    replace_value(TorchAutograd, "no_grad", scope)


@torch_mutant("value_and_grad.of_any_tree", around=".autograd:TorchAutograd.gradients_as_made")
def gradients_of_sums_are_one_element(sound, self, loss_of, leaves, made):
    """As torch gives them, expanded: the first write to one raises, or is to all."""
    loss, found = sound(self, loss_of, leaves, made)
    ones = [x is not None and x.numel() > 1 and bool((x == 1).all()) for x in found]
    pairs = zip(found, ones, strict=True)
    return loss, [x.flatten()[0].clone().expand(x.shape) if one else x for x, one in pairs]


@torch_mutant("value_and_grad.sgd_is_exact", around=".autograd:TorchAutograd.descend")
def rates_are_rounded_to_float32(sound, self, parameters, gradients, lr):
    """A rate that is a tensor of the default dtype, whatever the parameters' is."""
    import torch

    return sound(self, parameters, gradients, float(torch.tensor(lr)))
