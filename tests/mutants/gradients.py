"""Gradients that do not flow, flow where they should not, or arrive elsewhere."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from mutants.autograd import change_copies
from mutants.mutant import in_place_of, replace, replace_value, torch_mutant, when_restored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@torch_mutant("gradients.probe_calibrated")
def the_gradient_probe_lies(backend: Any) -> None:
    """Every gradient that the probe reports is ones."""
    import torch

    from unidev_torch.probe.training import TorchAutogradProbe

    exact = TorchAutogradProbe.gradients

    @replace(TorchAutogradProbe)
    def gradients(self: Any, function: Any, arrays: Any, devices: Any) -> Any:
        found = exact(self, function, arrays, devices)
        return [None if slope is None else torch.ones_like(slope) for slope in found]


@torch_mutant("gradients.flag_is_true")
def gradient_cut_while_the_flag_says_otherwise(backend: Any) -> None:
    """The copy says it is differentiable, and leads nowhere: Paddle's ``x.to(copy=True)``."""
    change_copies(backend, lambda x, y: y.detach().requires_grad_(x.requires_grad))


@torch_mutant("gradients.flow_through_as_in_device")
def as_in_device_detaches(backend: Any) -> None:
    """What has to move loses its history: ``torch.tensor(x, device=device)``."""
    import torch

    import unidev

    as_in = unidev.as_in_device

    @in_place_of(as_in)
    def as_in_device(x: Any, device: Any, *, non_blocking: bool = False) -> Any:
        y = as_in(x, device, non_blocking=non_blocking)
        return y.detach() if isinstance(y, torch.Tensor) and y is not x else y


@torch_mutant("gradients.land_on_the_sources_device", "value_and_grad.across_devices")
def gradient_on_the_wrong_device(backend: Any) -> None:
    """The gradient stays where the result is: TF's outside of a scope, on CPU:0."""
    from unidev_torch.autograd import TorchAutograd
    from unidev_torch.probe.training import TorchAutogradProbe

    exact, of_probe = TorchAutograd.gradients, TorchAutogradProbe.gradients

    @replace(TorchAutograd)
    def gradients(self: Any, loss_of: Any, leaves: Any) -> Any:
        loss, slopes = exact(self, loss_of, leaves)
        return loss, [None if each is None else each.to(loss.device) for each in slopes]

    def probed(self: Any, function: Any, arrays: Any, devices: Any) -> Any:
        results: list[Any] = []

        def seen(*xs: Any) -> Any:
            results.append(function(*xs))
            return results[0]

        found = of_probe(self, seen, arrays, devices)
        return [None if each is None else each.to(results[0].device) for each in found]

    replace_value(TorchAutogradProbe, "gradients", probed)


@torch_mutant("gradients.detach_cuts")
def copies_of_detached_are_recorded(backend: Any) -> None:
    """A copy goes by whose memory it copies, and so back to what was cut off."""
    from unidev_torch.probe.training import TorchAutogradProbe

    copy = backend.copy_to

    @replace(TorchAutogradProbe)
    def detach(self: Any, x: Any) -> Any:
        y = x.detach()
        y.whose = x
        return y

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        return copy(self, getattr(x, "whose", x), device, non_blocking)

    replace_value(backend, "copy_if_there", lambda self, x, device: None)


@torch_mutant("gradients.accumulate", "gradients.diamond_over_two_devices")
def only_one_way_back_counts(backend: Any) -> None:
    """Of several ways from a source the last alone counts: ``x.grad = …`` in place of ``+=``."""
    import torch

    from unidev_torch import probe
    from unidev_torch.probe.training import TorchAutogradProbe

    def last_slopes(node: Any, slope: Any, found: dict[Any, Any]) -> None:
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
    def gradients(self: Any, function: Any, arrays: Any, devices: Any) -> Any:
        xs = [
            probe.make(array, device).requires_grad_()
            for array, device in zip(arrays, devices, strict=True)
        ]
        result = function(*xs)
        found: dict[Any, Any] = {}
        last_slopes(result.grad_fn, torch.ones_like(result), found)
        return [found.get(x) for x in xs]


@torch_mutant("gradients.second_order")
def gradients_of_copies_are_cut(backend: Any) -> None:
    """The copy's own backward is recorded by nothing: a function that is once differentiable."""
    import torch

    class Copied(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Any, y: Any) -> Any:
            context.source = x.device
            return y.detach()

        @staticmethod
        def backward(context: Any, slope: Any) -> Any:
            return slope.detach().to(context.source), None

    change_copies(backend, lambda x, y: Copied.apply(x, y) if y.requires_grad else y)


@torch_mutant("gradients.no_grad_records_nothing")
def no_grad_does_nothing(backend: Any) -> None:
    """The scope is there, and the tape goes on: ``no_grad`` of another framework's."""
    from unidev_torch.autograd import TorchAutograd

    replace_value(TorchAutograd, "no_grad", lambda self: contextlib.nullcontext())


@torch_mutant("gradients.no_grad_records_nothing")
def no_grad_stays_after_an_exception(backend: Any) -> None:
    """A scope without ``finally``: after an exception nothing is recorded any more."""
    import torch

    from unidev_torch.autograd import TorchAutograd

    @contextlib.contextmanager
    def scope(self: Any) -> Iterator[None]:
        torch.set_grad_enabled(False)
        yield
        torch.set_grad_enabled(True)

    replace_value(TorchAutograd, "no_grad", scope)
    when_restored(lambda: torch.set_grad_enabled(True))


