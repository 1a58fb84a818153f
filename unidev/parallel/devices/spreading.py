"""``spread``: the layers of one net on several devices, one after the other."""

from __future__ import annotations

import weakref
from functools import cache, partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from unidev.backends.boundary import errors_of
from unidev.backends.transfers import nbytes_of
from unidev.errors import InvalidDataError, UnsupportedOperation
from unidev.models.placing import backend_of_model, place_on
from unidev.parallel.devices.arguments import checked_devices
from unidev.system.arguments import non_negative_integer
from unidev.system.wording import count_text, kind_of, shown
from unidev.tensors.checks import device_of
from unidev.tensors.transfer import as_in_device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeVar

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.tensors.devices import DeviceLike

    T = TypeVar("T")

_followed: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Layers whose inputs are moved to them already, by ``id``: Flax's lists cannot be hashed."""


def spread(net: T, devices: Sequence[DeviceLike], /, *, at: Sequence[int] | None = None) -> T:
    """Put the layers of a sequential net on several devices, in order; returns the same net.

    Outputs of one layer are moved to the next by ``as_in_device``; gradients flow back. The net
    is called, trained, saved and loaded as before, with inputs from any device; outputs are on the
    last one, and so must be the labels. ``device_of(net)`` raises an error that has the device of
    each parameter; ``place(net, device)`` brings all layers together again.

    Args:
        net: ``unidev.nn.sequential``, or the framework's own sequential net, built.
        devices: at most as many as there are layers.
        at: for each device but the first, the position of its first layer, in increasing order.
            None: chosen so that the device with the most bytes of parameters has as few as
            possible.

    Raises:
        UnsupportedOperation: ``net`` is not sequential, or layers for different devices share a
            parameter.
        InvalidDataError: there are more devices than layers, or the positions are not valid.
        DeviceError: there are no devices, or one is invalid or not available.

    Whatever is raised, each layer is where it was.
    """
    backend = backend_of_model(net)
    targets = checked_devices(devices, backend)
    with errors_of(backend, f"spreading a {kind_of(net)}"):
        layers = list(backend.layers.sequence(net))
        if len(targets) > len(layers):
            raise InvalidDataError(
                f"{count_text(len(targets), 'device')} for {count_text(len(layers), 'layer')}: "
                "each device needs at least one layer."
            )
        tensors = [backend.models.tensors(layer) for layer in layers]
    if at is None:
        starts = _balanced([_nbytes(each, backend) for each in tensors], len(targets))
    else:
        starts = _checked(at, len(targets), len(layers))
    stages = list(pairwise([0, *starts, len(layers)]))
    _check_apart([tensors[a:b] for a, b in stages])
    goals = [device for device, (a, b) in zip(targets, stages, strict=True) for _ in range(a, b)]
    _place_all(layers, goals, backend)
    for layer in layers:
        if id(layer) not in _followed:
            _followed[id(layer)] = layer
            # Version 2 of the contract gives the function no layer: a copy follows the original.
            follow = partial(_follow, layer) if backend.spec.is_adapted else _follow
            backend.layers.before(layer, follow)
    return net


def _follow(layer: Any, x: Any) -> Any:
    """Move the input of a layer to where the layer is now."""
    backend = backend_of_model(layer)
    own = next(iter(backend.models.tensors(layer).values()), None)
    return x if own is None else as_in_device(x, backend.device_of(own))


def _place_all(layers: Sequence[Any], goals: Sequence[Device], backend: Backend) -> None:
    moved: list[tuple[Any, Device]] = []
    try:
        for layer, goal in zip(layers, goals, strict=True):
            if backend.models.tensors(layer):
                moved.append((layer, device_of(layer)))
                place_on(goal, layer, None, backend, "spread")
    except BaseException:
        for layer, home in moved:
            place_on(home, layer, None, backend, "spread")
        raise


def _check_apart(stages: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    seen: dict[int, int] = {}
    for number, stage in enumerate(stages):
        for path, x in (item for tensors in stage for item in tensors.items()):
            if seen.setdefault(id(x), number) != number:
                raise UnsupportedOperation(
                    "spreading layers that share a parameter over several devices",
                    f"{path!r} belongs to layers of two devices: keep them together, with at=…",
                )


def _checked(at: Sequence[int], devices: int, layers: int) -> list[int]:
    given = list(at) if isinstance(at, (list, tuple)) else []
    found = [n for n in (non_negative_integer(each, layers - 1) for each in given) if n]
    if len(found) != devices - 1 or len(given) != len(found) or found != sorted(set(found)):
        raise InvalidDataError(
            f"at must be a list of {count_text(devices - 1, 'position')} from 1 to {layers - 1}, "
            f"in increasing order, not {shown(at)}."
        )
    return found


def _balanced(sizes: Sequence[int], count: int) -> list[int]:
    """Where each stage but the first begins, such that the largest is as small as possible."""
    total = [0, *accumulate(sizes)]

    @cache
    def best(start: int, stages: int) -> tuple[int, tuple[int, ...]]:
        if stages == 1:
            return total[-1] - total[start], ()
        ends = range(start + 1, len(sizes) - stages + 2)
        rests = ((end, best(end, stages - 1)) for end in ends)
        return min(
            (max(total[end] - total[start], most), (end, *cuts)) for end, (most, cuts) in rests
        )

    return list(best(0, count)[1])


def _nbytes(tensors: Mapping[str, Any], backend: Backend) -> int:
    return sum(nbytes_of(x, backend) for x in {id(x): x for x in tensors.values()}.values())
