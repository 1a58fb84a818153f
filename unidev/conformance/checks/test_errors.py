"""Bad input: a specific error with what was found and what to do; nothing changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.conformance.kit import samples
from unidev.conformance.kit.containers import Unknown
from unidev.conformance.running.catalog import check
from unidev.contract.backend import Unsupported
from unidev.registry.simulation import MOST

if TYPE_CHECKING:
    from unidev.conformance.kit.workbench import Workbench
    from unidev.contract.device import Device

_FAR = 4_000
"""An index that no machine has."""


@check(required=True)
def test_index_out_of_range(workbench: Workbench) -> None:
    """A device past the end is an error in every verb and spelling, never another device."""
    x = workbench.matrix(workbench.cpu)
    missing: list[Any] = [unidev.Device(workbench.backend.name, "gpu", _FAR)]
    for kind in workbench.backend.kinds:
        count = sum(device.kind == kind for device in workbench.devices)
        missing += [f"{kind}:{count}", f"{kind}:{_FAR}"]
    for spec in missing:
        for call, *arguments in (
            (unidev.as_device, spec), (unidev.copy_to, x, spec), (unidev.as_in_device, x, spec),
        ):  # fmt: skip
            workbench.expect(unidev.DeviceNotFoundError, call, *arguments)
        workbench.expect(unidev.DeviceNotFoundError, unidev.zeros, 3, device=spec)
    for index in (unidev.num_gpus(), _FAR):
        workbench.expect(unidev.DeviceNotFoundError, unidev.gpu, index)
    for spelling in (f"cuda:{_FAR}", f"/CPU:{_FAR}", f"/GPU:{_FAR}", f"gpu({_FAR})", f"xpu:{_FAR}"):
        # One framework's own spelling, unknown to the others.
        workbench.expect(unidev.DeviceError, unidev.as_device, spelling)


@check(required=True)
def test_negative_index(workbench: Workbench) -> None:
    """A negative or non-integer index is an error: indices do not count from the end."""
    x = workbench.matrix(workbench.cpu)
    for spec in ("gpu:-1", "cpu:-1"):
        workbench.expect(unidev.DeviceSpecError, unidev.as_device, spec)
        workbench.expect(unidev.DeviceSpecError, unidev.copy_to, x, spec)
        workbench.expect(unidev.DeviceSpecError, unidev.zeros, 3, device=spec)
    for index in (-1, -_FAR, 0.5, "0", None):
        workbench.expect(unidev.DeviceSpecError, unidev.gpu, index)
        workbench.expect(unidev.DeviceSpecError, unidev.try_gpu, index)


@check(required=True)
def test_missing_kind(workbench: Workbench) -> None:
    """A missing kind of device is an error; it does not become the CPU."""
    x = workbench.matrix(workbench.cpu)
    absent = unidev.Device(workbench.backend.name, "abacus", 0)
    for call, *arguments in (
        (unidev.copy_to, x, absent), (unidev.as_in_device, x, absent), (unidev.as_device, absent),
    ):  # fmt: skip
        workbench.expect(unidev.DeviceNotFoundError, call, *arguments)
    for spec in ("abacus", "abacus:0", "", "gpu:", "gpu:x", "cpu:0:0", 3.5, object()):
        workbench.expect(unidev.DeviceSpecError, unidev.as_device, spec)
        workbench.expect(unidev.DeviceSpecError, unidev.copy_to, x, spec)
    if not unidev.num_gpus():
        workbench.expect(unidev.DeviceNotFoundError, unidev.gpu)
        for spec in ("gpu", "gpu:0"):
            workbench.expect(unidev.DeviceNotFoundError, unidev.as_device, spec)
            workbench.expect(unidev.DeviceNotFoundError, unidev.copy_to, x, spec)
            workbench.expect(unidev.DeviceNotFoundError, unidev.zeros, 3, device=spec)


class _Foreign:
    """Looks like an array to NumPy, and like a tensor to code that only needs a shape."""

    shape = (2,)
    dtype = "float32"

    def __array__(self, *_arguments: object, **_options: object) -> samples.Array:
        return np.zeros(2)


@check(required=True)
def test_foreign_tensor(workbench: Workbench) -> None:
    """Another framework's tensor, or device, is refused: nothing is converted silently."""
    x = workbench.matrix(workbench.cpu)
    for device in workbench.devices:
        workbench.expect(unidev.NotATensorError, unidev.copy_to, _Foreign(), device)
        workbench.expect(unidev.NotATensorError, unidev.as_in_device, _Foreign(), device)
        if not isinstance(np.zeros(2), workbench.backend.tensor_types):
            for foreign in (np.zeros(2), [np.zeros(2)], [x, np.zeros(2)]):
                workbench.expect(unidev.BackendMismatchError, unidev.copy_to, foreign, device)
                workbench.expect(unidev.BackendMismatchError, unidev.as_in_device, foreign, device)
    for call in (unidev.device_of, unidev.to_numpy, unidev.array, unidev.zeros_like):
        workbench.expect(unidev.NotATensorError, call, _Foreign())
    elsewhere = unidev.Device("elsewhere", "gpu", 0)
    workbench.expect(unidev.BackendMismatchError, unidev.copy_to, x, elsewhere)
    workbench.expect(unidev.BackendMismatchError, unidev.as_in_device, [x], elsewhere)


