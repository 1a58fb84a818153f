"""Every error that unidev raises.

    UnidevError
    ├── BackendError
    │   ├── BackendNotFoundError        (LookupError)   no backend of that name
    │   ├── AmbiguousBackendError       (LookupError)   two candidates, and nobody chose
    │   ├── FrameworkNotInstalledError  (ImportError)   the plugin is here, its framework is not
    │   ├── PluginError                 (RuntimeError)  a plugin that does not load
    │   └── BackendMismatchError        (ValueError)    two backends in one call
    ├── DeviceError
    │   ├── DeviceSpecError             (ValueError)    that names no device
    │   ├── DeviceNotFoundError         (LookupError)   that device is not there
    │   └── DeviceMismatchError         (ValueError)    tensors on different devices
    ├── TensorError
    │   ├── NotATensorError             (TypeError)     no tensor of any backend
    │   ├── DeletedTensorError          (RuntimeError)  its memory has been freed
    │   ├── UnsupportedDtypeError       (TypeError)     the framework cannot hold that dtype
    │   └── InvalidDataError            (ValueError)    a shape, value or seed that cannot be
    ├── ModelError
    │   ├── NotAModelError              (TypeError)     no model of any backend
    │   └── CheckpointError             (ValueError)    a file that cannot be loaded into this model
    ├── ContainerError
    │   ├── UnsupportedContainerError   (TypeError)     its tensors would stay behind
    │   └── CircularContainerError      (ValueError)    a container that contains itself
    ├── ScopeError                      (RuntimeError)  a ``with`` left that was not entered here
    ├── TransferForbiddenError          (RuntimeError)  a transfer that nobody asked for
    ├── SimulationError                 (RuntimeError)  simulated devices cannot be had now
    ├── FrameworkError                  (RuntimeError)  the framework failed: see its cause
    │   └── OutOfDeviceMemoryError      (MemoryError)   there is not that much memory
    └── UnsupportedOperation            (NotImplementedError)  this backend cannot, and says why

A message says what failed, what was found, and what to do. What it says stands in attributes too.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unidev.contract.device import Device
    from unidev.contract.tracer import PlannedTransfer
    from unidev.hardware.facts import MemoryHolder
    from unidev.tracing.call_site import Line


class UnidevError(Exception):
    """The root: ``except UnidevError`` catches whatever unidev raises, and nothing else."""

    ag_pass_through = True
    """Without it, TensorFlow's AutoGraph raises an error of its own in place of this one."""


class BackendError(UnidevError):
    """Something about a backend, before any tensor is involved."""

    def __init__(self, message: str, *, backend: str | None = None) -> None:
        super().__init__(message)
        self.backend = backend


class BackendNotFoundError(BackendError, LookupError):
    """No backend of that name is registered."""


class AmbiguousBackendError(BackendError, LookupError):
    """Several backends could be meant, and nothing says which."""


class FrameworkNotInstalledError(BackendError, ImportError):
    """The plugin is installed; the framework it adapts is not."""


class PluginError(BackendError, RuntimeError):
    """A plugin that raises, speaks another contract version, or lacks methods."""


class BackendMismatchError(BackendError, ValueError):
    """A tensor of one backend with a device, or a tensor, of another."""


class DeviceError(UnidevError):
    """Something about a device."""

    def __init__(self, message: str, *, spec: object = None) -> None:
        super().__init__(message)
        self.spec = spec


class DeviceSpecError(DeviceError, ValueError):
    """The words, or the object, name no device."""


class DeviceNotFoundError(DeviceError, LookupError):
    """The device has a sensible name, and is not there."""

    # LookupError.__str__ is Exception's own; only KeyError would quote the message.


