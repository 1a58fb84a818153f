"""Gradients that do not flow, flow where they should not, or arrive elsewhere."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from unidev.conformance.mutants.mutant import in_place_of, replace, replace_value, training_mutant

if TYPE_CHECKING:
    from collections.abc import Iterator


@training_mutant("gradients.probe_calibrated")
def the_gradient_probe_lies(backend: Any) -> None:
    """Every gradient that the probe reports is ones."""
    import numpy as np

    from unidev.conformance.mutants.reference_probes import ReferenceAutogradProbe

    @replace(ReferenceAutogradProbe)
    def gradients(self: Any, function: Any, arrays: Any, devices: Any) -> Any:
        function(*(self.backend.from_numpy(a, a.dtype, d) for a, d in zip(arrays, devices)))  # noqa: B905
        return [self.backend.from_numpy(np.ones_like(a), a.dtype, d)
                for a, d in zip(arrays, devices, strict=True)]  # fmt: skip


@training_mutant("gradients.flow_through_copy_to", "gradients.flag_is_true")
def gradient_cut_while_the_flag_says_otherwise(backend: Any) -> None:
    """The copy says it is differentiable, and leads nowhere: Paddle's ``x.to(copy=True)``."""
    from unidev.conformance.mutants.taped import Taped, is_differentiable

    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        made = copy(self, x, device, non_blocking)
        return Taped.make(made, device) if is_differentiable(made) else made


@training_mutant("gradients.flow_through_as_in_device")
def as_in_device_detaches(backend: Any) -> None:
    """What has to move loses its history: ``torch.tensor(x, device=device)``."""
    import unidev
    from unidev.conformance.mutants.taped import Taped, detached

    as_in = unidev.as_in_device

    @in_place_of(as_in)
    def as_in_device(x: Any, device: Any, *, non_blocking: bool = False) -> Any:
        y = as_in(x, device, non_blocking=non_blocking)
        return detached(y) if isinstance(y, Taped) and y is not x else y


@training_mutant("gradients.land_on_the_sources_device", "value_and_grad.across_devices")
def gradient_on_the_wrong_device(backend: Any) -> None:
    """The gradient stays where the result is: TF's outside of a scope, on CPU:0."""
    from unidev.conformance.mutants.taped import Taped, is_differentiable

    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        made = copy(self, x, device, non_blocking)
        if is_differentiable(made):
            return Taped.make(made, device, [(x, lambda slope: slope)])
        return made


@training_mutant("gradients.detach_cuts")
def copies_of_detached_are_recorded(backend: Any) -> None:
    """A copy goes by whose memory it copies, and so back to what was cut off."""
    from unidev.conformance.mutants.taped import Taped

    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if isinstance(x, Taped) and x.parents is None and isinstance(x.base, Taped):
            return copy(self, x.base, device, non_blocking)
        return copy(self, x, device, non_blocking)


@training_mutant("gradients.accumulate", "gradients.diamond_over_two_devices")
def only_one_way_back_counts(backend: Any) -> None:
    """Of several ways from a source the last alone counts: ``x.grad = …`` in place of ``+=``."""
    from unidev.conformance.mutants import taped

    order = taped._in_order

    @in_place_of(taped.backward)
    def backward(result: Any, slope: Any, leaves: Any) -> Any:
        slopes = {id(result): slope}
        for x in reversed(order(result)):
            for parent, rule in x.parents or ():
                slopes[id(parent)] = rule(slopes[id(x)])
        return [slopes.get(id(leaf)) for leaf in leaves]


@training_mutant("gradients.second_order")
def gradients_of_copies_are_cut(backend: Any) -> None:
    """The copy's own backward is recorded by nobody: a function that is once differentiable."""
    from unidev.conformance.mutants.taped import Taped, detached, is_differentiable

    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        made = copy(self, x, device, non_blocking)
        if not is_differentiable(made):
            return made
        source = self.device_of(x)
        return Taped.make(
            made, device, [(x, lambda slope: copy(self, detached(slope), source, False))]
        )


@training_mutant("gradients.no_grad_records_nothing")
def no_grad_does_nothing(backend: Any) -> None:
    """The scope is there, and the tape goes on: ``no_grad`` of another framework's."""
    from unidev.conformance.mutants.reference_training import ReferenceAutograd

    replace_value(ReferenceAutograd, "no_grad", lambda self: contextlib.nullcontext())


@training_mutant("gradients.no_grad_records_nothing")
def no_grad_stays_after_an_exception(backend: Any) -> None:
    """A scope without ``finally``: after an exception nothing is recorded any more."""
    from unidev.conformance.mutants import taped
    from unidev.conformance.mutants.reference_training import ReferenceAutograd

    @contextlib.contextmanager
    def scope(self: Any) -> Iterator[None]:
        taped._here.is_paused = True
        yield
        taped._here.is_paused = False

    replace_value(ReferenceAutograd, "no_grad", scope)


