"""NumPy backends that are right for plain arrays, and wrong for masked, read-only, swapped ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from mutants.mutant import mutant, replace

_OTHER_KINDS = "copy.strings_ragged_sparse"
_MIB = 2**20
_RESULTS_ARE_NAMED = type(np.linalg.svd(np.eye(2))) is not tuple  # from NumPy 1.25 on


@mutant("errors.tensors_on_different_devices", everywhere=".simulated_array:_collect")
def numbers_mix_devices(collect, value, found):
    """Arrays without dimensions are taken for numbers: torch's rule for those on the CPU."""
    if not (isinstance(value, np.ndarray) and value.ndim == 0):
        collect(value, found)


@mutant(_OTHER_KINDS, around="copy_to")
def masks_are_shared(copy, self, x, device, non_blocking):
    """A masked array's copy has its source's mask: ``numpy.ma.array(x, copy=True)`` keeps it."""
    if not isinstance(x, np.ma.MaskedArray):
        return copy(self, x, device, non_blocking)
    made = np.ma.MaskedArray(x.data.copy(), fill_value=x.fill_value)
    made._mask = x._mask
    return made


if _RESULTS_ARE_NAMED:

    @mutant("containers.named_and_registered_containers")
    def a_field_of_a_result_stays(backend: Any) -> None:
        """The result of ``svd`` is registered as a container, and an array of it is forgotten."""
        result = type(np.linalg.svd(np.eye(2)))
        backend.containers = {
            result: (lambda found: (found[:2], found[2]), lambda last, parts: result(*parts, last))
        }


@mutant("copy.non_blocking")
def large_copies_read_their_source_later(backend):
    """From 1 MiB on, a thread makes the copy, and the source is no longer what it was."""
    import threading
    import time

    copy, pending = backend.copy_to, []

    @replace(backend)
    def copy_to(self, x, device, non_blocking):
        if not non_blocking or x.nbytes < _MIB or device.kind == "cpu":
            return copy(self, x, device, non_blocking)
        made = self.empty(x.shape, x.dtype, device)

        def work():
            time.sleep(0.05)  # other work is queued before it
            made.view(np.ndarray)[...] = x.view(np.ndarray)

        pending.append(threading.Thread(target=work))
        pending[-1].start()
        return made

    @replace(backend)
    def synchronize(self, device):
        while pending:
            pending.pop().join()
