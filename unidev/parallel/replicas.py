"""``replicate`` of a model: copies of the Python object, one on each device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.errors import UnidevError, UnsupportedOperation
from unidev.models.placing import backend_of_model, place_on
from unidev.parallel.arguments import checked_devices
from unidev.support.wording import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device
    from unidev.devices.finding import DeviceLike


def replicate_model(model: Any, devices: Sequence[DeviceLike]) -> list[Any]:
    """``replicate`` of a model; see there."""
    backend = backend_of_model(model)
    targets = checked_devices(devices, backend)
    return [_copy_on(device, model, backend) for device in targets]


def _copy_on(device: Device, model: Any, backend: Backend) -> Any:
    try:
        made = backend.models.copy(model)
    except UnidevError:
        raise
    except Exception as error:  # copying runs code of every class in the model
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        raise UnsupportedOperation(
            f"a copy of this {kind_of(model)}",
            f"its framework cannot make one ({type(error).__name__}: {reason}); "
            "unidev.DataParallel(model, devices) needs no copy",
        ) from error
    place_on(device, made, None, backend, "replicate")
    return made
