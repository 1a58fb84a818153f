"""Host arrays that are shared, or left on the host."""

from __future__ import annotations

from typing import Any

from mutants.mutant import mutant, replace, replace_value


@mutant("host_data.put_host_arrays", simulated_count=0)
def host_array_aliased_on_the_cpu(backend: Any) -> None:
    """On the CPU nothing is copied: ``torch.from_numpy``, JAX's ``device_put``."""
    from unidev.tensors import host_data

    sound = host_data.uploader

    @replace(host_data)
    def uploader(operation: str, target: Any) -> Any:
        return (lambda data: data) if target.kind == "cpu" else sound(operation, target)


@mutant("host_data.put_host_arrays")
def only_aligned_host_arrays_aliased(backend: Any) -> None:
    """Memory is shared where an array happens to be aligned to 64 bytes: JAX on the CPU."""
    from unidev.tensors import host_data

    sound = host_data.uploader

    @replace(host_data)
    def uploader(operation: str, target: Any) -> Any:
        upload = sound(operation, target)

        def upload_unless_aligned(data: Any) -> Any:
            is_shared = target.kind == "cpu" and data.ctypes.data % 64 == 0
            return data if is_shared else upload(data)

        return upload_unless_aligned


@mutant("host_data.put_tensors")
def arrays_beside_tensors_stay(backend: Any) -> None:
    """Where a batch holds tensors, its arrays stay on the host: accelerate's ``send_to_device``."""
    from unidev.tensors import containers

    sound = containers.Opened.mapped

    def stays(x: Any) -> bool:
        return type(x).__module__ == "numpy"

    @replace(containers.Opened)
    def mapped(self: Any, put: Any) -> Any:
        has_others = not all(stays(x) for x, _ in self.tensors)
        return sound(self, lambda x, owner: x if has_others and stays(x) else put(x, owner))


@mutant("host_data.put_tensors")
def tensors_that_are_there_are_copied(backend: Any) -> None:
    """A tensor that is on the device already is copied once more: ``torch.tensor(x)``."""
    from unidev.tensors import host_data
    from unidev.tensors.transfer import copied

    replace_value(host_data, "moved", copied)


@mutant("host_data.get")
def got_arrays_are_shared(backend: Any) -> None:
    """``device_get`` gives the tensor's own memory: ``x.numpy()``, ``np.asarray``."""
    import numpy as np

    from unidev.tensors import host_data

    @replace(host_data)
    def read(operation: str, x: Any, backend: Any, *, is_explicit: bool) -> Any:
        return x.view(np.ndarray)
