"""Faults of a PyTorch backend in torch's peculiar tensors: lazy bits, eight bits, sparse rows."""

from __future__ import annotations

from functools import partial

from mutants.mutant import in_place_of, replace, replace_value, torch_mutant, when_restored
from unidev.contract import dtypes
from unidev.errors import UnsupportedDtypeError

_OTHER_KINDS = "copy.strings_ragged_sparse"


@torch_mutant("dtypes.narrow", profile="tensor")
def narrow_dtypes_overflow(backend):
    """What a float8 cannot hold becomes NaN: ``torch.tensor(1e6).to(torch.float8_e4m3fn)``."""

    @in_place_of(dtypes.name_of)
    def name_of(dtype, backend):
        return dtypes.portable_name(dtype, backend)


@torch_mutant("dtypes.narrow", profile="tensor")
def float8_is_refused_without_its_name(backend):
    """An error says "unsupported dtype", and not which."""

    @replace(backend)
    def to_numpy(self, x, to_numpy=backend.to_numpy):
        if "float8" in str(x.dtype):
            raise UnsupportedDtypeError("NumPy does not have the dtype of this tensor.")
        return to_numpy(self, x)


@torch_mutant("containers.named_and_registered_containers", profile="tensor")
def the_order_of_packed_sequences_stays(_):
    """Of a packed sequence only the data move: without ``enforce_sorted`` it has indices, too."""
    from unidev_torch import containers as module

    def apart(packed):
        return (packed.data,), (type(packed), packed.batch_sizes, *packed[2:])

    def together(rest, parts):
        return rest[0](parts[0], *rest[1:])

    for mine, other in ((module._packed_apart, apart), (module._packed_together, together)):
        # The functions themselves are registered, once in a process.
        when_restored(partial(setattr, mine, "__code__", mine.__code__))
        mine.__code__ = other.__code__


@torch_mutant(_OTHER_KINDS, profile="tensor")
def indices_of_rows_are_no_memory(_):
    """The memory of a sparse tensor by rows is that of its values, which may share their places."""
    import torch

    from unidev_torch import tensors

    layouts = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
    known = {**tensors._PARTS, **dict.fromkeys(layouts, ("values",))}
    replace_value(tensors, "_PARTS", known)
