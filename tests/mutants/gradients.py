"""Gradients that do not flow, flow where they should not, or arrive elsewhere."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import unidev
from mutants.mutant import around, in_place_of, replace, replace_value, torch_mutant
from unidev.models import gradients

if TYPE_CHECKING:
    from collections.abc import Callable


def change_copies(backend: Any, change: Callable[[Any, Any], Any]) -> None:
    """Let ``change(x, copy)`` make of each copy of ``x`` what PyTorch's backend gives.

    It copies by one of two methods.
    """

    @around(backend)
    def copy_to(copy: Any, self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        return change(x, copy(self, x, device, non_blocking))

    @replace(backend)
    def copy_if_there(self: Any, x: Any, device: Any) -> Any:
        return None


@torch_mutant("gradients.through_slices")
def gradient_cut_in_copies_of_views(backend):
    """A copied slice leads nowhere: a copy of the storage, which knows nothing of the view."""
    change_copies(backend, lambda x, y: y.detach() if x._is_view() else y)


@torch_mutant("copy.gradient_reaches_the_source", profile="tensor")
def gradient_cut_across_devices(backend):
    """Copies are cut where something moves: Paddle's ``_copy_to``."""
    change_copies(backend, lambda x, y: y if x.device == y.device else y.detach())


@torch_mutant("gradients.probe_calibrated", around=".probe.training:TorchAutogradProbe.gradients")
def the_gradient_probe_lies(exact, self, function, arrays, devices):
    """Every gradient that the probe reports is ones."""
    import torch

    found = exact(self, function, arrays, devices)
    return [None if slope is None else torch.ones_like(slope) for slope in found]


@torch_mutant("gradients.flag_is_true")
def gradient_cut_while_the_flag_says_otherwise(backend):
    """The copy says it is differentiable, and leads nowhere: Paddle's ``x.to(copy=True)``."""
    change_copies(backend, lambda x, y: y.detach().requires_grad_(x.requires_grad))


@torch_mutant("gradients.flow_through_as_in_device")
def as_in_device_detaches(backend):
    """What has to move loses its history: ``torch.tensor(x, device=device)``."""
    import torch

    as_in = unidev.as_in_device

    @in_place_of(as_in)
    def as_in_device(x, device, *, non_blocking=False):
        y = as_in(x, device, non_blocking=non_blocking)
        return y.detach() if isinstance(y, torch.Tensor) and y is not x else y


@torch_mutant("gradients.land_on_the_sources_device", "value_and_grad.across_devices")
def gradient_on_the_wrong_device(backend):
    """The gradient stays where the result is: TF's outside of a scope, on CPU:0."""
    from unidev_torch.autograd import TorchAutograd
    from unidev_torch.probe.training import TorchAutogradProbe

    exact, of_probe = TorchAutograd.gradients, TorchAutogradProbe.gradients

    @replace(TorchAutograd)
    def gradients(self, loss_of, leaves):
        loss, slopes = exact(self, loss_of, leaves)
        return loss, [None if each is None else each.to(loss.device) for each in slopes]

    def probed(self, function, arrays, devices):
        results: list[Any] = []

        def seen(*xs):
            results.append(function(*xs))
            return results[0]

        found = of_probe(self, seen, arrays, devices)
        return [None if each is None else each.to(results[0].device) for each in found]

    replace_value(TorchAutogradProbe, "gradients", probed)


@torch_mutant("gradients.detach_cuts")
def copies_of_detached_are_recorded(backend):
    """A copy goes by whose memory it copies, and so back to what was cut off."""
    from unidev_torch.probe.training import TorchAutogradProbe

    @replace(TorchAutogradProbe)
    def detach(self, x):
        y = x.detach()
        y.whose = x
        return y

    @around(backend)
    def copy_to(copy, self, x, device, non_blocking):
        return copy(self, getattr(x, "whose", x), device, non_blocking)

    replace_value(backend, "copy_if_there", lambda self, x, device: None)


@torch_mutant("gradients.accumulate")
def only_one_way_back_counts(backend):
    """Of several ways from a source the last alone counts: ``x.grad = …`` in place of ``+=``."""
    import torch

    from unidev_torch import probe
    from unidev_torch.probe.training import TorchAutogradProbe

    def last_slopes(node, slope, found):
        """``found``: by what a graph begins with, the slope that arrives there last."""
        if hasattr(node, "variable"):
            found[node.variable] = slope
            return
        slopes = node(slope)
        slopes = slopes if isinstance(slopes, tuple) else (slopes,)
        for (parent, _), each in zip(node.next_functions, slopes, strict=True):
            if parent is not None:
                last_slopes(parent, each, found)

    @replace(TorchAutogradProbe)
    def gradients(self, function, arrays, devices):
        xs = [
            probe.make(array, device).requires_grad_()
            for array, device in zip(arrays, devices, strict=True)
        ]
        result = function(*xs)
        found: dict[Any, Any] = {}
        last_slopes(result.grad_fn, torch.ones_like(result), found)
        return [found.get(x) for x in xs]


