"""Where tensors are, whether they are on one device, and whether their memory is there."""

from __future__ import annotations

from contextlib import suppress

from unidev.backends.loading import backend_of_type, device_getters
from unidev.errors import (
    DeviceMismatchError,
    InvalidDataError,
    NotATensorError,
    UnidevError,
    UnsupportedOperation,
)
from unidev.tensors.kinds import extents_of, is_model, say_where, shape_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from unidev.contract.backend import Backend
    from unidev.device import Device

    Tensor = Any

MOST_NAMED = 20
"""The most tensors that a message names; the error's ``devices`` has all."""


def device_of(x: object, /) -> Device:
    """The device that holds tensor ``x``, or all tensors of container or model ``x``.

    Does not copy or block.

    Raises:
        NotATensorError: ``x`` is not a tensor and contains none.
        DeviceMismatchError: its tensors are on several devices; names each by its path.
        UnsupportedOperation: a graph is being traced, or one tensor is spread over several devices.

    >>> import unidev
    >>> str(unidev.device_of({"x": unidev.zeros(3), "y": [unidev.ones(3)]}))
    'cpu:0'
    """
    try:
        return device_getters[type(x)](x)
    except KeyError:  # a container, or a type seen for the first time
        backend = backend_of_type(type(x))
    if backend is not None:
        return backend.device_of(x)
    found = _devices([("", x)], all_of_models=False) or _devices([("", x)])
    if not found:
        raise NotATensorError(f"this {type(x).__name__} contains no tensor, so it has no device.")
    _check_one(found, x)
    return found[0][1]


def same_device(*xs: object) -> bool:
    """Whether all tensors in the arguments, also inside containers and models, share a device.

    Tensors of two frameworks never do. True if there are no tensors.

    Raises:
        NotATensorError: an argument is not a tensor, a container or a model.

    >>> import unidev
    >>> unidev.same_device(unidev.zeros(3), {"y": unidev.ones(3)})
    True
    """
    return len({device for _, device in _devices(_positional(xs))}) <= 1


def check_same_device(*xs: object, **named: object) -> None:
    """Raise DeviceMismatchError unless all tensors are on one device.

    The message names each argument (or path in a container or model) and its device; positional
    arguments are ``args[0]``, ``args[1]``. Counts what a model keeps without registering it, too.

    >>> import unidev
    >>> unidev.check_same_device(x=unidev.zeros(3), y=unidev.ones(3))
    """
    _check_one(_devices([*_positional(xs), *named.items()]), *xs, *named.values())


def shares_memory(a: object, b: object, /) -> bool:
    """Whether tensors ``a`` and ``b`` share memory: the same storage, or part of it.

    Two views of one storage share it even if they do not overlap. An empty tensor shares nothing.

    Raises:
        NotATensorError: ``a`` or ``b`` is not a tensor.
        UnsupportedOperation: the framework does not report the address of such a tensor.

    >>> import unidev
    >>> x = unidev.zeros((2, 3))
    >>> unidev.shares_memory(x, x[0]), unidev.shares_memory(x, unidev.copy_to(x, "cpu"))
    (True, False)
    """
    is_shared = any(one.overlaps(other) for one in extents_of(a) for other in extents_of(b))
    return is_shared and not any(0 in _known_shape(x) for x in (a, b))


def _known_shape(x: object) -> tuple[int, ...]:
    with suppress(InvalidDataError):  # ragged or nested: it has elements, or no memory
        return shape_of(x)
    return ()


def _positional(xs: tuple[object, ...]) -> list[tuple[str, object]]:
    return [(f"args[{position}]", x) for position, x in enumerate(xs)]


def _devices(
    named: list[tuple[str, object]], *, all_of_models: bool = True
) -> list[tuple[str, Device]]:
    from unidev.tensors.containers import named_tensors  # imports optree: not for one tensor

    found = []
    for name, x in named:
        for path, tensor, backend in named_tensors(x, name, all_of_models=all_of_models):
            try:
                found.append((path, backend.device_of(tensor)))
            except UnidevError as error:  # noqa: PERF203  with its path
                say_where(error, path)
                raise
    return found


def _check_one(found: list[tuple[str, Device]], *xs: object) -> None:
    if len({device for _, device in found}) <= 1:
        return
    several = len({device.backend for _, device in found}) > 1
    lines = [
        f"{name}: {device}" + (f" of {device.backend}" if several else "")
        for name, device in _representative(found)
    ]
    if len(lines) < len(found):
        lines.append(f"and {len(found) - len(lines)} more (the error's `devices` lists all)")
    if several:
        remedy = (
            "They belong to different frameworks: unidev.convert(x, "
            f"{found[0][1].backend!r}) makes a tensor of {found[0][1].backend} of each."
        )
    else:
        remedy = "Move them to one device with as_in_device(x, device)"
        remedy += ", and a model with place(model, device)." if any(map(is_model, xs)) else "."
    raise DeviceMismatchError(
        f"tensors on different devices: {', '.join(lines)}. {remedy}", devices=_by_name(found)
    )


def _representative(found: list[tuple[str, Device]]) -> list[tuple[str, Device]]:
    """As many as a message names, in order: some on every device, all where a device holds few."""
    if len(found) <= MOST_NAMED:
        return found
    positions: dict[Device, list[int]] = {}
    for position, (_, device) in enumerate(found):
        positions.setdefault(device, []).append(position)
    chosen: list[int] = []
    groups = sorted(positions.values(), key=len)
    for number, group in enumerate(groups):
        share = max(1, (MOST_NAMED - len(chosen)) // (len(groups) - number))
        chosen += group[:share]
    return [found[position] for position in sorted(chosen)]


def _by_name(found: list[tuple[str, Device]]) -> dict[str, Device]:
    devices: dict[str, Device] = {}
    for position, (name, device) in enumerate(found):
        # Different keys of a dict may look alike, and an argument may be named "args[0]".
        devices[f"{name} (tensor {position})" if name in devices else name] = device
    return devices


def check_memory(backend: Backend, xs: Sequence[Tensor]) -> None:
    """Raise DeletedTensorError if the memory of a tensor of the user's is gone, or part of it."""
    if not backend.have_memory(xs):
        for x in xs:
            backend.check_memory(x)


def has_device(x: Tensor, backend: Backend) -> bool:
    """Whether the framework knows the device of a traced ``x`` already."""
    try:
        backend.device_of(x)
    except UnsupportedOperation:
        return False
    return True
