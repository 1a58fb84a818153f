"""Models as a whole: ``place`` moves one, ``parameters`` names what is in it."""

from __future__ import annotations

from unidev.calls.boundary import call, errors_of
from unidev.calls.transfers import of_model
from unidev.devices.finding import resolve_device
from unidev.errors import NotAModelError, NotATensorError
from unidev.support.wording import kind_of
from unidev.tensors.classify import CONTAINER, MODEL, TENSOR, classify
from unidev.tensors.containers import tensors_of

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from typing import Any

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device
    from unidev.devices.finding import DeviceLike


def place(model: Any, device: DeviceLike, /, *, optimizer: Any = None) -> Any:
    """Move ``model`` to ``device`` in place, with all that hangs on it; returns the same object.

    Parameters, buffers and gradients get new memory on ``device``; the parameter objects stay the
    same ones, so that an optimizer made before still trains them. Tied weights stay tied, frozen
    ones frozen, hooks and the mode (training or not) stay. A model that is there already is not
    touched. All has arrived before anything is given up: what fails half way leaves the model where
    it was, whole. The device needs room for the whole model meanwhile.

    Args:
        model: a ``Module`` of PyTorch, a Keras ``Model`` or ``Layer``, a ``tf.Module``, a ``Layer``
            of Paddle, a Gluon ``Block``, what ``unidev.nn`` makes; for NumPy also a dict or list of
            arrays, nested or not, in which the arrays are replaced.
        device: a ``Device``, a string such as ``gpu:1``, or the framework's own device.
        optimizer: the framework's own, made for this model; its state moves along.

    Returns:
        ``model``; with an optimizer ``(model, optimizer)``, the one to go on with.

    Raises:
        NotAModelError: ``model`` is none; says what to do with such a thing.
        UnsupportedOperation: it cannot be moved (it is not built yet, it is spread over several
            devices); says what to do.
        DeviceError: ``device`` makes no sense, or is not there.
        OutOfDeviceMemoryError: it does not fit. Nothing is changed, whatever is raised.

    Semantics: ``module.to(device)`` in PyTorch, which, between some kinds of device, makes new
    parameters in place of the old ones.

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
    """``place``, of which ``operation`` is what a trace calls it; gives the optimizer."""
    doing = f"placing a {kind_of(model)} on {target}; it is where it was", target
    models = backend.models
    with errors_of(backend, lambda: doing):
        if optimizer is None and models.is_placed(model, target):
            return None
    return call(
        backend, models.place, model, target, optimizer,
        doing=lambda: doing,
        operation=operation,
        transfers=lambda: of_model(operation, model, target, backend),
    )  # fmt: skip


def parameters(model: Any, /) -> dict[str, Any]:
    """The parameters of ``model`` by name, frozen ones included, in the framework's order.

    They are the framework's own tensors: what is written to one changes the model. A tied one
    stands once, under its first name.

    Raises:
        NotAModelError: ``model`` is none.
        UnsupportedOperation: they do not exist before the model is built; says how.

    >>> import unidev
    >>> list(unidev.parameters({"encoder": [unidev.zeros(3)], "bias": unidev.zeros(2)}))
    ['encoder.0', 'bias']
    """
    return dict(backend_of_model(model).models.parameters(model))


def backend_of_model(model: Any) -> Backend:
    """The backend of ``model``, of which ``models`` is there.

    Raises:
        NotAModelError: it is no model; says what to do.
        UnsupportedOperation: its backend does not look into models.
    """
    kind, backend = classify(model)
    if kind == CONTAINER:
        return _backend_of_container(model)
    if kind == MODEL and backend is not None:
        return backend
    if kind == TENSOR:
        raise NotAModelError(
            f"this is a tensor, of type {kind_of(model)}, not a model: copy_to(x, device) and "
            "as_in_device(x, device) move tensors."
        )
    raise NotAModelError(f"a model is needed, and this is of type {kind_of(model)}.")


def _backend_of_container(model: Any) -> Backend:
    try:
        found = {backend.name: backend for _, backend in tensors_of(model)}
    except NotATensorError as error:  # a model in it
        raise NotAModelError(
            f"this {kind_of(model)} holds a model, and is none: place each model by itself."
        ) from error
    names = " and ".join(sorted(found)) or "none"
    if len(found) != 1:
        raise NotAModelError(
            f"this {kind_of(model)} is no model: one that is a container holds tensors of one "
            f"backend, and the tensors here are of {names}."
        )
    (backend,) = found.values()
    if not backend.models.takes_containers:
        raise NotAModelError(
            f"a {kind_of(model)} of tensors of {names} is no model: as_in_device(x, device) gives "
            "one whose tensors are there."
        )
    return backend
