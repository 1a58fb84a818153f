"""Bad input: an error with what was found and a remedy; nothing changes. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.contract.backend import Unsupported
from unidev.system.settings import MOST_SIMULATED
from unidev_conformance.kit.inputs import samples
from unidev_conformance.kit.inputs.containers import Slotted
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_FAR = 4_000
"""An index that no machine has."""
_LAST = re.compile(r"\d+(?!.*\d)")
"""The last number in a framework's own spelling of a device."""


@check(required=True)
def test_index_out_of_range(bench: Workbench) -> None:
    """A device past the end is an error in every verb and spelling, never another device."""
    x = bench.matrix(bench.cpu)
    missing: list[Any] = [unidev.Device(bench.backend.name, "gpu", _FAR)]
    for kind in bench.backend.kinds:
        count = sum(device.kind == kind for device in bench.devices)
        missing += [f"{kind}:{count}", f"{kind}:{_FAR}"]
    for spec in missing:
        for call, *arguments in (
            (unidev.as_device, spec), (unidev.copy_to, x, spec), (unidev.as_in_device, x, spec),
            (unidev.copy_to, ["no tensor"], spec), (unidev.as_in_device, {}, spec),
        ):  # fmt: skip
            bench.expect(unidev.DeviceNotFoundError, call, *arguments)
        bench.expect(unidev.DeviceNotFoundError, unidev.zeros, 3, device=spec)
    for index in (unidev.num_gpus(), _FAR):
        bench.expect(unidev.DeviceNotFoundError, unidev.gpu, index)
    names = [device.native_name for device in bench.devices]
    highest = max((int(number) for name in names for number in _LAST.findall(name)), default=0)
    for name in filter(_LAST.search, names):
        for index in (highest + 1, highest + 256, _FAR):  # spelt as those that there are
            spelling = _LAST.sub(str(index), name)
            bench.expect(unidev.DeviceNotFoundError, unidev.as_device, spelling)
            bench.expect(unidev.DeviceNotFoundError, unidev.copy_to, x, spelling)
            bench.expect(unidev.DeviceNotFoundError, unidev.as_in_device, x, spelling)
    for spelling in (f"cuda:{_FAR}", f"/CPU:{_FAR}", f"/GPU:{_FAR}", f"gpu({_FAR})", f"xpu:{_FAR}"):
        # One framework's own spelling, unknown to the others.
        bench.expect(unidev.DeviceError, unidev.as_device, spelling)


@check(required=True)
def test_negative_index(bench: Workbench) -> None:
    """A negative or non-integer index is an error: indices do not count from the end."""
    x = bench.matrix(bench.cpu)
    for spec in ("gpu:-1", "cpu:-1"):
        bench.expect(unidev.DeviceSpecError, unidev.as_device, spec)
        bench.expect(unidev.DeviceSpecError, unidev.copy_to, x, spec)
        bench.expect(unidev.DeviceSpecError, unidev.zeros, 3, device=spec)
    for index in (-1, -_FAR, 0.5, "0", None):
        bench.expect(unidev.DeviceSpecError, unidev.gpu, index)
        bench.expect(unidev.DeviceSpecError, unidev.try_gpu, index)


@check(required=True)
def test_missing_kind(bench: Workbench) -> None:
    """A missing kind of device is an error; it does not become the CPU."""
    x = bench.matrix(bench.cpu)
    absent = unidev.Device(bench.backend.name, "abacus", 0)
    for call, *arguments in (
        (unidev.copy_to, x, absent), (unidev.as_in_device, x, absent), (unidev.as_device, absent),
    ):  # fmt: skip
        bench.expect(unidev.DeviceNotFoundError, call, *arguments)
    for spec in ("abacus", "abacus:0", "", "gpu:", "gpu:x", "cpu:0:0", 3.5, object()):
        bench.expect(unidev.DeviceSpecError, unidev.as_device, spec)
        bench.expect(unidev.DeviceSpecError, unidev.copy_to, x, spec)
    if not unidev.num_gpus():
        bench.expect(unidev.DeviceNotFoundError, unidev.gpu)
        for spec in ("gpu", "gpu:0"):
            bench.expect(unidev.DeviceNotFoundError, unidev.as_device, spec)
            bench.expect(unidev.DeviceNotFoundError, unidev.copy_to, x, spec)
            bench.expect(unidev.DeviceNotFoundError, unidev.zeros, 3, device=spec)


