"""Mistakes with immutable tensors and functions of them, made in the toy's backend."""

from __future__ import annotations

from typing import Any

from mutants.mutant import replace, toy_mutant


@toy_mutant("value_and_grad.of_a_container")
def gradient_of_the_wrong_argument(backend: Any) -> None:
    """Gradients come in another order than the arguments: those of a tree sorted by its keys."""
    from toy_backend.autograd import ToyAutograd

    exact = ToyAutograd.of_tensors

    @replace(ToyAutograd)
    def of_tensors(self: Any, loss_of: Any, leaves: Any) -> Any:
        loss, found = exact(self, loss_of, leaves)
        return loss, found[::-1]


@toy_mutant("value_and_grad.called_again")
def gradient_of_a_stale_closure(backend: Any) -> None:
    """What was compiled for the first closure serves all of these shapes: a key without it."""
    from toy_backend.autograd import ToyAutograd

    exact, compiled = ToyAutograd.of_tensors, {}

    @replace(ToyAutograd)
    def of_tensors(self: Any, loss_of: Any, leaves: Any) -> Any:
        key = tuple((x.shape, x.dtype, x.device) for x in leaves)
        return exact(self, compiled.setdefault(key, loss_of), leaves)


@toy_mutant("value_and_grad.called_again")
def value_and_gradient_one_after_the_other(backend: Any) -> None:
    """The function is called for its value, and again for its gradient: ``f(x), grad(f)(x)``."""
    from toy_backend.autograd import ToyAutograd

    exact = ToyAutograd.of_tensors

    @replace(ToyAutograd)
    def of_tensors(self: Any, loss_of: Any, leaves: Any) -> Any:
        loss = loss_of(leaves)
        return loss, exact(self, loss_of, leaves)[1]


@toy_mutant("value_and_grad.loss_is_detached")
def loss_that_is_still_traced(backend: Any) -> None:
    """The loss leaks out of the function that was differentiated."""
    from toy_backend.autograd import ToyAutograd

    exact = ToyAutograd.of_tensors

    @replace(ToyAutograd)
    def of_tensors(self: Any, loss_of: Any, leaves: Any) -> Any:
        seen = []

        def kept(traced: Any) -> Any:
            seen.append(loss_of(traced))
            return seen[0]

        _, found = exact(self, kept, leaves)
        return seen[0], found


@toy_mutant("value_and_grad.sgd_is_exact", "trees.trained_anew")
def step_in_place_of_an_immutable_tensor(backend: Any) -> None:
    """A step is written into the old tensor's memory, which others have too: donated buffers."""
    from toy_backend.autograd import ToyAutograd

    exact = ToyAutograd.descend

    @replace(ToyAutograd)
    def descend(self: Any, parameters: Any, gradients: Any, lr: float) -> Any:
        new = exact(self, parameters, gradients, lr)
        for x, y in zip(parameters, new, strict=True):
            x.values.flags.writeable = True
            x.values[...] = y.values
        return new


@toy_mutant("value_and_grad.sgd_is_exact")
def new_tensors_of_a_step_on_the_default_device(backend: Any) -> None:
    """Results go where the framework makes new tensors, and not to their operands' device."""
    from toy_backend import framework as toy
    from toy_backend.autograd import ToyAutograd

    exact = ToyAutograd.descend

    @replace(ToyAutograd)
    def descend(self: Any, parameters: Any, gradients: Any, lr: float) -> Any:
        return [toy.put(x, "host") for x in exact(self, parameters, gradients, lr)]


@toy_mutant("value_and_grad.of_a_model")
def the_model_itself_in_place_of_the_traced_one(backend: Any) -> None:
    """The function gets the user's model, whose variables hold constants."""
    from toy_backend import framework as toy

    exact = toy.value_and_grad_of_model

    @replace(toy)
    def value_and_grad_of_model(function: Any, model: Any, variables: Any) -> Any:
        return exact(lambda _: function(model), model, variables)


@toy_mutant("value_and_grad.buffers_are_the_models")
def statistics_stay_in_the_traced_model(backend: Any) -> None:
    """The copy of a model that was traced is dropped with what it learned: ``nnx.split``, alone."""
    from toy_backend import framework as toy
    from toy_backend.autograd import ToyAutograd

    exact = ToyAutograd.of_model

    @replace(ToyAutograd)
    def of_model(self: Any, loss_of: Any, model: Any, trainable: Any) -> Any:
        statistics = [x for _, x in model.variables() if x.kind == "statistic"]
        before = [toy.constant(x) for x in statistics]
        found = exact(self, loss_of, model, trainable)
        for x, value in zip(statistics, before, strict=True):
            x.set(value)
        return found
