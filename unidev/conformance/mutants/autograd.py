"""A reference that has a gradient, and twins of it that cut it.

NumPy has no autograd. ``records_copies`` gives it the least that the contract is about: arrays that
remember copies and products (see ``recorded``). It is sound, and the check has to pass it; the
twins are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.conformance.mutants.mutant import mutant, replace, replace_value

if TYPE_CHECKING:
    from collections.abc import Callable

_GRADIENT = "copy.gradient_reaches_the_source"


@mutant(_GRADIENT, result="pass")
def records_copies(backend: Any) -> None:
    """Nothing is broken: the reference with copies that are differentiable."""
    _record(backend, lambda source, target: True)


@mutant(_GRADIENT)
def gradient_cut(backend: Any) -> None:
    """No gradient reaches the source, whatever the flag says: Paddle's ``x.to(copy=True)``."""
    _record(backend, lambda source, target: False)


@mutant(_GRADIENT)
def gradient_cut_on_the_same_device(backend: Any) -> None:
    """Copies are cut where nothing moves: ``torch.tensor(x)``, TF's ``DeepCopy`` by itself."""
    _record(backend, lambda source, target: source is not target)


@mutant(_GRADIENT)
def gradient_cut_across_devices(backend: Any) -> None:
    """Copies are cut where something moves: Paddle's ``_copy_to``."""
    _record(backend, lambda source, target: source is target)


def _record(backend: Any, is_recorded: Callable[[Any, Any], bool]) -> None:
    """Give ``backend`` a gradient; ``is_recorded`` tells from where to where copies are."""
    from unidev.conformance.mutants.recorded import Recorded, gradient_of_sum
    from unidev.numpy_backend.probe import NumpyProbe

    copy, plain_device_of = backend.copy_to, backend.device_of

    @replace(backend)
    def device_of(self: Any, x: Any) -> Any:
        return x.device_here if type(x) is Recorded else plain_device_of(self, x)

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if type(x) is Recorded:
            return x.copied(device, is_recorded=is_recorded(x.device_here, device))
        return copy(self, x, device, non_blocking)

    def gradient(self: Any, function: Callable[[Any], Any], array: Any, device: Any) -> Any:
        source = Recorded.place(array.copy(), device, [])
        return gradient_of_sum(function(source), source)

    replace_value(NumpyProbe, "gradient", gradient)