class _Foreign:
    """Looks like an array to NumPy, and like a tensor to code that only needs a shape."""

    shape = (2,)
    dtype = "float32"

    def __array__(self, *_arguments: object, **_options: object) -> samples.Array:
        return np.zeros(2)


@check(required=True)
def test_foreign_tensor(bench: Workbench) -> None:
    """Another framework's tensor, or device, is refused: nothing is converted silently."""
    x = bench.matrix(bench.cpu)
    for device in bench.devices:
        bench.expect(unidev.NotATensorError, unidev.copy_to, _Foreign(), device)
        bench.expect(unidev.NotATensorError, unidev.as_in_device, _Foreign(), device)
        if not isinstance(np.zeros(2), bench.backend.tensor_types):
            for foreign in (np.zeros(2), [np.zeros(2)], [x, np.zeros(2)]):
                bench.expect(unidev.BackendMismatchError, unidev.copy_to, foreign, device)
                bench.expect(unidev.BackendMismatchError, unidev.as_in_device, foreign, device)
    for call in (unidev.device_of, unidev.to_numpy, unidev.array, unidev.zeros_like):
        bench.expect(unidev.NotATensorError, call, _Foreign())
    elsewhere = unidev.Device("elsewhere", "gpu", 0)
    bench.expect(unidev.BackendMismatchError, unidev.copy_to, x, elsewhere)
    bench.expect(unidev.BackendMismatchError, unidev.as_in_device, [x], elsewhere)


@check(needs=("probe.elsewhere",))
def test_tensors_elsewhere(bench: Workbench) -> None:
    """The error about a tensor on several devices, or on none, says where it is; it can be read."""
    found = bench.probe.elsewhere()
    if not found:
        bench.not_applicable("the probe makes none on these devices")
    for name, (x, words) in found.items():
        refusal = bench.expect(unidev.UnsupportedOperation, unidev.device_of, x)
        _check_says(refusal, *words)
        for call in (unidev.device_of, unidev.same_device, unidev.check_same_device):
            refusal = bench.expect(unidev.UnsupportedOperation, call, {"x": [1, x]})
            _check_says(refusal, "['x'][1]", *words)
        content = bench.probe.read(x)
        read = bench.works(unidev.to_numpy, x)
        bench.oracle.check_content(read.tobytes(), content, f"{name}, read by to_numpy")
        for device, verb in itertools.product(bench.devices, (unidev.copy_to, unidev.as_in_device)):
            where = f"{name} to {device}, by {verb.__name__}"
            try:
                y = verb(x, device)
            except unidev.UnsupportedOperation as refusal:
                bench.evidence.add("refused", f"{where}: {refusal}")
                continue
            assert y is not x, f"{where}: the copy is the source, the same object"
            bench.oracle.check_device(y, device, where)
            bench.oracle.check_kind(x, y, where)
            bench.oracle.check_bytes(y, content, where)
            if verb is unidev.copy_to:
                bench.oracle.check_disjoint(x, y, where)


@check(needs=("probe.deleted",), over="ring")
def test_deleted_tensor(bench: Workbench, device: Device, target: Device) -> None:
    """A tensor whose memory was deleted raises a specific error when the memory is needed."""
    x = bench.probe.deleted(device)
    bench.expect(unidev.DeletedTensorError, unidev.copy_to, x, target)
    bench.expect(unidev.DeletedTensorError, unidev.to_numpy, x)
    bench.expect(unidev.DeletedTensorError, unidev.prefetch, x, target)
    if target is not device:
        bench.expect(unidev.DeletedTensorError, unidev.as_in_device, x, target)


@check(required=True, over="pairs")
def test_tensors_on_different_devices(bench: Workbench, one: Device, other: Device) -> None:
    """Tensors on two devices, even of one kind, are refused where they must be on one."""
    x, y = bench.matrix(one), bench.matrix(other)
    bench.expect(unidev.DeviceMismatchError, unidev.check_same_device, [x, y])
    bench.expect(unidev.DeviceMismatchError, unidev.device_of, [x, y])
    for xs, named in (((x, y), {}), ((), {"X": x, "Y": y}), ((x,), {"Y": y})):
        error = bench.expect(unidev.DeviceMismatchError, unidev.check_same_device, *xs, **named)
        names = [*(f"args[{number}]" for number in range(len(xs))), *named]
        assert error.devices == dict(zip(names, (one, other), strict=True)), f"{error.devices}"
        said = ", ".join(f"{name}: {device}" for name, device in error.devices.items())
        assert said in str(error), f"{said} is not in: {error}"
    bench.works(unidev.check_same_device, x, x)
    if one.is_simulated and other.is_simulated and hasattr(type(x), "__add__"):
        _check_computing(bench, one, other)