@training_mutant("gradients.no_grad_is_of_one_thread")
def no_grad_is_of_the_process(backend: Any) -> None:
    """One flag for all threads: Paddle's ``no_grad`` as seen from another thread."""
    from types import SimpleNamespace

    from unidev.conformance.mutants import taped

    replace_value(taped, "_here", SimpleNamespace())


@training_mutant(
    "value_and_grad.of_a_tensor", "value_and_grad.of_a_container", "value_and_grad.of_a_model"
)
def gradients_are_halved(backend: Any) -> None:
    """A gradient that is off by a factor: averaged over what was summed."""
    from unidev.conformance.mutants.reference_training import ReferenceAutograd

    exact = ReferenceAutograd.gradients

    @replace(ReferenceAutograd)
    def gradients(self: Any, loss_of: Any, leaves: Any) -> Any:
        loss, slopes = exact(self, loss_of, leaves)
        return loss, [None if each is None else each * 0.5 for each in slopes]


@training_mutant("value_and_grad.of_a_tensor", "value_and_grad.of_a_model")
def gradients_come_on_the_cpu(backend: Any) -> None:
    """The tape is the host's, and so is what it gives."""
    from unidev.conformance.mutants.reference_training import ReferenceAutograd

    exact = ReferenceAutograd.gradients

    @replace(ReferenceAutograd)
    def gradients(self: Any, loss_of: Any, leaves: Any) -> Any:
        loss, slopes = exact(self, loss_of, leaves)
        cpu = self.backend.cpu
        return loss, [s if s is None else self.backend.copy_to(s, cpu, False) for s in slopes]


@training_mutant("value_and_grad.zeros_for_what_is_not_reached")
def zeros_are_on_the_cpu(backend: Any) -> None:
    """Zeros for what the loss does not depend on are made where new tensors are made."""
    from unidev.models import gradients

    @in_place_of(gradients._zeros_like)
    def zeros_like(backend: Any, x: Any) -> Any:
        return backend.zeros(tuple(x.shape), x.dtype, backend.cpu)


@training_mutant("value_and_grad.loss_is_detached")
def the_loss_keeps_its_history(backend: Any) -> None:
    """The loss holds all that it was computed from: torch's ``total += loss``."""
    from unidev.conformance.mutants.reference_training import ReferenceAutograd

    exact = ReferenceAutograd.gradients

    @replace(ReferenceAutograd)
    def gradients(self: Any, loss_of: Any, leaves: Any) -> Any:
        kept = []

        def keeping() -> Any:
            kept.append(loss_of())
            return kept[0]

        slopes = exact(self, keeping, leaves)[1]
        return kept[0], slopes


@training_mutant("value_and_grad.errors")
def any_loss_will_do(backend: Any) -> None:
    """A loss of many numbers is summed, one that depends on nothing has gradients of zeros."""
    from unidev.models import gradients

    @in_place_of(gradients._gradients)
    def compute(backend: Any, loss_of: Any, leaves: Any) -> Any:
        loss, found = backend.autograd.gradients(loss_of, leaves)
        zeros = [backend.zeros(x.shape, x.dtype, backend.device_of(x)) for x in leaves]
        return loss, [z if s is None else s for s, z in zip(found, zeros, strict=True)]


@training_mutant("value_and_grad.leaves_the_models_gradients")
def gradients_are_left_in_the_model(backend: Any) -> None:
    """Computed by ``backward``, they are added to what is in the parameters already."""
    from unidev.conformance.mutants.reference_net import Parameter
    from unidev.conformance.mutants.reference_training import ReferenceAutograd

    exact, make = ReferenceAutograd.gradients, Parameter.__init__
    owners: dict[int, Any] = {}

    @replace(Parameter)
    def __init__(self: Any, data: Any, device: Any, *, is_frozen: bool = False) -> None:
        make(self, data, device, is_frozen=is_frozen)
        owners[id(self.data)] = self

    @replace(ReferenceAutograd)
    def gradients(self: Any, loss_of: Any, leaves: Any) -> Any:
        loss, slopes = exact(self, loss_of, leaves)
        for leaf, slope in zip(leaves, slopes, strict=True):
            if id(leaf) in owners:
                owners[id(leaf)].grad = slope
        return loss, slopes


@training_mutant("value_and_grad.sgd_is_exact")
def sgd_makes_new_tensors(backend: Any) -> None:
    """``x = x - lr * slope`` in place of ``x -= lr * slope``: the model does not learn."""
    from unidev.conformance.mutants.reference_training import ReferenceAutograd

    @replace(ReferenceAutograd)
    def descend(self: Any, parameters: Any, gradients: Any, lr: float) -> Any:
        return [x - slope * lr for x, slope in zip(parameters, gradients, strict=True)]


@training_mutant("value_and_grad.sgd_refuses_what_does_not_fit")
def sgd_takes_what_it_gets(backend: Any) -> None:
    """Some parameters have changed when the first gradient does not fit."""
    from unidev.models import gradients

    @in_place_of(gradients._descend)
    def descend(backend: Any, pairs: Any, lr: float) -> Any:
        return [backend.autograd.descend([x], [slope], lr)[0] for x, slope in pairs]
