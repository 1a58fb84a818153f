"""Gradients, computed by each framework's autograd, and plain gradient descent."""

from __future__ import annotations

import functools

from unidev.backends.boundary import call, errors_of, translated
from unidev.backends.loading import backend_of_type
from unidev.backends.selection import active_backend
from unidev.contract.dtypes import portable_name
from unidev.errors import (
    InvalidDataError,
    NotATensorError,
    UnidevError,
    UnsupportedDtypeError,
    UnsupportedOperation,
)
from unidev.models.trees import rebuilt
from unidev.system.arguments import real_number
from unidev.system.wording import kind_of, shown
from unidev.tensors.checks import check_memory
from unidev.tensors.containers import Opened, tensors_of
from unidev.tensors.creating import zeros_like
from unidev.tensors.device_messages import mixed_backends
from unidev.tensors.kinds import MODEL, Handle, classify, model_of, shape_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, ParamSpec, Protocol, TypeVar

    from unidev.contract.backend import Backend

    L = TypeVar("L")
    P = TypeVar("P")
    Q = ParamSpec("Q")

    class Watcher(Protocol):
        """Sees the gradients of one ``value_and_grad`` of a model while backward makes them."""

        def wants(self, parameters: Mapping[str, Any]) -> bool:
            """Whether to call ``evaluated``; before forward, with the parameters by name."""

        @property
        def wants_gradients(self) -> bool:
            """Whether to call ``made``."""

        def evaluated(self, loss: Any) -> None:
            """Forward is done, and backward follows."""

        def made(self, position: int, gradient: Any) -> None:
            """The gradient of the parameter at this position is whole; it is only read."""


def value_and_grad(function: Callable[Q, L], /) -> Callable[Q, tuple[L, Any]]:
    """A function that returns the loss and its gradients with respect to the first argument.

    Args:
        function: takes a model, a floating-point tensor or a nested container of them, then any
            other arguments; returns the loss, a tensor with one element.

    Returns:
        A function of the same arguments that returns ``(loss, gradients)``, all of them new
        and detached: unless tensors are immutable, they share no memory with each other or with a
        parameter (what a custom backward returns is copied only for that). Each gradient has the
        dtype and the device of its parameter. For a container, they come in a container of the same
        structure; for a model, in a dict by parameter name, without frozen ones and integers.
        Parameters that the loss does not depend on get zero gradients. Gradients that the framework
        stores (``x.grad``) are not changed.

    Raises:
        InvalidDataError: ``function`` is not one.

    Raises, when that function is called:
        InvalidDataError: the loss does not have one element, or depends on no parameter.
        NotATensorError: the first argument contains nothing to differentiate with respect to.
        UnsupportedDtypeError: it contains integer or boolean tensors.
        UnsupportedOperation: the framework has no autograd.
        UnsupportedOperation: a custom function differentiates in its backward what is not its
        input, as reentrant checkpointing does.

    Semantics: ``jax.value_and_grad``. ``function`` computes with the argument that it is given: one
    that uses a model or tensor of an enclosing scope instead gets its gradient only where the
    framework records what is computed with it (PyTorch, TensorFlow, PaddlePaddle, MXNet); for JAX
    it is a constant. An example::

        loss, gradients = unidev.value_and_grad(loss_of)(net, batch)
        unidev.sgd(net, gradients, lr=0.1)
    """
    if not callable(function):
        raise InvalidDataError(f"value_and_grad needs a function, not {shown(function)}.")

    @functools.wraps(function)
    def evaluate(parameters: Any, /, *arguments: Any, **options: Any) -> tuple[Any, Any]:
        if isinstance(parameters, Handle):
            of_model = functools.partial(_of_model, function)
            return parameters.value_and_grad(of_model, arguments, options)
        kind, backend = classify(parameters)
        if kind == MODEL and backend is not None:
            return _of_model(function, parameters, arguments, options)
        unique, backend = _unique(parameters)
        check_memory(backend, list(unique.values()))
        with errors_of(backend, "computing gradients"):
            leaves = [backend.autograd.leaf(x) for x in unique.values()]
        for x in unique.values():  # after `leaf`, so that a framework's own error comes first
            _check_differentiable(x, backend)

        def loss_of(represented: Sequence[Any]) -> Any:
            first = rebuilt(parameters, unique.values(), represented)
            return function(first, *arguments, **options)

        loss, found = _computed(
            backend, leaves, loss_of, lambda checked: backend.autograd.of_tensors(checked, leaves)
        )
        return loss, rebuilt(parameters, unique.values(), found)

    return evaluate  # type: ignore[return-value]  # of which parameters, `function` checks