def _check_computing(bench: Workbench, one: Device, other: Device) -> None:
    """A framework that refuses to add tensors of two GPUs does so whatever their shapes."""
    shapes = ((2, 3), (1,), ())
    if bench.backend.spec.framework == "numpy":  # elsewhere assigning is a copy
        x, y = bench.matrix(one), bench.matrix(other)
        for index, values in ((..., y), (0, y[0]), ([0, 1], y[[0, 1]]), (x > 0, y[y > 0])):
            bench.expect(unidev.DeviceMismatchError, x.__setitem__, index, values)
        for index in (y > 0, (0, y[0] > 0), [y[0, :1].astype(int)]):  # a mask, and indices
            bench.expect(unidev.DeviceMismatchError, x.__getitem__, index)
            bench.expect(unidev.DeviceMismatchError, x.__setitem__, index, 1)
        for option in ({"out": y}, {"where": y > 0}):
            bench.expect(unidev.DeviceMismatchError, np.add, x, x, **option)
    refused = {
        (a, b): _is_refused_to_add(bench, (a, one), (b, other))
        for a, b in itertools.product(shapes, shapes)
        if not _is_refused_to_add(bench, (a, one), (b, one))  # MXNet: outside of its np_shape
    }
    assert len(set(refused.values())) == 1, (
        f"adding tensors of {one} and {other} is refused for some shapes alone: {refused}"
    )


def _is_refused_to_add(bench: Workbench, *parts: tuple[tuple[int, ...], Device]) -> bool:
    x, y = (bench.make(samples.counting(shape), device) for shape, device in parts)
    try:
        x + y
    except bench.backend.framework_errors:
        return True
    return False


@check(over="devices")
def test_unsupported_dtype(bench: Workbench, device: Device) -> None:
    """A dtype that the backend lacks is an error; one that it has is not replaced by another."""
    for name in ("float128bit", "strange", "O", 7):
        bench.expect(unidev.UnsupportedDtypeError, unidev.zeros, 3, dtype=name, device=device)
    for array in (np.array([object()]), np.array(["text"]), np.array(["2026-11-21"], "M8[D]")):
        bench.expect(unidev.UnsupportedDtypeError, unidev.array, array, device=device)
    for name in _NUMBERS:
        _check_kept_or_refused(bench, name, device)


_NUMBERS = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip


def _check_kept_or_refused(bench: Workbench, name: str, device: Device) -> None:
    values = samples.telling_bits(name)
    if name not in bench.dtypes(device):
        if name in bench.backend.dtypes:
            return  # `dtypes_of_devices` checks it
        bench.expect(unidev.UnsupportedDtypeError, unidev.array, values, device=device)
        bench.expect(unidev.UnsupportedDtypeError, unidev.zeros, 3, dtype=name, device=device)
        bench.evidence.add("refused", name)
        return
    x = unidev.array(values, device=device)
    assert x.dtype == bench.backend.dtypes[name], f"{name} on {device} became {x.dtype}"
    bench.oracle.check_bytes(x, values.tobytes(), f"{name} on {device}")


@check(required=True, over="devices")
def test_dtypes_of_devices(bench: Workbench, device: Device) -> None:
    """A dtype that a device lacks is refused there, or kept, and never replaced by another."""
    carried = list(bench.backend.dtypes_on(device))
    strange = [name for name in carried if name not in bench.backend.dtypes]
    assert not strange, f"{device} carries {strange}, which the backend does not have"
    for name in ("bool", bench.backend.default_integer, "float32"):  # those of Python's numbers
        if name in bench.backend.dtypes:
            assert name in carried, f"{device} does not carry {name}, but only {carried}"
    for name in bench.backend.dtypes:
        if name not in carried:
            _check_lacking(bench, name, device)
    bench.evidence.add("carried", f"{device}: {', '.join(carried)}")


