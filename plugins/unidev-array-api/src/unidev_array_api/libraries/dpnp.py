"""dpnp, on the CPUs and GPUs for which SYCL has a runtime."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import dpctl.memory
import dpnp
import numpy as np

from unidev.contract import part, unsupported
from unidev.errors import PluginError
from unidev_array_api.backend import ArrayApiBackend, Place

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from unidev.contract import Array, Device


class DpnpBackend(ArrayApiBackend):
    """Tried on a CPU alone."""

    probe = part("unidev_array_api.probe:DpnpProbe")
    interop = unsupported("the memory of dpnp's arrays belongs to SYCL's runtime")

    framework_errors = (*ArrayApiBackend.framework_errors, dpctl.memory.USMAllocationError)
    out_of_memory_words = ("USM allocation failed",)

    xp = dpnp
    array_type = dpnp.ndarray
    key_of = attrgetter("sycl_device")

    def places(self) -> Sequence[Place]:
        """Of each kind, by the first runtime that lists any: a second one lists them again."""
        found: list[Place] = []
        for kind in self.kinds:
            natives = [each for each in dpctl.get_devices() if getattr(each, f"is_{kind}")]
            found += [
                Place(kind, each, each.filter_string, each, each.name)
                for each in natives
                if each.backend == natives[0].backend
            ]
        if not found:
            raise PluginError(
                f"dpnp {dpnp.__version__} finds no device: dpctl.get_devices() is empty. Install "
                "the driver of a GPU or Intel's OpenCL runtime for CPUs: intel-opencl-rt, with "
                "OCL_ICD_FILENAMES=…/lib/libintelocl.so of the virtual environment that it is in. "
                "See `python -m dpctl --full`.",
                backend=self.name,
            )
        if found[0].kind == "cpu":
            # While this thread alone uses it: several at once, for the first time, hang (0.20).
            dpnp.zeros(1, device=found[0].native)
        return found

    def key(self, native: Any) -> Hashable:
        """SYCL's device, which dpnp's own objects hold."""
        found = getattr(native, "sycl_device", native)
        return found if isinstance(found, dpctl.SyclDevice) else None

    def copy_to(self, x: Any, device: Device, non_blocking: bool) -> Any:
        """Waits on a CPU, whose memory anybody may read."""
        made = super().copy_to(x, device, non_blocking)
        if device.kind == "cpu":
            made.sycl_queue.wait()
        return made

    def from_numpy(self, array: Array, dtype: Any, device: Device) -> Any:
        """Of a contiguous array: dpnp reads few others (0.20)."""
        return super().from_numpy(np.require(array, requirements=("C", "A")), dtype, device)

    def host_array(self, x: Any) -> Array:
        """``asnumpy``, which waits."""
        return np.array(dpnp.asnumpy(x), order="C")

    def synchronize(self, device: Device) -> None:
        """For the queue that dpnp uses on the device."""
        dpnp.empty(0, device=device.native).sycl_queue.wait()
