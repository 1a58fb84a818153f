"""Mistakes with immutable tensors and functions of them, made in the toy's backend."""

from __future__ import annotations

from mutants.mutant import replace, toy_mutant


@toy_mutant("value_and_grad.of_a_container", around=".autograd:ToyAutograd.of_tensors")
def gradient_of_the_wrong_argument(exact, self, loss_of, leaves):
    """Gradients come in another order than the arguments: those of a tree sorted by its keys."""
    loss, found = exact(self, loss_of, leaves)
    return loss, found[::-1]


@toy_mutant("value_and_grad.called_again")
def gradient_of_a_stale_closure(backend):
    """What was compiled for the first closure serves all of these shapes: a key without it."""
    from toy_backend.autograd import ToyAutograd

    exact, compiled = ToyAutograd.of_tensors, {}

    @replace(ToyAutograd)
    def of_tensors(self, loss_of, leaves):
        key = tuple((x.shape, x.dtype, x.device) for x in leaves)
        return exact(self, compiled.setdefault(key, loss_of), leaves)


@toy_mutant("value_and_grad.called_again", around=".autograd:ToyAutograd.of_tensors")
def value_and_gradient_one_after_the_other(exact, self, loss_of, leaves):
    """The function is called for its value, and again for its gradient: ``f(x), grad(f)(x)``."""
    loss = loss_of(leaves)
    return loss, exact(self, loss_of, leaves)[1]


@toy_mutant("value_and_grad.loss_is_detached", around=".autograd:ToyAutograd.of_tensors")
def loss_that_is_still_traced(exact, self, loss_of, leaves):
    """The loss leaks out of the function that was differentiated."""
    seen = []

    def kept(traced):
        seen.append(loss_of(traced))
        return seen[0]

    _, found = exact(self, kept, leaves)
    return seen[0], found


@toy_mutant(
    "value_and_grad.sgd_is_exact", "trees.trained_anew", around=".autograd:ToyAutograd.descend"
)
def step_in_place_of_an_immutable_tensor(exact, self, parameters, gradients, lr):
    """A step is written into the old tensor's memory, which others have too: donated buffers."""
    new = exact(self, parameters, gradients, lr)
    for x, y in zip(parameters, new, strict=True):
        x.values.flags.writeable = True
        x.values[...] = y.values
    return new


@toy_mutant("value_and_grad.sgd_is_exact", around=".autograd:ToyAutograd.descend")
def new_tensors_of_a_step_on_the_default_device(exact, self, parameters, gradients, lr):
    """Results go where the framework makes new tensors, and not to their operands' device."""
    from toy_backend import framework as toy

    return [toy.put(x, "host") for x in exact(self, parameters, gradients, lr)]


@toy_mutant("model_gradients.of_a_model", around=".framework:value_and_grad_of_model")
def the_model_itself_in_place_of_the_traced_one(exact, function, model, variables):
    """The function gets the user's model, whose variables hold constants."""
    return exact(lambda _: function(model), model, variables)


@toy_mutant("model_gradients.buffers_are_the_models", around=".autograd:ToyAutograd.of_model")
def statistics_stay_in_the_traced_model(exact, self, loss_of, model, trainable):
    """The copy of a model that was traced is dropped with what it learned: ``nnx.split``, alone."""
    from toy_backend import framework as toy

    statistics = [x for _, x in toy.variables(model) if x.kind == "statistic"]
    before = [toy.constant(x) for x in statistics]
    found = exact(self, loss_of, model, trainable)
    for x, value in zip(statistics, before, strict=True):
        x.set(value)
    return found


@toy_mutant("pending.copies_are_computed", profile="tensor", around="copy_to")
def copy_that_is_put_off(_, self, x, device, *__):
    """A lazy copy: it keeps its source's memory, and has none of its own before it is read."""
    from toy_backend import framework as toy

    return toy.put(x, device.native)


@toy_mutant("pending.looking_computes_nothing", profile="tensor", around="device_of")
def look_that_computes(exact, self, x):
    """The device is asked of the memory, which has to be there first: ``x.numpy().device``."""
    _ = x.values
    return exact(self, x)


@toy_mutant("pending.gradient_of_a_copy", profile="tensor", around="copy_to")
def gradient_lost_by_computing(exact, self, x, device, *rest):
    """What is pending is computed first, and the numbers copied: ``x.realize()`` ends the graph."""
    from toy_backend import framework as toy

    if x.is_pending:
        return toy.array(x.values, device.native)
    return exact(self, x, device, *rest)


@toy_mutant("models.what_is_no_model_is_refused", around="is_model")
def any_object_is_a_model(*_):
    """What can be called is a model, if the framework has no class of them: a function, too."""
    return True


@toy_mutant("models.parameters_by_name", around=".models:ToyModels.parameters")
def tied_tensors_are_listed_by_each_name(_, self, model):
    """Each entry of the one list is a parameter: a tied one of a ``state_dict`` comes twice."""
    return {name: x for name, x, trained in self.listed(model) if trained is not None}


@toy_mutant("placing.optimizer_state_moves", around=".models:ToyModels.parts")
def the_list_of_the_model_alone_moves(parts, self, model, optimizer):
    """An optimizer has a list of tensors, too, which stays behind."""
    return parts(self, model, None)