def sgd(parameters: P, gradients: Any, /, lr: float) -> P:
    """Take a step of gradient descent: subtract ``lr`` times its gradient from each parameter.

    Mutable tensors are updated in place, immutable ones replaced: assigning the result suits both::

        parameters = unidev.sgd(parameters, gradients, lr=0.1)

    Args:
        parameters: a model, or a tensor or nested container of them.
        gradients: as returned by ``value_and_grad``; for a model, names may be left out.
        lr: the learning rate, a real number.

    Returns:
        ``parameters`` itself; if its tensors are immutable, a container of new ones.

    Raises:
        InvalidDataError: names, shapes or devices do not match; the message says which.
        NotATensorError: a gradient is not a tensor. After either, nothing is changed.
    """
    rate = real_number(lr)
    if rate is None:
        raise InvalidDataError(f"lr, the learning rate, must be a real number, not {shown(lr)}.")
    kind, backend = classify(parameters)
    if kind == MODEL and backend is not None:
        named = backend.models.parameters(model_of(parameters))
        _check_names(named, gradients)
        _descend(backend, [named[name] for name in gradients], [*gradients.values()], float(rate))
        return parameters
    unique, backend = _unique(parameters)
    pairs = {id(x): (x, gradient) for x, gradient in _in_order(parameters, gradients)}
    xs, found = map(list, zip(*pairs.values(), strict=True))
    new = _descend(backend, xs, found, float(rate))
    return rebuilt(parameters, unique.values(), new)  # type: ignore[no-any-return]


def no_grad() -> AbstractContextManager[Any]:
    """``with unidev.no_grad():`` does not record operations for autograd inside the block.

    Applies to the selected backend, in this thread.

    Raises:
        UnsupportedOperation: the backend has no autograd; or this is inside a function that JAX
            differentiates or compiles, which cannot stop recording there.
    """
    return active_backend().autograd.no_grad()


def _of_model(
    function: Callable[..., Any],
    model: Any,
    arguments: Sequence[Any],
    options: Mapping[str, Any],
    watcher: Watcher | None = None,
) -> tuple[Any, dict[str, Any]]:
    """The loss, and a gradient by parameter name."""
    _, backend = classify(model)
    assert backend is not None, "a model has a backend"
    named = backend.models.trainable(model)
    if not named:
        raise NotATensorError(f"this {kind_of(model)} has no trainable parameters.")
    leaves = list(named.values())
    check_memory(backend, leaves)
    if watcher is not None and not watcher.wants(named):
        watcher = None

    def loss_of(represented: Any) -> Any:
        return function(represented, *arguments, **options)

    def differentiate(checked: Callable[[Any], Any]) -> tuple[Any, Sequence[Any]]:
        autograd = backend.autograd
        if watcher is not None and watcher.wants_gradients:
            return autograd.gradients_as_made(lambda: checked(model), leaves, watcher.made)
        return autograd.of_model(checked, model, named)

    loss, found = _computed(backend, leaves, loss_of, differentiate, watcher)
    return loss, dict(zip(named, found, strict=True))


def _computed(
    backend: Backend,
    leaves: list[Any],
    loss_of: Callable[[Any], Any],
    differentiate: Callable[[Callable[[Any], Any]], tuple[Any, Sequence[Any]]],
    watcher: Watcher | None = None,
) -> tuple[Any, Sequence[Any]]:
    """The loss and each leaf's gradient; ``differentiate`` gets ``loss_of`` with checks."""
    of_the_user: list[Exception] = []

    def checked(represented: Any) -> Any:
        try:
            loss = loss_of(represented)
        except Exception as error:
            of_the_user.append(error)
            raise
        is_tensor = backend_of_type(type(loss)) is backend
        if not is_tensor or (loss.shape and any(size != 1 for size in loss.shape)):
            found = f"a tensor of shape {tuple(loss.shape)}" if is_tensor else kind_of(loss)
            raise InvalidDataError(f"the loss must be a tensor with one element, not {found}.")
        if watcher is not None:
            watcher.evaluated(loss)
        return loss

    try:
        # Not through `call`: transfers made by the user's function are recorded as the user's own.
        loss, found = differentiate(checked)
    except backend.framework_errors as error:
        if isinstance(error, UnidevError) or any(error is each for each in of_the_user):
            raise
        raise translated(error, backend, "computing gradients") from error
    finally:
        of_the_user.clear()  # or they, their frames and what those hold are a cycle
    is_missing = [gradient is None for gradient in found]
    if False not in is_missing:
        raise InvalidDataError(
            "the loss does not depend on any parameter: compute it from the function's arguments."
        )
    if True not in is_missing:
        return loss, found
    return loss, [
        zeros_like(leaf) if gradient is None else gradient
        for leaf, gradient in zip(leaves, found, strict=True)
    ]


