"""The messages about devices that a backend does not have."""

from __future__ import annotations

from unidev.errors import BackendMismatchError
from unidev.system.wording import kind_of, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract.backend import Backend
    from unidev.device import Device

note = ""
"""Why there are no other GPUs: a worker sees its own only."""


def not_available(device: Device, there: Sequence[Device], backend: Backend) -> str:
    """The message that ``device`` is none of those ``there``, and what to do."""
    message = f"{device} is not available: the {backend.name} backend has {listed(there)}."
    if device.kind != "gpu":
        own = str(device).upper()
        key = backend.parse_native(own)
        if key is None or key[0] != "gpu" or key[1] >= backend.device_count("gpu"):
            return message
        return f"{message} The framework's {own} is gpu:{key[1]}: write that."
    if note:
        return f"{message} {note}"
    from unidev.contract.optional import Unsupported  # not above: it needs typing
    from unidev.doctor.brief import why_no_gpu
    from unidev.system.settings import MOST_SIMULATED, SIMULATE

    message += f" try_gpu({device.index}) falls back to the CPU"
    if device.index < MOST_SIMULATED and not isinstance(backend.spec.simulator, Unsupported):
        message += f"; {SIMULATE}={device.index + 1}, set before Python starts, simulates GPUs"
    why = "" if backend.device_count("gpu") else f" {why_no_gpu(backend)}"
    return f"{message}.{why}"


def two_backends(holds: str, *names: str) -> str:
    """The message that something ``holds`` tensors of two backends, and what to do."""
    one = next((name for name in names if name != "numpy"), names[0])
    message = f"{holds} of two backends, {' and '.join(names)}: unidev.convert(tree, {one!r}) makes"
    message += f" all of them tensors of {one}, where they are"
    if "numpy" in names:
        message += "; unidev.device_put(tree, device) puts NumPy's arrays on a device"
    return f"{message}."


def mixed_backends(holds: str, first: Backend, other: Backend) -> BackendMismatchError:
    """The error where something ``holds`` tensors of two backends: ``other`` is one too many."""
    message = two_backends(holds, first.name, other.name)
    return BackendMismatchError(message, backend=other.name)


def not_a_device(spec: object, there: Sequence[Device]) -> str:
    """The message that ``spec`` does not specify a device, with the two spellings of each."""
    kind = "" if isinstance(spec, str) else f" (of type {kind_of(spec)})"
    return (
        f"{shown(spec)}{kind} does not specify a device of the {there[0].backend} backend: write "
        f"cpu or gpu, with an index as in gpu:1. Its devices: {listed(there)}; in the framework's "
        f"own spelling: {', '.join(device.native_name for device in there)}."
    )


def listed(devices: Sequence[Device]) -> str:
    """Their names, in order."""
    return ", ".join(map(str, devices))


def beside_another(device: Device) -> str:
    """The message that NumPy simulates no GPU beside a framework, as no real machine has one."""
    return (
        f"{device} is not available to NumPy's arrays: NumPy has no GPU, and simulates some only "
        f"where it is the selected backend. device_put(x, {str(device)!r}) makes tensors of the "
        "selected one, and set_backend('numpy') selects NumPy."
    )
