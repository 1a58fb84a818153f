"""Host arrays that are shared, or left on the host."""

from __future__ import annotations

import numpy as np

from mutants.mutant import around, mutant, replace_value
from unidev.tensors import containers, host_data
from unidev.tensors.transfer import copied


@mutant("host_data.put_host_arrays", around="unidev.tensors.host_data:uploader")
def only_aligned_host_arrays_aliased(sound, operation, target):
    """Memory is shared where an array happens to be aligned to 64 bytes: JAX on the CPU."""
    upload = sound(operation, target)

    def upload_unless_aligned(data):
        is_shared = target.kind == "cpu" and data.ctypes.data % 64 == 0
        return data if is_shared else upload(data)

    return upload_unless_aligned


@mutant("host_data.put_host_arrays", simulated_count=0)
def a_column_of_times_fails_the_batch(backend):
    """As tensors have no such dtype: ``torch.as_tensor`` of a table's columns."""
    replace_value(host_data, "_NO_NUMBERS", "OSUT")


@mutant("host_data.put_tensors")
def arrays_beside_tensors_stay(backend):
    """Where a batch holds tensors, its arrays stay on the host: accelerate's ``send_to_device``."""

    def stays(x):
        return type(x).__module__ == "numpy"

    @around(containers.Opened)
    def mapped(sound, self, put):
        has_others = not all(stays(x) for x, _ in self.tensors)
        return sound(self, lambda x, owner: x if has_others and stays(x) else put(x, owner))


@mutant("host_data.put_tensors", around="is_bound")
def tensors_that_are_there_are_copied(sound, self, x, device):
    """A tensor that is on the device already is copied once more: ``torch.tensor(x)``."""
    return False


@mutant("host_data.put_dtype", around="unidev.tensors.host_data:array_of_tensor")
def only_arrays_get_the_dtype(sound, operation, x, dtype, target, backend):
    """Tensors go as they are: a batch has float32 beside float64."""
    return copied(operation, x, target, backend)


@mutant("host_data.get", around="unidev.tensors.host_data:read")
def got_arrays_are_shared(sound, operation, x, backend, *, is_explicit):
    """``device_get`` gives the tensor's own memory: ``x.numpy()``, ``np.asarray``."""
    return x.view(np.ndarray)