@check(needs=("probe.deleted",))
def test_deleted_tensor(workbench: Workbench) -> None:
    """A tensor whose memory was deleted raises a specific error when the memory is needed."""
    for device, target in workbench.ring():
        x = workbench.probe.deleted(device)
        workbench.expect(unidev.DeletedTensorError, unidev.copy_to, x, target)
        workbench.expect(unidev.DeletedTensorError, unidev.to_numpy, x)
        if target is not device:
            workbench.expect(unidev.DeletedTensorError, unidev.as_in_device, x, target)


@check(required=True)
def test_tensors_on_different_devices(workbench: Workbench) -> None:
    """Tensors on two devices, even of one kind, are refused where they must be on one."""
    for one, other in workbench.pairs():
        x, y = workbench.matrix(one), workbench.matrix(other)
        workbench.expect(unidev.DeviceMismatchError, unidev.check_same_device, x, y)
        workbench.expect(unidev.DeviceMismatchError, unidev.check_same_device, [x, y])
        workbench.expect(unidev.DeviceMismatchError, unidev.device_of, [x, y])
        error = workbench.expect(unidev.DeviceMismatchError, unidev.check_same_device, X=x, Y=y)
        for name, device in (("X", one), ("Y", other)):
            assert f"{name}: {device}" in str(error), f"{name} on {device} is not in: {error}"
        workbench.works(unidev.check_same_device, x, x)


@check()
def test_unsupported_dtype(workbench: Workbench) -> None:
    """A dtype that the backend lacks is an error; one that it has is not replaced by another."""
    for device in workbench.devices:
        for name in ("float128bit", "strange", "O", 7):
            workbench.expect(
                unidev.UnsupportedDtypeError, unidev.zeros, 3, dtype=name, device=device
            )
        for array in (np.array([object()]), np.array(["text"]), np.array(["2026-11-21"], "M8[D]")):
            workbench.expect(unidev.UnsupportedDtypeError, unidev.array, array, device=device)
        for name in _NUMBERS:
            _check_kept_or_refused(workbench, name, device)


_NUMBERS = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip


