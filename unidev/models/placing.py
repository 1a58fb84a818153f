"""``place`` moves a model; ``parameters`` lists what it contains."""

from __future__ import annotations

import warnings

from unidev.backends.boundary import call
from unidev.backends.loading import backend_of_type, backends_of_namespace
from unidev.backends.transfers import of_model, of_tensors
from unidev.contract.models import found_in
from unidev.errors import (
    LeftBehindWarning,
    NotAModelError,
    NotATensorError,
    UnsupportedContainerError,
)
from unidev.models import trees
from unidev.system.forking import fork_safe_lock
from unidev.system.wording import kind_of, type_name
from unidev.tensors.checks import MOST_NAMED
from unidev.tensors.containers import tensors_of
from unidev.tensors.device_messages import two_backends
from unidev.tensors.devices import resolve_device
from unidev.tensors.kinds import CONTAINER, MODEL, OTHER, Handle, classify, is_optimizer, model_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeVar, overload

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.tensors.devices import DeviceLike
    from unidev.values import PlannedTransfer

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
    """Move ``model`` to ``device``: in place, or, if it is an immutable tree, as a new one.

    Assigning the result works with every framework::

        net = unidev.place(net, device)

    A model with an identity (a ``Module``, ``Layer``, ``Block``) is moved in place and returned.
    Parameters, buffers and gradients get new memory on ``device``. Parameter objects keep their
    identity, so existing optimizers still train them. Tied weights stay tied and frozen ones
    frozen; hooks and the training mode are kept. Everything is copied before the old memory is
    released: the device needs room for the complete model, and if anything fails, the model stays
    where it was, unchanged; also if signal handlers raise (Ctrl-C, an alarm), however often. A
    thread waits while another one places a model.

    Where tensors are immutable, a container of them (a dict of parameters, a frozen dataclass, a
    module that is a tree) is a model, too. It is not changed: a new tree of the same structure is
    returned, in which a tensor that occurs twice still does.

    A model that is already on ``device`` is returned as it is. A ``LeftBehindWarning`` names the
    tensors that a model keeps elsewhere without registering them, which do not move.

    Args:
        model: a PyTorch ``Module``, a Keras ``Model`` or ``Layer``, a ``tf.Module``, a Paddle
            ``Layer``, a Gluon ``Block`` or a ``unidev.nn`` layer; with NumPy also a nested dict or
            list of arrays, which are replaced in it; with a framework of immutable tensors, a tree.
        device: a ``Device``, a string such as ``gpu:1``, or the framework's own device.
        optimizer: the framework's optimizer of this model, or of a tree the optimizer's state; it
            moves along. An optimizer in place of ``model`` moves alone (PyTorch, Paddle, MXNet): to
            the CPU and back, say, while its memory is needed.

    Returns:
        The model to use from now on, ``model`` itself or a new tree. With an optimizer
        ``(model, optimizer)``, those to use from now on.

    Raises:
        NotAModelError: ``model`` is not a model; the message says what to use instead.
        UnsupportedOperation: the model cannot be moved (it is not built yet, or spread over several
            devices); the message says what to do.
        DeviceError: ``device`` is invalid or not available.
        OutOfDeviceMemoryError: the model does not fit. Whatever is raised, nothing is changed.

    Semantics: ``module.to(device)`` in PyTorch, but never with new parameter objects.

    >>> import unidev
    >>> model = {"weight": unidev.zeros((3, 2)), "bias": unidev.zeros(3)}
    >>> unidev.place(model, "cpu") is model
    True
    """
    backend = backend_of_model(model, takes_trees=True, takes_optimizers=optimizer is None)
    target = resolve_device(device, backend)
    if optimizer is None and issubclass(type(model), backend.optimizer_types):
        return place_on(target, None, model, backend)[1]
    placed = place_on(target, model, optimizer, backend)
    return placed[0] if optimizer is None else placed


def place_on(
    target: Device, model: Any, optimizer: Any, backend: Backend, operation: str = "place"
) -> tuple[Any, Any]:
    """``place``, recorded in traces as ``operation``; model and optimizer to use from now on."""

    def doing() -> tuple[str, Device]:
        what = kind_of(optimizer if model is None else model)
        return f"placing a {what} on {target}; it was not moved", target

    left: dict[str, Device] = {}
    with _one_at_a_time:
        placed = call(
            backend, _placed, backend, model, target, optimizer, left,
            doing=doing,
            operation=operation,
            transfers=lambda: _transfers(operation, model, optimizer, target, backend),
        )  # fmt: skip
    if left:
        text = _left_behind(model, target, left, backend)
        warnings.warn(text, LeftBehindWarning, stacklevel=3)
    return placed


def _placed(
    backend: Backend, model: Any, target: Device, optimizer: Any, left: dict[str, Device]
) -> tuple[Any, Any]:
    """Model and optimizer to use; ``left`` gets what the model keeps elsewhere."""
    models = backend.models
    if models.rebuilds_containers and trees.is_tree(model, backend):
        return trees.placed(model, optimizer, target, backend)
    if optimizer is None and models.is_placed(model, target):
        return model, None
    placed = models.placed(model, target, optimizer)
    left |= {} if model is None else models.left_behind(placed[0], target)
    return placed