@torch_mutant("gradients.no_grad_is_of_one_thread")
def no_grad_is_of_the_process(backend: Any) -> None:
    """One flag for all threads: Paddle's ``no_grad`` as seen from another thread."""
    import torch

    from unidev_torch.autograd import TorchAutograd
    from unidev_torch.probe.training import TorchAutogradProbe

    exact = TorchAutogradProbe.gradients
    within: list[None] = []

    @contextlib.contextmanager
    def scope(self: Any) -> Iterator[None]:
        within.append(None)
        try:
            with torch.no_grad():
                yield
        finally:
            within.pop()

    @replace(TorchAutogradProbe)
    def gradients(self: Any, function: Any, arrays: Any, devices: Any) -> Any:
        def flagged(*xs: Any) -> Any:
            with torch.set_grad_enabled(not within):
                return function(*xs)

        return exact(self, flagged, arrays, devices)

    replace_value(TorchAutograd, "no_grad", scope)


@torch_mutant(
    "value_and_grad.of_a_tensor", "value_and_grad.of_a_container", "value_and_grad.of_a_model"
)
def gradients_are_halved(backend: Any) -> None:
    """A gradient that is off by a factor: averaged over what was summed."""
    change_slopes(lambda slope, number: slope * 0.5)


@torch_mutant("value_and_grad.of_a_tensor", "value_and_grad.of_a_model")
def gradients_come_on_the_cpu(backend: Any) -> None:
    """The tape is the host's, and so is what it gives."""
    change_slopes(lambda slope, number: slope.cpu())


def change_slopes(change: Callable[[Any, int], Any]) -> None:
    """Let each gradient be ``change(gradient, its position)``."""
    from unidev_torch.autograd import TorchAutograd

    exact = TorchAutograd.gradients

    @replace(TorchAutograd)
    def gradients(self: Any, loss_of: Any, leaves: Any) -> Any:
        loss, slopes = exact(self, loss_of, leaves)
        return loss, [
            None if each is None else change(each, number) for number, each in enumerate(slopes)
        ]


@torch_mutant("value_and_grad.zeros_for_what_is_not_reached")
def zeros_are_on_the_cpu(backend: Any) -> None:
    """Zeros for what the loss does not depend on are made where new tensors are made."""
    from unidev.models import gradients

    @in_place_of(gradients._zeros_like)
    def zeros_like(backend: Any, x: Any) -> Any:
        return backend.zeros(tuple(x.shape), x.dtype, backend.cpu)


@torch_mutant("value_and_grad.loss_is_detached")
def the_loss_keeps_its_history(backend: Any) -> None:
    """The loss holds all that it was computed from: torch's ``total += loss``."""
    from unidev_torch.autograd import TorchAutograd

    exact = TorchAutograd.gradients

    @replace(TorchAutograd)
    def gradients(self: Any, loss_of: Any, leaves: Any) -> Any:
        kept = []

        def keeping() -> Any:
            kept.append(loss_of())
            return kept[0]

        slopes = exact(self, keeping, leaves)[1]
        return kept[0], slopes


@torch_mutant("value_and_grad.errors")
def any_loss_will_do(backend: Any) -> None:
    """A loss of many numbers is summed, one that depends on nothing has gradients of zeros."""
    from unidev.models import gradients

    @in_place_of(gradients._computed)
    def compute(backend: Any, leaves: Any, loss_of: Any, differentiate: Any) -> Any:
        loss, found = differentiate(lambda given: loss_of(given).sum())
        zeros = [backend.zeros(x.shape, x.dtype, backend.device_of(x)) for x in leaves]
        return loss, [z if s is None else s for s, z in zip(found, zeros, strict=True)]


@torch_mutant("value_and_grad.leaves_the_models_gradients")
def gradients_are_left_in_the_model(backend: Any) -> None:
    """Computed by ``backward``, they are added to what is in the parameters already."""
    from unidev_torch.autograd import TorchAutograd

    exact = TorchAutograd.gradients

    @replace(TorchAutograd)
    def gradients(self: Any, loss_of: Any, leaves: Any) -> Any:
        loss, slopes = exact(self, loss_of, leaves)
        for leaf, slope in zip(leaves, slopes, strict=True):
            leaf.grad = slope if leaf.grad is None else leaf.grad + slope
        return loss, slopes


@torch_mutant("value_and_grad.sgd_is_exact")
def sgd_makes_new_tensors(backend: Any) -> None:
    """``x = x - lr * slope`` in place of ``x -= lr * slope``: the model does not learn."""
    from unidev_torch.autograd import TorchAutograd

    @replace(TorchAutograd)
    def descend(self: Any, parameters: Any, gradients: Any, lr: float) -> Any:
        return [x - slope * lr for x, slope in zip(parameters, gradients, strict=True)]


@torch_mutant("value_and_grad.sgd_refuses_what_does_not_fit")
def sgd_takes_what_it_gets(backend: Any) -> None:
    """Some parameters have changed when the first gradient does not fit."""
    from unidev.models import gradients

    @in_place_of(gradients._descend)
    def descend(backend: Any, pairs: Any, lr: float) -> Any:
        return [backend.autograd.descend([x], [slope], lr)[0] for x, slope in pairs]