def _check_lacking(bench: Workbench, name: str, device: Device) -> None:
    makers: dict[str, Callable[[], Any]] = {
        "zeros": lambda: unidev.zeros(3, dtype=name, device=device),
        "full": lambda: unidev.full(3, 1, dtype=name, device=device),
        "array of a tensor": lambda: unidev.array(x, dtype=name, device=device),
    }
    x = bench.matrix(device)
    if name in bench.dtypes(bench.cpu):
        there = bench.of_dtype(name, bench.cpu)
        makers |= {
            "copy_to": lambda: unidev.copy_to(there, device),
            "as_in_device": lambda: unidev.as_in_device(there, device),
        }
    refused = [each for each in makers if _is_refused(bench, each, makers[each], name, device)]
    assert refused, f"{device} does not carry {name}, but {', '.join(makers)} make it there"
    bench.evidence.add("refused", f"{name} on {device}: {', '.join(refused)}")


def _is_refused(
    bench: Workbench, verb: str, make: Callable[[], Any], name: str, device: Device
) -> bool:
    where = f"{verb}, {name} on {device}"
    try:
        found = make().dtype
    except unidev.UnsupportedDtypeError as refusal:
        _check_says(refusal, name, str(device), "float32")
        return True
    except Exception as error:
        raise AssertionError(f"{where} raises {type(error).__name__}: {error}") from error
    assert found == bench.backend.dtypes[name], f"{where}: it became {found}"
    return False


@check(required=True)
def test_message_names_device_backend_remedy(bench: Workbench) -> None:
    """A message names the requested device, the backend, the devices there are, and what to do."""
    name, x = bench.backend.name, bench.matrix(bench.cpu)
    listed = [str(device) for device in bench.devices]
    for index in (unidev.num_gpus(), _FAR):
        simulates = index < MOST_SIMULATED and not isinstance(
            bench.backend.spec.simulator, Unsupported
        )
        _check_says(
            bench.expect(unidev.DeviceNotFoundError, unidev.gpu, index),
            f"gpu:{index}", name, *listed, "try_gpu", *(["UNIDEV_SIMULATE"] if simulates else []),
        )  # fmt: skip
    _check_says(
        bench.expect(unidev.DeviceNotFoundError, unidev.copy_to, x, f"cpu:{_FAR}"),
        f"cpu:{_FAR}", name, *listed,
    )  # fmt: skip
    _check_says(
        bench.expect(unidev.DeviceSpecError, unidev.as_device, "abacus"), "abacus", name, *listed
    )
    _check_says(
        bench.expect(unidev.UnsupportedDtypeError, unidev.zeros, 3, dtype="strange"),
        "strange", name, "float32",
    )  # fmt: skip
    _check_says(
        bench.expect(unidev.NotATensorError, unidev.copy_to, 3, bench.cpu), "int", "unidev.array"
    )
    unknown = Slotted(x)
    _check_says(
        bench.expect(unidev.UnsupportedContainerError, unidev.copy_to, unknown, bench.cpu),
        "Slotted",
        "register_container",
    )


def _check_says(error: Exception, *wanted: str) -> None:
    missing = [word for word in wanted if word not in str(error)]
    assert not missing, f"{type(error).__name__} does not name {missing}: {error}"


@check(required=True)
def test_state_unchanged_after_error(bench: Workbench) -> None:
    """After an error everything is as before: containers, tensors, the scope, the backend."""
    for source, target in bench.all_pairs():
        x, y = bench.matrix(source), bench.matrix(source)
        content = bench.probe.read(x)
        for tree in ([x, Slotted(y)], {"x": x, "y": Slotted(y)}, [x, {"y": [Slotted(y)]}]):
            inner = list(tree.values() if isinstance(tree, dict) else tree)
            for verb in (unidev.copy_to, unidev.as_in_device):
                bench.expect(unidev.UnsupportedContainerError, verb, tree, target)
            after = list(tree.values() if isinstance(tree, dict) else tree)
            where = f"{source} to {target}, after an error"
            assert all(a is b for a, b in zip(inner, after, strict=True)), f"{where}: partly moved"
            bench.oracle.check_device(x, source, where)
            bench.oracle.check_bytes(x, content, where)
    missing = unidev.Device(bench.backend.name, "gpu", _FAR)
    bench.expect(unidev.DeviceNotFoundError, missing.__enter__)
    made = bench.works(unidev.zeros, 3)
    bench.oracle.check_device(made, bench.cpu, "after a scope that could not begin")
    bench.expect(unidev.BackendNotFoundError, unidev.set_backend, "elsewhere")
    assert unidev.active_backend() is bench.backend, "another backend is selected after an error"