def _left_behind(model: Any, target: Device, left: Mapping[str, Device], backend: Backend) -> str:
    named = [f"{path} on {device}" for path, device in left.items()]
    more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
    return (
        f"{target} has this {kind_of(model)} now, but not the tensors that it keeps without "
        f"registering them: {', '.join(named[:MOST_NAMED])}{more}. Register them "
        f"{backend.models.registering}, or move them with as_in_device(x, device). To silence "
        'this: warnings.filterwarnings("ignore", category=unidev.errors.LeftBehindWarning).'
    )


def _transfers(
    operation: str, model: Any, optimizer: Any, target: Device, backend: Backend
) -> tuple[PlannedTransfer, ...]:
    if model is None:
        return ()
    if not trees.is_tree(model, backend):
        return of_model(operation, model, target, backend)
    moving = [x for x, _ in tensors_of((model, optimizer))]
    return of_tensors(operation, moving, target, backend)


def parameters(model: Any, /) -> dict[str, Any]:
    """The parameters of ``model`` by name, frozen ones included, in the framework's order.

    The tensors are the framework's own, not copies: writing to one changes the model. A tied
    parameter is listed once, under its first name. Of a container, all tensors are listed.

    Raises:
        NotAModelError: ``model`` is not a model.
        UnsupportedOperation: the model is not built yet; the message says how to build it.

    >>> import unidev
    >>> list(unidev.parameters({"encoder": [unidev.zeros(3)], "bias": unidev.zeros(2)}))
    ['encoder.0', 'bias']
    """
    model = model_of(model)
    backend = backend_of_model(model, takes_trees=True)
    if trees.is_tree(model, backend):
        return trees.parameters(model)
    return dict(backend.models.parameters(model))


def backend_of_model(
    model: Any, *, takes_trees: bool = False, takes_optimizers: bool = False
) -> Backend:
    """The backend of ``model``; its ``models`` is available.

    ``takes_trees``: whether it may be a container of which the caller makes a new one;
    ``takes_optimizers``: whether it may be an optimizer that is placed alone.

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
    if kind == OTHER and is_optimizer(model):
        backend = next(backends_of_namespace(type(model)))
        if not (takes_optimizers and backend.models.places_optimizers):
            raise NotAModelError(
                f"this is an optimizer, a {kind_of(model)}, not a model: "
                "place(model, device, optimizer=optimizer) moves it along with its model."
            )
        return backend
    if kind in (CONTAINER, OTHER):  # of others, some are registered
        return _backend_of_container(model, kind, takes_trees=takes_trees)
    if kind == MODEL and backend is not None:
        return backend
    raise NotAModelError(
        f"a {kind_of(model)} is a tensor, not a model: move tensors with copy_to(x, device) or "
        "as_in_device(x, device)."
    )


def _not_a_model(x: object) -> NotAModelError:
    if isinstance(x, type):
        return NotAModelError(
            f"a model is required, not the class {type_name(x)}: pass an object of it."
        )
    return NotAModelError(f"a model is required, not {kind_of(x)}.{_why_not(x)}")


def _why_not(x: Any) -> str:
    """For an object that holds tensors: what makes it a model of their framework."""
    is_tensor = lambda held: backend_of_type(type(held)) is not None  # noqa: E731
    for name, tensor in found_in(x, is_tensor, deep=3):
        backend = backend_of_type(type(tensor))
        assert backend is not None  # it is a tensor
        return (
            f" It holds a tensor of {backend.name} ({name}): its backend's models are objects of "
            "the classes in its `model_types`, looked for in the modules of its framework and in "
            "the `namespaces` of its BackendSpec, or what its `Backend.is_model` takes for one."
        )
    return ""


def _backend_of_container(model: Any, kind: str, *, takes_trees: bool) -> Backend:
    try:
        found = {backend.name: backend for _, backend in tensors_of(model)}
    except (NotATensorError, UnsupportedContainerError) as error:
        # Where its tensors are, which it hides, is known to that error alone.
        is_hiding = isinstance(error, UnsupportedContainerError)
        if kind == OTHER:  # not one of those that are registered, or without a tensor
            raise _not_a_model(model) from (error if is_hiding else None)
        if is_hiding:
            raise
        raise NotAModelError(
            f"this {kind_of(model)} contains a model but is not one itself: pass each model on its "
            "own."
        ) from None
    if kind == OTHER and not found:
        raise _not_a_model(model)
    if not found:
        raise NotAModelError(f"this {kind_of(model)} contains no tensor, so it is not a model.")
    names = " and ".join(sorted(found))
    if len(found) != 1:
        raise NotAModelError(
            two_backends(f"this {kind_of(model)} is not a model: it has tensors", *sorted(found))
        )
    (backend,) = found.values()
    models = backend.models
    if models.takes_containers or (models.rebuilds_containers and takes_trees):
        return backend
    if models.rebuilds_containers:
        raise NotAModelError(
            f"this {kind_of(model)} is a tree of immutable tensors: place, parameters, "
            "save_parameters, load_parameters, value_and_grad and sgd take it, and return new "
            "ones. A model is required that can be changed in place."
        )
    raise NotAModelError(
        f"a {kind_of(model)} of {names} tensors is not a model: as_in_device(x, device) "
        "returns one with its tensors on the device, save_parameters(device_get(x), path) saves "
        "them, and load_tensors(path, device) reads them."
    )