class DeviceMismatchError(DeviceError, ValueError):
    """Tensors that had to be on one device are on several.

    Attributes:
        devices: what was found, from the name or path of each tensor to its device.
    """

    def __init__(self, message: str, *, devices: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.devices = dict(devices or {})


class TensorError(UnidevError):
    """Something about one tensor."""


class NotATensorError(TensorError, TypeError):
    """A tensor was needed."""


class DeletedTensorError(TensorError, RuntimeError):
    """The tensor's memory was deleted, or donated to a computation."""


class UnsupportedDtypeError(TensorError, TypeError):
    """The framework has no such dtype, or the values would have to change to fit."""


class InvalidDataError(TensorError, ValueError):
    """A shape, a value or a seed that cannot be."""


class ModelError(UnidevError):
    """Something about a model."""


class NotAModelError(ModelError, TypeError):
    """A model was needed."""


class CheckpointError(ModelError, ValueError):
    """A checkpoint that is broken, or is not this model's; nothing was loaded.

    Attributes:
        problems: all that is wrong, each in a line.
    """

    def __init__(self, message: str, *, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class ContainerError(UnidevError):
    """Something about a nested container."""


class UnsupportedContainerError(ContainerError, TypeError):
    """A container that unidev cannot look into, whose tensors would silently stay behind."""


class CircularContainerError(ContainerError, ValueError):
    """A container that contains itself."""


class ScopeError(UnidevError, RuntimeError):
    """A scope is left that this thread is not in."""


class TransferForbiddenError(UnidevError, RuntimeError):
    """A transfer between devices that was not asked for, where a guard forbids those.

    Attributes:
        transfer: what would have moved: operation, source, target, nbytes, shape.
        line: the user's: file, number, function, source.
    """

    def __init__(
        self, message: str, *, transfer: PlannedTransfer | None = None, line: Line | None = None
    ) -> None:
        super().__init__(message)
        self.transfer = transfer
        self.line = line

    @property
    def movement(self) -> PlannedTransfer | None:
        """Deprecated spelling of ``transfer``."""
        import warnings

        warnings.warn(
            "TransferForbiddenError.movement is deprecated and will be removed in unidev 0.2: use "
            "TransferForbiddenError.transfer.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.transfer


class SimulationError(UnidevError, RuntimeError):
    """Simulated devices were asked for too late, out of range, or cannot be built."""


class FrameworkError(UnidevError, RuntimeError):
    """The framework itself failed; ``__cause__`` holds its own error."""


class OutOfDeviceMemoryError(FrameworkError, MemoryError):
    """The device has not that much memory left.

    Attributes, each None where nobody tells:
        device: on which memory ran out.
        requested_bytes: what was asked for.
        free_bytes: what was free.
        total_bytes: what there is.
        holders: who holds it, those with the most first: pid, name, used_bytes. Of the CPU and of
            simulated devices the three largest processes of the host; else as the driver tells.
    """

    def __init__(  # noqa: PLR0913  each is an attribute
        self,
        message: str,
        *,
        device: Device | None = None,
        requested_bytes: int | None = None,
        free_bytes: int | None = None,
        total_bytes: int | None = None,
        holders: Sequence[MemoryHolder] = (),
    ) -> None:
        super().__init__(message)
        self.device = device
        self.requested_bytes = requested_bytes
        self.free_bytes = free_bytes
        self.total_bytes = total_bytes
        self.holders = tuple(holders)


class UnsupportedOperation(UnidevError, NotImplementedError):  # noqa: N818  the field's own word, as in io
    """The backend cannot do this, and says why.

    Attributes:
        operation: what was asked for.
        reason: why it cannot be done.
        link: where upstream says so, if it does.
    """

    def __init__(self, operation: str, reason: str, link: str | None = None) -> None:
        super().__init__(f"{operation} is not supported: {reason}" + (f" ({link})" if link else ""))
        self.operation = operation
        self.reason = reason
        self.link = link

    def __reduce__(self) -> tuple[type[UnsupportedOperation], tuple[str, str, str | None]]:
        # Exception would give the message to __init__: a worker process could not report it.
        return type(self), (self.operation, self.reason, self.link)