def _unique(parameters: Any) -> tuple[dict[int, Any], Backend]:
    """Each tensor once, by its id, and the backend of all of them."""
    found = tensors_of(parameters)
    if not found:
        raise NotATensorError(f"this {kind_of(parameters)} contains no tensors.")
    backend = found[0][1]
    for _, other in found:
        if other is not backend:
            raise mixed_backends("the parameters are tensors", backend, other)
    return {id(x): x for x, _ in found}, backend


def _check_differentiable(x: Any, backend: Backend) -> None:
    # Some frameworks would return gradients for integers as well.
    name = portable_name(x.dtype, backend) or ""
    if name == "bool" or "int" in name:
        raise UnsupportedDtypeError(
            f"there is no gradient with respect to a tensor of {name}: pass floating-point ones."
        )


def _check_names(named: Mapping[str, Any], gradients: Any) -> None:
    if not isinstance(gradients, dict):
        raise InvalidDataError(
            f"the gradients of a model must be a dict by parameter name, not {kind_of(gradients)}."
        )
    if not gradients.keys() <= named.keys():
        unknown = [name for name in gradients if name not in named]
        raise InvalidDataError(
            f"the model has no parameter {shown(unknown[0])}; it has: {', '.join(named)}."
        )


def _in_order(parameters: Any, gradients: Any) -> list[tuple[Any, Any]]:
    ours, theirs = Opened(parameters), Opened(gradients)
    ours.check_whole()
    if len(ours.tensors) != len(theirs.tensors):
        raise InvalidDataError(
            f"the number of gradients ({len(theirs.tensors)}) differs from the number of "
            f"parameters ({len(ours.tensors)})."
        )
    if not ours.has_structure_of(theirs):  # with the same structure, paths are equal
        for path, other in zip(ours.paths(), theirs.paths(), strict=True):
            if path != other:
                raise InvalidDataError(
                    f"a parameter is at {path or 'the top'}, but its gradient at "
                    f"{other or 'the top'}: gradients must come in a container of the same "
                    "structure."
                )
    return [
        (x, gradient) for (x, _), (gradient, _) in zip(ours.tensors, theirs.tensors, strict=True)
    ]


def _descend(backend: Backend, xs: list[Any], gradients: list[Any], lr: float) -> Sequence[Any]:
    if not backend.autograd.match(xs, gradients):
        _check_pairs(backend, xs, gradients)
    return call(backend, backend.autograd.descend, xs, gradients, lr, doing="taking an sgd step")


def _check_pairs(backend: Backend, xs: list[Any], gradients: list[Any]) -> None:
    for x, gradient in zip(xs, gradients, strict=True):
        if backend_of_type(type(gradient)) is not backend:
            raise NotATensorError(f"a gradient must be a tensor, not {kind_of(gradient)}.")
        # First: MXNet ends the process when such a tensor is asked anything.
        backend.check_memory(x)
        backend.check_memory(gradient)
        try:
            difference = _difference(x, gradient, backend)
        except (InvalidDataError, UnsupportedOperation):
            if backend.traced(x) or backend.traced(gradient):
                continue  # the framework compares them when the compiled function runs
            raise
        if difference:
            raise InvalidDataError(f"a parameter {difference}.")


def _difference(x: Any, gradient: Any, backend: Backend) -> str:
    """Where the two differ so that they do not fit, in words.

    Raises:
        InvalidDataError: a shape is not known in full.
        UnsupportedOperation: nor is a device, as within a traced function.
    """
    if shape_of(x) != shape_of(gradient):
        return f"has shape {shape_of(x)}, but its gradient {shape_of(gradient)}"
    here, there = backend.device_of(x), backend.device_of(gradient)
    return "" if here is there else f"is on {here}, but its gradient on {there}"
