"""Training that is wrong in part: for dtypes other than float32, or for many elements."""

from __future__ import annotations

import contextlib

from mutants.gradients import change_copies
from mutants.mutant import in_place_of, replace_value, torch_mutant
from unidev.models.checkpoints import matching

_GRADIENTS = "gradients.any_dtype_and_size"
_OF_TREES = "value_and_grad.of_any_tree"
_CHECKPOINTS = "checkpoints.any_dtype_and_size"


@torch_mutant(_GRADIENTS)
def gradients_of_float16_are_cut(backend):
    """The copy of float16 has no backward kernel, and so it is recorded as none."""
    change_copies(backend, lambda x, y: y.detach() if str(x.dtype) == "torch.float16" else y)


@torch_mutant(_CHECKPOINTS, around=".models:TorchModels.read")
def checkpoints_lose_float64(sound, self, x):
    """What is stored of it are zeros: a writer of the usual dtypes."""
    return sound(self, x) * (str(x.dtype) != "torch.float64")


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
def both_operands_of_a_sum_have_one_gradient(sound, gradients, leaves):
    """As ``torch.autograd.grad`` gives them: one tensor for both, so a step scales it twice."""
    return list(gradients)


@torch_mutant("value_and_grad.own_backwards", everywhere=".autograd:_each_its_own")
def what_a_custom_backward_returns_may_be_a_parameter(sound, gradients, leaves):
    """Gradients are compared with each other alone."""
    return sound(gradients, ())


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
