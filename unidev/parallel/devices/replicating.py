"""``replicate`` and ``broadcast``: the same values on several devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.errors import UnidevError, UnsupportedOperation
from unidev.models.placing import backend_of_model, place_on
from unidev.parallel.devices.arguments import checked_devices, one_backend
from unidev.parallel.devices.packing import copied, copied_to, unrecorded
from unidev.system.wording import kind_of
from unidev.tensors.checks import check_same_device
from unidev.tensors.containers import Opened, replace_tensors
from unidev.tensors.kinds import is_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.tensors.devices import DeviceLike

    T = TypeVar("T")


def replicate(tree_or_model: T, devices: Sequence[DeviceLike], /) -> list[T]:
    """Copies of a model, or of a container of tensors, one on each of ``devices``.

    No two share memory, nor does one with the original. Ties, frozen parameters, a model's
    statistics and its training mode are kept. Copies of tensors have no autograd history.

    Args:
        tree_or_model: a tensor, a nested container of tensors, or a model, which is copied as a
            Python object and then placed.
        devices: of its framework; one may be listed twice, and gets two copies.

    Returns:
        The copies, in the order of ``devices``.

    Raises:
        UnsupportedOperation: its framework cannot copy this model: ``DataParallel`` needs no copy.
        DeviceError: there are no devices, or one is invalid or not available.
        NotATensorError, ContainerError: it can be neither copied nor placed.

    Semantics: ``jax.device_put_replicated``; d2l's ``get_params``.

    >>> import unidev
    >>> w = unidev.ones(2)
    >>> a, b = unidev.replicate({"w": w, "same": w}, ["cpu", "cpu"])
    >>> a["w"] is a["same"], unidev.shares_memory(a["w"], b["w"])
    (True, False)
    """
    if is_model(tree_or_model):
        backend = backend_of_model(tree_or_model)
        targets = checked_devices(devices, backend)
        return [_copy_on(device, tree_or_model, backend) for device in targets]
    backend = one_backend(Opened(tree_or_model).tensors, "the container")
    targets = checked_devices(devices, backend)
    with unrecorded(backend):
        return [replace_tensors(_copier(device), tree_or_model) for device in targets]


def broadcast(tree: T, devices: Sequence[DeviceLike], /) -> list[T]:
    """Copies of ``tree``, one on each of ``devices``, made with few transfers.

    As ``replicate`` of a container, except that the tensors travel packed, as ``all_reduce``
    describes; those of one copy may therefore be parts of one buffer.

    Raises:
        DeviceMismatchError: the tensors are on several devices.
        DeviceError: there are no devices, or one is invalid or not available.
        NotATensorError, ContainerError: ``tree`` cannot be copied.
        UnsupportedOperation: a tensor is sparse, ragged or nested: ``replicate`` copies it.

    >>> import unidev
    >>> a, b = unidev.broadcast([unidev.ones(2), unidev.zeros(())], ["cpu", "cpu"])
    >>> unidev.to_numpy(b[0]).tolist()
    [1.0, 1.0]
    """
    opened = Opened(tree)
    backend = one_backend(opened.tensors, "tree")
    targets = checked_devices(devices, backend)
    check_same_device(tree=tree)
    backend.collectives.check_dense([x for x, _ in opened.tensors], True)
    unique = {id(x): x for x, _ in opened.tensors}
    copies = copied_to(backend, list(unique.values()), targets, "broadcast")
    made = [dict(zip(unique, tensors, strict=True)) for tensors in copies]
    return [opened.with_tensors(by_id[id(x)] for x, _ in opened.tensors) for by_id in made]


def _copier(device: Device) -> Callable[[Any, Backend], Any]:
    return lambda x, backend: copied(backend, "replicate", x, device)


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
    return place_on(device, made, None, backend, "replicate")[0]
