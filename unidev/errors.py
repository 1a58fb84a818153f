"""Every error that unidev raises: an ``UnidevError``, and mostly a builtin exception, too.

A message states what failed, what was found, and what to do. Attributes hold the same facts.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unidev.device import Device
    from unidev.values import Line, MemoryHolder, PlannedTransfer


class UnidevError(Exception):
    """The root: ``except UnidevError`` catches every error that unidev raises, and no other."""

    ag_pass_through = True
    """Without it, TensorFlow's AutoGraph replaces this error by one of its own."""


class BackendError(UnidevError):
    """A problem with a backend, before any tensor is involved."""

    def __init__(self, message: str, *, backend: str | None = None) -> None:
        super().__init__(message)
        self.backend = backend


class BackendNotFoundError(BackendError, LookupError):
    """No backend of that name is registered."""


class AmbiguousBackendError(BackendError, LookupError):
    """Several backends are possible, and none has been selected."""


class FrameworkNotInstalledError(BackendError, ImportError):
    """The plugin is installed; the framework it adapts is not."""


class PluginError(BackendError, RuntimeError):
    """A plugin that raises, was written for another contract version, or lacks methods."""


class BackendMismatchError(BackendError, ValueError):
    """A tensor of one backend used with a device or a tensor of another."""


class DeviceError(UnidevError):
    """A problem with a device."""

    def __init__(self, message: str, *, spec: object = None) -> None:
        super().__init__(message)
        self.spec = spec


class DeviceSpecError(DeviceError, ValueError):
    """The string or the object does not specify a device."""


class DeviceNotFoundError(DeviceError, LookupError):
    """The device is valid by its name, but not available."""

    # LookupError.__str__ is Exception's own; only KeyError would quote the message.


class DeviceMismatchError(DeviceError, ValueError):
    """Tensors that must be on one device are on several.

    Attributes:
        devices: maps the name or path of each tensor to its device.
    """

    def __init__(self, message: str, *, devices: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.devices = dict(devices or {})


class TensorError(UnidevError):
    """A problem with a tensor."""


class NotATensorError(TensorError, TypeError):
    """The argument must be a tensor, and is not."""


class DeletedTensorError(TensorError, RuntimeError):
    """The tensor's memory was deleted or donated to a computation."""


class UnsupportedDtypeError(TensorError, TypeError):
    """The framework does not have this dtype, or the values would have to change to fit it."""


class InvalidDataError(TensorError, ValueError):
    """An invalid shape, value or seed."""


class ModelError(UnidevError):
    """A problem with a model."""


class NotAModelError(ModelError, TypeError):
    """The argument must be a model, and is not."""


class CheckpointError(ModelError, ValueError):
    """A checkpoint that is damaged, or does not match the model; nothing was loaded.

    Attributes:
        problems: everything that is wrong, one line each.
    """

    def __init__(self, message: str, *, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class ContainerError(UnidevError):
    """A problem with a nested container."""


class UnsupportedContainerError(ContainerError, TypeError):
    """A container or an object that unidev cannot rebuild: its tensors would not be moved."""


class CircularContainerError(ContainerError, ValueError):
    """A container that contains itself."""


class ScopeError(UnidevError, RuntimeError):
    """A scope was exited that this thread has not entered."""


class TransferForbiddenError(UnidevError, RuntimeError):
    """A guard forbids this transfer between devices; nothing was moved.

    Attributes:
        transfer: what would have moved: operation, source, target, nbytes, shape.
        line: the line of the user's code: file, number, function, source.
    """

    def __init__(
        self, message: str, *, transfer: PlannedTransfer | None = None, line: Line | None = None
    ) -> None:
        super().__init__(message)
        self.transfer = transfer
        self.line = line


class UntestedVersionWarning(UserWarning):
    """The framework is newer than the releases that its plugin was tested with; no error."""


class LeftBehindWarning(UserWarning):
    """``place`` has moved a model, and tensors that it keeps without registering them stay."""


class SimulationError(UnidevError, RuntimeError):
    """Simulated devices were requested too late, their number is invalid, or the build failed."""


class RunError(UnidevError, RuntimeError):
    """A problem with the workers of ``unidev.run``."""


class WorkerFailedError(RunError):
    """A worker failed, so the run has ended. This is about the worker that failed first.

    Attributes:
        rank: the worker's number; -1 if unknown.
        host: the address of its host; "" if unknown.
        traceback: its own traceback, or where it was, by ``faulthandler``; "" if unknown, or if it
            ended by ``sys.exit("message")``.
        signal: the signal that ended it, such as ``SIGKILL``, or None.
        output: the last lines that it printed.
    """

    def __init__(  # noqa: PLR0913  each is an attribute
        self,
        message: str,
        *,
        rank: int = -1,
        host: str = "",
        traceback: str = "",
        signal: str | None = None,
        output: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.rank = rank
        self.host = host
        self.traceback = traceback
        self.signal = signal
        self.output = tuple(output)


class CollectiveError(RunError):
    """An exchange between workers failed, usually because another worker has failed.

    ``__cause__`` is the framework's own error.
    """


class FrameworkError(UnidevError, RuntimeError):
    """The framework itself failed; ``__cause__`` is its own error."""


class OutOfDeviceMemoryError(FrameworkError, MemoryError):
    """The device does not have enough free memory.

    What is not known is None.

    Attributes:
        device: where memory ran out.
        requested_bytes: what was requested.
        free_bytes: what was free.
        total_bytes: the device's total.
        holders: the processes that hold memory, largest first: pid, name, used_bytes. For a real
            GPU, those that the driver reports; for the CPU and simulated devices, this user's three
            largest on the host; else empty.
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
    """The backend cannot do this; the message gives the reason.

    Attributes:
        operation: what was requested.
        reason: why it cannot be done.
        link: the framework's own page or issue about it, if there is one.
    """

    def __init__(self, operation: str, reason: str = "", link: str | None = None) -> None:
        said = f"{operation} is not supported: {reason}" + (f" ({link})" if link else "")
        # Paddle's to_static raises each error anew, from a message that it adds lines to (3.3.1).
        super().__init__(said if reason else operation)
        self.operation = operation
        self.reason = reason
        self.link = link

    def __reduce__(self) -> tuple[type[UnsupportedOperation], tuple[str, str, str | None]]:
        # Exception would pass the message to __init__: a worker process could not report it.
        return type(self), (self.operation, self.reason, self.link)
