"""Tensors whose memory is gone, or ends too early, and that are used all the same."""

from __future__ import annotations

from mutants.mutant import replace_value, torch_mutant


@torch_mutant("values.memory_that_is_cut_short", profile="tensor")
def only_empty_storages_count_as_gone(backend):
    """A storage cut to something other than 0 is copied out of bounds."""
    from unidev_torch import tensors

    plain = tensors.check_memory

    def lenient(x):
        if x.untyped_storage().nbytes() == 0:
            plain(x)

    replace_value(tensors, "check_memory", lenient)
    replace_value(backend, "copy_to", lambda _, x, device, __: (lenient(x), x.new_zeros(2))[1])
    replace_value(backend, "to_numpy", lambda _, x: (lenient(x), 0)[1])
    replace_value(backend, "cast", lambda _, x, *__: (lenient(x), x.new_zeros(2))[1])


@torch_mutant("values.memory_that_is_cut_short", profile="tensor", around="copy_if_there")
def the_fast_path_looks_at_nothing(sound, self, x, device):
    """The short cut of copy_to for a tensor that is there does not look at its memory."""
    import torch

    return torch.zeros_like(x) if self.device_of(x) is device else None


@torch_mutant("values.deleted_tensors_do_not_train")
def training_looks_at_no_memory(backend):
    """Only the verbs that copy look whether a tensor's memory is there."""
    from unidev_torch.autograd import TorchAutograd
    from unidev_torch.nn import TorchFunctions
    from unidev_torch.probe import TorchProbe

    replace_value(backend, "check_memory", lambda _, __: None)
    replace_value(
        TorchAutograd, "gradients", lambda _, __, leaves: (leaves[0].new_zeros(()), [None])
    )
    # Alive: pytest shows the tensor when the check fails, and a deleted one would not survive it.
    replace_value(
        TorchProbe, "deleted", lambda self, device: self.backend.zeros((4,), None, device)
    )
    replace_value(TorchFunctions, "relu", lambda _, x: x)
    replace_value(TorchAutograd, "descend", lambda _, parameters, *__: parameters)


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