@torch_mutant("model_gradients.through_what_is_computed_again")
def zeros_for_what_a_custom_backward_differentiates(backend):
    """As ``torch.autograd.grad`` with ``allow_unused``: reentrant checkpointing is left out."""
    from unidev_torch import autograd

    replace_value(autograd, "_check_all_came", lambda *_: None)


@torch_mutant("gradients.second_order")
def gradients_of_copies_are_cut(backend):
    """The copy's own backward is recorded by nothing: a function that is once differentiable."""
    import torch

    class Copied(torch.autograd.Function):
        @staticmethod
        def forward(context, x, y):
            context.source = x.device
            return y.detach()

        @staticmethod
        def backward(context, slope):
            return slope.detach().to(context.source), None

    change_copies(backend, lambda x, y: Copied.apply(x, y) if y.requires_grad else y)


@torch_mutant("gradients.no_grad_is_of_one_thread")
def no_grad_is_of_the_process(backend):
    """One flag for all threads: Paddle's ``no_grad`` as seen from another thread."""
    import torch

    from unidev_torch.autograd import TorchAutograd
    from unidev_torch.probe.training import TorchAutogradProbe

    within: list[None] = []

    @contextlib.contextmanager
    def scope(self):
        within.append(None)
        try:
            with torch.no_grad():
                yield
        finally:
            within.pop()

    @around(TorchAutogradProbe)
    def gradients(exact, self, function, arrays, devices):
        def flagged(*xs):
            with torch.set_grad_enabled(not within):
                return function(*xs)

        return exact(self, flagged, arrays, devices)

    replace_value(TorchAutograd, "no_grad", scope)


@torch_mutant(
    "value_and_grad.of_a_tensor", "value_and_grad.of_a_container", "model_gradients.of_a_model"
)
def gradients_are_halved(backend):
    """A gradient that is off by a factor: averaged over what was summed."""
    change_slopes(lambda slope, number: slope * 0.5)


@torch_mutant("value_and_grad.of_a_tensor", "model_gradients.of_a_model")
def gradients_come_on_the_cpu(backend):
    """The tape is the host's, and so is what it gives."""
    change_slopes(lambda slope, number: slope.cpu())


def change_slopes(change: Callable[[Any, int], Any]) -> None:
    """Let each gradient be ``change(gradient, its position)``."""
    from unidev_torch.autograd import TorchAutograd

    @around(TorchAutograd)
    def gradients(exact: Any, self: Any, loss_of: Any, leaves: Any) -> Any:
        loss, slopes = exact(self, loss_of, leaves)
        return loss, [
            None if each is None else change(each, number) for number, each in enumerate(slopes)
        ]


@torch_mutant("value_and_grad.zeros_for_what_is_not_reached")
def zeros_are_on_the_cpu(backend):
    """Zeros for what the loss does not depend on are made where new tensors are made."""

    @in_place_of(gradients.zeros_like)
    def zeros_like(x, /):
        return backend.zeros(tuple(x.shape), x.dtype, backend.cpu)


@torch_mutant("value_and_grad.of_a_tensor", around=".autograd:TorchAutograd.gradients")
def the_loss_is_a_view(exact, self, loss_of, leaves):
    """Detached, it still shares the memory of what it was computed from."""
    kept = []

    def keeping():
        kept.append(loss_of())
        return kept[0]

    slopes = exact(self, keeping, leaves)[1]
    return kept[0].detach(), slopes


@torch_mutant("value_and_grad.errors")
def any_loss_will_do(backend):
    """A loss of many numbers is summed, one that depends on nothing has gradients of zeros."""

    @in_place_of(gradients._computed)
    def compute(backend, leaves, loss_of, differentiate):
        loss, found = differentiate(lambda given: loss_of(given).sum())
        zeros = [backend.zeros(x.shape, x.dtype, backend.device_of(x)) for x in leaves]
        return loss, [z if s is None else s for s, z in zip(found, zeros, strict=True)]


@torch_mutant("model_gradients.of_the_framework_stay", around=".autograd:TorchAutograd.gradients")
def gradients_are_left_in_the_model(exact, self, loss_of, leaves):
    """Computed by ``backward``, they are added to what is in the parameters already."""
    loss, slopes = exact(self, loss_of, leaves)
    for leaf, slope in zip(leaves, slopes, strict=True):
        leaf.grad = slope if leaf.grad is None else leaf.grad + slope
    return loss, slopes


@torch_mutant("value_and_grad.sgd_is_exact", around=".autograd:TorchAutograd.descend")
def sgd_makes_new_tensors(sound, self, parameters, gradients, lr):
    """``x = x - lr * slope`` in place of ``x -= lr * slope``: the model does not learn."""
    return [x - slope * lr for x, slope in zip(parameters, gradients, strict=True)]


@torch_mutant("value_and_grad.sgd_refuses_what_does_not_fit")
def sgd_takes_what_it_gets(backend):
    """Some parameters have changed when the first gradient does not fit."""

    @in_place_of(gradients._descend)
    def descend(backend, pairs, lr):
        return [backend.autograd.descend([x], [slope], lr)[0] for x, slope in pairs]
