"""``place`` moves a model; ``parameters`` lists what it contains."""

from __future__ import annotations

from unidev.calls.boundary import call
from unidev.calls.transfers import of_model
from unidev.devices.finding import resolve_device
from unidev.errors import NotAModelError, NotATensorError
from unidev.support.forking import fork_safe_lock
from unidev.support.wording import kind_of
from unidev.tensors.classify import CONTAINER, MODEL, TENSOR, Handle, classify, model_of
from unidev.tensors.containers import tensors_of

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from typing import Any, TypeVar, overload

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device
    from unidev.contract.models import Models
    from unidev.devices.finding import DeviceLike

    M = TypeVar("M")
    Opt = TypeVar("Opt")
else:

    def overload(signature: object) -> object:
        """Typing's, at no cost."""
        return signature


_one_at_a_time = fork_safe_lock(is_outermost=True)
"""Models may share layers, so a lock for each would not keep two threads apart."""


@overload
def place(  # noqa: D103
    model: M, device: DeviceLike, /, *, optimizer: None = None
) -> M: ...
@overload
def place(  # noqa: D103, F811
    model: M, device: DeviceLike, /, *, optimizer: Opt
) -> tuple[M, Opt]: ...
def place(  # noqa: F811  ruff knows only the decorator of typing
    model: Any, device: DeviceLike, /, *, optimizer: Any = None
) -> Any:
    """Move ``model`` to ``device`` in place; returns the same object.

    Parameters, buffers and gradients get new memory on ``device``. Parameter objects keep their
    identity, so existing optimizers still train them. Tied weights stay tied and frozen ones
    frozen; hooks and the training mode are kept. A model that is already on ``device`` is not
    touched. Everything is copied before the old memory is released: the device needs room for the
    complete model, and if anything fails, the model stays where it was, unchanged; also if signal
    handlers raise (Ctrl-C, an alarm), however often. A thread waits while another
    one places a model.

    Args:
        model: a PyTorch ``Module``, a Keras ``Model`` or ``Layer``, a ``tf.Module``, a Paddle
            ``Layer``, a Gluon ``Block`` or a ``unidev.nn`` layer; with NumPy also a nested dict or
            list of arrays, which are replaced in it.
        device: a ``Device``, a string such as ``gpu:1``, or the framework's own device.
        optimizer: the framework's optimizer of this model; its state moves along.

    Returns:
        ``model``; with an optimizer ``(model, optimizer)``, where ``optimizer`` is the one to use
        from now on.

    Raises:
        NotAModelError: ``model`` is not a model; the message says what to use instead.
        UnsupportedOperation: the model cannot be moved (it is not built yet, or spread over several
            devices); the message says what to do.
        DeviceError: ``device`` is invalid or not available.
        OutOfDeviceMemoryError: the model does not fit. Whatever is raised, nothing is changed.

    Semantics: ``module.to(device)`` in PyTorch, except that PyTorch replaces the parameter objects
    between some kinds of device.

    >>> import unidev
    >>> model = {"weight": unidev.zeros((3, 2)), "bias": unidev.zeros(3)}
    >>> unidev.place(model, "cpu") is model
    True
    """
    backend = backend_of_model(model)
    target = resolve_device(device, backend)
    if optimizer is None:
        place_on(target, model, None, backend)
        return model
    return model, place_on(target, model, optimizer, backend)


def place_on(
    target: Device, model: Any, optimizer: Any, backend: Backend, operation: str = "place"
) -> Any:
    """``place``, recorded in traces as ``operation``; returns the optimizer to use from now on."""

    def doing() -> tuple[str, Device]:
        return f"placing a {kind_of(model)} on {target}; it was not moved", target

    with _one_at_a_time:
        return call(
            backend, _placed, backend.models, model, target, optimizer,
            doing=doing,
            operation=operation,
            transfers=lambda: of_model(operation, model, target, backend),
        )  # fmt: skip


def _placed(models: Models, model: Any, target: Device, optimizer: Any) -> Any:
    if optimizer is None and models.is_placed(model, target):
        return None
    return models.place(model, target, optimizer)


def parameters(model: Any, /) -> dict[str, Any]:
    """The parameters of ``model`` by name, frozen ones included, in the framework's order.

    The tensors are the framework's own, not copies: writing to one changes the model. A tied
    parameter is listed once, under its first name.

    Raises:
        NotAModelError: ``model`` is not a model.
        UnsupportedOperation: the model is not built yet; the message says how to build it.

    >>> import unidev
    >>> list(unidev.parameters({"encoder": [unidev.zeros(3)], "bias": unidev.zeros(2)}))
    ['encoder.0', 'bias']
    """
    model = model_of(model)
    return dict(backend_of_model(model).models.parameters(model))


def backend_of_model(model: Any) -> Backend:
    """The backend of ``model``; its ``models`` is available.

    Raises:
        NotAModelError: ``model`` is not a model; the message says what to use instead.
        UnsupportedOperation: the backend does not support models.
    """
    if isinstance(model, Handle):
        raise NotAModelError(
            f"a {kind_of(model)} is not a model: it runs one on several devices. Pass its `model`, "
            f"and make a new {kind_of(model)} for other devices."
        )
    kind, backend = classify(model)
    if kind == CONTAINER:
        return _backend_of_container(model)
    if kind == MODEL and backend is not None:
        return backend
    if kind == TENSOR:
        raise NotAModelError(
            f"a {kind_of(model)} is a tensor, not a model: move tensors with copy_to(x, device) or "
            "as_in_device(x, device)."
        )
    raise NotAModelError(f"a model is required, not {kind_of(model)}.")


def _backend_of_container(model: Any) -> Backend:
    try:
        found = {backend.name: backend for _, backend in tensors_of(model)}
    except NotATensorError as error:  # a model in it
        raise NotAModelError(
            f"this {kind_of(model)} contains a model but is not one itself: pass each model on its "
            "own."
        ) from error
    names = " and ".join(sorted(found)) or "none"
    if len(found) != 1:
        raise NotAModelError(
            f"this {kind_of(model)} is not a model: a container can serve as one if all its "
            f"tensors are of one backend, but these are of: {names}."
        )
    (backend,) = found.values()
    if not backend.models.takes_containers:
        raise NotAModelError(
            f"a {kind_of(model)} of {names} tensors is not a model: as_in_device(x, device) "
            "returns one with its tensors on the device."
        )
    return backend