def _check_kept_or_refused(workbench: Workbench, name: str, device: Device) -> None:
    values = samples.telling_bits(name)
    if name not in workbench.backend.dtypes:
        workbench.expect(unidev.UnsupportedDtypeError, unidev.array, values, device=device)
        workbench.expect(unidev.UnsupportedDtypeError, unidev.zeros, 3, dtype=name, device=device)
        workbench.evidence.add("refused", name)
        return
    x = unidev.array(values, device=device)
    assert x.dtype == workbench.backend.dtypes[name], f"{name} on {device} became {x.dtype}"
    workbench.oracle.check_bytes(x, values.tobytes(), f"{name} on {device}")


@check(required=True)
def test_message_names_device_backend_remedy(workbench: Workbench) -> None:
    """A message names the requested device, the backend, the devices there are, and what to do."""
    name, x = workbench.backend.name, workbench.matrix(workbench.cpu)
    listed = [str(device) for device in workbench.devices]
    for index in (unidev.num_gpus(), _FAR):
        simulates = index < MOST and not isinstance(workbench.backend.spec.simulator, Unsupported)
        _check_says(
            workbench.expect(unidev.DeviceNotFoundError, unidev.gpu, index),
            f"gpu:{index}", name, *listed, "try_gpu", *(["UNIDEV_SIMULATE"] if simulates else []),
        )  # fmt: skip
    _check_says(
        workbench.expect(unidev.DeviceNotFoundError, unidev.copy_to, x, f"cpu:{_FAR}"),
        f"cpu:{_FAR}", name, *listed,
    )  # fmt: skip
    _check_says(
        workbench.expect(unidev.DeviceSpecError, unidev.as_device, "abacus"),
        "abacus",
        name,
        *listed,
    )
    _check_says(
        workbench.expect(unidev.UnsupportedDtypeError, unidev.zeros, 3, dtype="strange"),
        "strange", name, "float32",
    )  # fmt: skip
    _check_says(
        workbench.expect(unidev.NotATensorError, unidev.copy_to, 3, workbench.cpu),
        "int",
        "unidev.array",
    )
    unknown = Unknown(x=x)
    _check_says(
        workbench.expect(unidev.UnsupportedContainerError, unidev.copy_to, unknown, workbench.cpu),
        "Unknown",
        "register_container",
    )


def _check_says(error: Exception, *wanted: str) -> None:
    missing = [word for word in wanted if word not in str(error)]
    assert not missing, f"{type(error).__name__} does not name {missing}: {error}"


@check(required=True)
def test_state_unchanged_after_error(workbench: Workbench) -> None:
    """After an error everything is as before: containers, tensors, the scope, the backend."""
    before = dict(workbench.probe.global_state())
    for source, target in workbench.all_pairs():
        x, y = workbench.matrix(source), workbench.matrix(source)
        content = workbench.probe.read(x)
        for tree in ([x, Unknown(x=y)], {"x": x, "y": Unknown(x=y)}, [x, {"y": [Unknown(x=y)]}]):
            inner = list(tree.values() if isinstance(tree, dict) else tree)
            for verb in (unidev.copy_to, unidev.as_in_device):
                workbench.expect(unidev.UnsupportedContainerError, verb, tree, target)
            after = list(tree.values() if isinstance(tree, dict) else tree)
            where = f"{source} to {target}, after an error"
            assert all(a is b for a, b in zip(inner, after, strict=True)), f"{where}: partly moved"
            workbench.oracle.check_device(x, source, where)
            workbench.oracle.check_bytes(x, content, where)
    workbench.expect(unidev.DeviceNotFoundError, _enter, workbench, _FAR)
    made = workbench.works(unidev.zeros, 3)
    workbench.oracle.check_device(made, workbench.cpu, "after a scope that could not begin")
    workbench.expect(unidev.BackendNotFoundError, unidev.set_backend, "elsewhere")
    assert unidev.active_backend() is workbench.backend, (
        "another backend is selected after an error"
    )
    assert dict(workbench.probe.global_state()) == before, "the framework's defaults have changed"


def _enter(workbench: Workbench, index: int) -> None:
    with unidev.Device(workbench.backend.name, "gpu", index):
        pass
