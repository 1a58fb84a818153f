"""Bad input that is taken, or refused in the wrong words."""

from __future__ import annotations

from mutants.mutant import in_place_of, mutant, replace
from unidev.backends.loading import backend_of_type
from unidev.backends.scopes import Scope
from unidev.contract.dtypes import native_dtype
from unidev.errors import DeviceError, DeviceNotFoundError, UnidevError, UnsupportedDtypeError
from unidev.tensors import devices
from unidev.tensors.checks import check_same_device
from unidev.tensors.device_messages import not_available
from unidev.tensors.transfer import as_in_device, copy_to


@mutant("errors.index_out_of_range")
def index_clamped(backend):
    """An index past the end means the first device: TF's ``/CPU:9`` with soft placement."""

    there, kind_and_index = devices._there, devices._kind_and_index

    @replace(devices)
    def _there(backend, kind, index):
        return there(backend, kind, index if index < backend.device_count(kind) else 0)

    @replace(devices)
    def _kind_and_index(spec, backend):
        kind, index = kind_and_index(spec, backend)
        return kind, index if index < backend.device_count(kind) else 0


@mutant("errors.negative_index", around="unidev.tensors.devices:_checked_index")
def negative_index_taken(checked, index):
    """-1 means "the current device": ``torch.device("cuda", -1)``."""
    return 0 if isinstance(index, int) and index < 0 else checked(index)


@mutant("errors.missing_kind", simulated_count=0)
def missing_kind_becomes_cpu(backend):
    """A GPU where there is none is the CPU: TF's soft placement."""

    there, resolve_device = devices._there, devices.resolve_device

    @replace(devices)
    def _there(backend, kind, index):
        return there(backend, kind, index) if backend.device_count(kind) else backend.cpu

    @in_place_of(resolve_device)
    def resolve(spec, backend):
        try:
            return resolve_device(spec, backend)
        except DeviceError:
            return backend.cpu


@mutant(
    "errors.index_out_of_range",
    "errors.missing_kind",
    everywhere="unidev.tensors.devices:check_device",
)
def wrong_exception(check_device, device):
    """A bare ``RuntimeError`` that no ``except`` of the user's expects: ``torch._C`` errors."""
    try:
        check_device(device)
    except DeviceNotFoundError as error:
        raise RuntimeError(str(error)) from error


@mutant("errors.message_names_device_backend_remedy")
def message_says_nothing(backend):
    """Which device, of what, and what now, is left to guess: CUDA's "invalid device ordinal"."""

    in_place_of(not_available)(lambda device, there, backend: "CUDA error: invalid device ordinal")


@mutant("errors.foreign_tensor")
def foreign_tensor_is_taken(backend):
    """Whatever can be made an array is copied as one: ``torch.as_tensor``, ``np.asarray``."""

    def lenient(verb):
        def moved(x, device, *, non_blocking=False):
            try:
                return verb(x, device, non_blocking=non_blocking)
            except UnidevError:
                return x

        return moved

    in_place_of(copy_to)(lenient(copy_to))
    in_place_of(as_in_device)(lenient(as_in_device))


@mutant("errors.tensors_on_different_devices")
def mixed_devices_are_taken(backend):
    """Tensors of two devices pass as one device's: TF, MXNet and Paddle compute on, silently."""

    in_place_of(check_same_device)(lambda *xs, **named: None)


@mutant("errors.unsupported_dtype")
def unsupported_dtype_becomes_float32(backend):
    """A dtype that there is not becomes one that there is: JAX, with a warning at most."""

    @in_place_of(native_dtype)
    def lenient(dtype, backend):
        try:
            return native_dtype(dtype, backend)
        except UnsupportedDtypeError:
            return backend.dtypes["float32"]


@mutant(
    "errors.state_unchanged_after_error", everywhere="unidev.tensors.containers:replace_tensors"
)
def half_moved_on_error(replace_tensors, function, tree, **how):
    """Leaves are replaced in the caller's own container until one fails: ``Module.to``."""
    items = tree.items() if type(tree) is dict else enumerate(tree)
    for key, value in list(items) if type(tree) in (dict, list) else ():
        owner = backend_of_type(type(value))
        if owner is not None:
            tree[key] = function(value, owner)
    return replace_tensors(function, tree, **how)


@mutant(
    "errors.state_unchanged_after_error",
    "sequences.of_tensors",
    around="unidev.device:Device.__enter__",
)
def failed_scope_stays(enter, self):
    """A scope that could not be entered is in force: the device is set before it is checked."""
    Scope(self, self.backend, self).enter()
    entered = enter(self)
    from unidev.backends.scopes import leave_scope

    leave_scope(self)
    return entered
