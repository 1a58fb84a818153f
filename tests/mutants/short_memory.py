"""Tensors whose memory is gone, or ends too early, and that are used all the same."""

from __future__ import annotations

from mutants.mutant import replace_value, torch_mutant


@torch_mutant("values.memory_that_is_cut_short", profile="tensor", around="copy_if_there")
def the_fast_path_looks_at_nothing(sound, self, x, device):
    """The short cut of copy_to for a tensor that is there does not look at its memory."""
    import torch

    return torch.zeros_like(x) if self.device_of(x) is device else None


@torch_mutant("values.deleted_tensors_do_not_train")
def the_quick_look_at_training_sees_nothing(backend):
    """Looking at many tensors at once finds the memory of each, and a gradient that fits."""
    import torch

    from unidev_torch.autograd import TorchAutograd
    from unidev_torch.probe import TorchProbe

    class Unshown(torch.Tensor):
        """pytest shows the tensor when the check fails, and a plain one would not survive it."""

        def __repr__(self, **_):
            return "deleted"

    def deleted(self, device):
        x = torch.ones(4, device=device.native)
        x.untyped_storage().resize_(0)
        return x.as_subclass(Unshown)

    replace_value(TorchProbe, "deleted", deleted)
    replace_value(backend, "have_memory", lambda *_: True)
    replace_value(TorchAutograd, "match", lambda *_: True)
    replace_value(TorchAutograd, "descend", lambda _, parameters, *__: parameters)
    replace_value(
        TorchAutograd, "gradients", lambda _, __, leaves: (leaves[0].new_zeros(()), [None])
    )


@torch_mutant("value_and_grad.sgd_refuses_what_does_not_fit")
def the_quick_look_sees_no_shapes(backend):
    """A gradient of another shape, which PyTorch would broadcast, passes for one that fits."""
    from unidev_torch.autograd import TorchAutograd

    replace_value(TorchAutograd, "match", lambda *_: True)
