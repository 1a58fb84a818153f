"""Where tensors are, and whether they are together."""

from __future__ import annotations

from unidev.calls.boundary import call
from unidev.errors import DeviceMismatchError, NotATensorError
from unidev.registry.loading import backend_of_type, device_getters
from unidev.tensors.classify import backend_of_tensor, is_model
from unidev.tensors.containers import named_tensors

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract.backend import Extent
    from unidev.contract.device import Device

_MOST_NAMED = 20
"""A message names so many tensors; the error's ``devices`` has them all."""


def device_of(x: object, /) -> Device:
    """The device that holds ``x``, or that all tensors of a container or a model share.

    Neither copies nor waits.

    Raises:
        NotATensorError: ``x`` is no tensor, or holds none.
        DeviceMismatchError: the tensors in it are on several devices; names each by its path.
        UnsupportedOperation: a graph is being traced, or the tensor lies on several devices.

    >>> import unidev
    >>> str(unidev.device_of({"x": unidev.zeros(3), "y": [unidev.ones(3)]}))
    'cpu:0'
    """
    try:
        return device_getters[type(x)](x)
    except KeyError:  # a container, or a type that is met for the first time
        backend = backend_of_type(type(x))
    if backend is not None:
        return backend.device_of(x)
    found = _devices([("", x)])
    if not found:
        raise NotATensorError(
            f"there is no tensor in this {type(x).__name__}, so it has no device."
        )
    _check_one(found, x)
    return found[0][1]


def same_device(*xs: object) -> bool:
    """Whether all tensors, in all arguments, their containers and models, are on one device.

    Tensors of two frameworks never are. True of no tensors at all.

    Raises:
        NotATensorError: an argument is neither a tensor nor a container.

    >>> import unidev
    >>> unidev.same_device(unidev.zeros(3), {"y": unidev.ones(3)})
    True
    """
    return len({device for _, device in _devices(_positional(xs))}) <= 1


def check_same_device(*xs: object, **named: object) -> None:
    """Raise DeviceMismatchError unless all tensors are on one device.

    The message names each argument (or path in a container or model) and its device; arguments
    without a name are ``args[0]``, ``args[1]``.

    >>> import unidev
    >>> unidev.check_same_device(x=unidev.zeros(3), y=unidev.ones(3))
    """
    _check_one(_devices([*_positional(xs), *named.items()]), *xs, *named.values())


def shares_memory(a: object, b: object, /) -> bool:
    """Whether tensors ``a`` and ``b`` stand on common memory: one storage, or a part of one.

    Two views of one storage share it even where they do not overlap.
    An empty tensor shares nothing.

    Raises:
        NotATensorError: one of them is no tensor.
        UnsupportedOperation: the framework tells no address of such a tensor.

    >>> import unidev
    >>> x = unidev.zeros((2, 3))
    >>> unidev.shares_memory(x, x[0]), unidev.shares_memory(x, unidev.copy_to(x, "cpu"))
    (True, False)
    """
    return any(
        p.nbytes > 0
        and q.nbytes > 0
        and p.address < q.address + q.nbytes
        and q.address < p.address + p.nbytes
        for p in _extents(a)
        for q in _extents(b)
    )


def _extents(x: object) -> Sequence[Extent]:
    backend = backend_of_tensor(x)
    return call(backend, backend.extents, x, doing="finding the memory of a tensor")


def _positional(xs: tuple[object, ...]) -> list[tuple[str, object]]:
    return [(f"args[{position}]", x) for position, x in enumerate(xs)]


def _devices(named: list[tuple[str, object]]) -> list[tuple[str, Device]]:
    return [
        (path, backend.device_of(tensor))
        for name, x in named
        for path, tensor, backend in named_tensors(x, name)
    ]


def _check_one(found: list[tuple[str, Device]], *xs: object) -> None:
    if len({device for _, device in found}) <= 1:
        return
    several = len({device.backend for _, device in found}) > 1
    lines = [
        f"{name}: {device}" + (f" of {device.backend}" if several else "")
        for name, device in _most_telling(found)
    ]
    if len(lines) < len(found):
        lines.append(f"and {len(found) - len(lines)} more, all in the error's `devices`")
    if several:
        remedy = (
            "They are of different frameworks: unidev.array(unidev.to_numpy(x), device=...) brings "
            "values across."
        )
    else:
        remedy = "Bring them together with as_in_device(x, device)"
        remedy += ", and a model with place(model, device)." if any(map(is_model, xs)) else "."
    raise DeviceMismatchError(
        f"tensors on different devices: {', '.join(lines)}. {remedy}", devices=_by_name(found)
    )


def _most_telling(found: list[tuple[str, Device]]) -> list[tuple[str, Device]]:
    """So many as a message names, in their order: some of each device, all of those on few."""
    if len(found) <= _MOST_NAMED:
        return found
    positions: dict[Device, list[int]] = {}
    for position, (_, device) in enumerate(found):
        positions.setdefault(device, []).append(position)
    chosen: list[int] = []
    groups = sorted(positions.values(), key=len)
    for number, group in enumerate(groups):
        share = max(1, (_MOST_NAMED - len(chosen)) // (len(groups) - number))
        chosen += group[:share]
    return [found[position] for position in sorted(chosen)]


def _by_name(found: list[tuple[str, Device]]) -> dict[str, Device]:
    devices: dict[str, Device] = {}
    for position, (name, device) in enumerate(found):
        # Keys of a dict may look alike, and an argument may be named "args[0]".
        devices[f"{name} (tensor {position})" if name in devices else name] = device
    return devices
