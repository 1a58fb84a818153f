"""Training that is wrong in part: for dtypes other than float32, or for many elements."""

from __future__ import annotations

from typing import Any

from mutants.autograd import change_copies
from mutants.mutant import Mutant, replace, torch_mutant

_GRADIENTS = "gradients.any_dtype_and_size"
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
