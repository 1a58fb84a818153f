"""Copies by the calls that most people would write: each framework's own that are no copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mutants.mutant import MXNET, PADDLE, TENSORFLOW, TORCH, mutant, replace

if TYPE_CHECKING:
    from collections.abc import Callable

_DISJOINT = "copy.disjoint_on_the_same_device"
_ACROSS = "copy.disjoint_across_devices"
_APART = "copy.writing_one_leaves_the_other"
_DIFFERS = "as_in_device.differs_from_copy_to"
_LANDS = "copy.lands_on_the_device_asked_for"
_GRADIENT = "copy.gradient_reaches_the_source"


def _copy_by(backend: Any, call: Callable[[Any, Any], Any]) -> None:
    """``call(x, device)`` copies, with a ``Device``, also where ``x`` is there already."""

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        return call(x, device)

    @replace(backend)
    def copy_if_there(self: Any, x: Any, device: Any) -> Any:
        return call(x, device) if self.device_of(x) is device else None


@mutant(_DISJOINT, _APART, _DIFFERS, plugin=TORCH)
def torch_to(backend):
    """``x.to(device)``, which returns ``x`` where it is there."""
    _copy_by(backend, lambda x, device: x.to(device.native))


@mutant(_DISJOINT, _APART, _GRADIENT, plugin=TORCH)
def torch_detach(backend):
    """``x.to(device).detach()``: another tensor on the same memory."""
    _copy_by(backend, lambda x, device: x.to(device.native).detach())


@mutant(_DISJOINT, _ACROSS, _DIFFERS, plugin=TENSORFLOW)
def tf_identity(backend):
    """``tf.identity`` on the device, which shares memory with ``x``."""
    import tensorflow as tf

    _copy_by(backend, _on(tf.identity))


@mutant("copy.values_bit_exact", _DISJOINT, _ACROSS, plugin=TENSORFLOW)
def tf_add_zero(backend):
    """``x + 0`` on the device: not of booleans, and -0.0 becomes 0.0."""
    import tensorflow as tf

    def added(x):
        if x.dtype.is_floating or x.dtype.is_integer:
            return x + tf.zeros([], x.dtype)
        return tf.raw_ops.DeepCopy(x=x)

    _copy_by(backend, _on(added))


def _on(call: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    import tensorflow as tf

    def copy(x: Any, device: Any) -> Any:
        with tf.device(device.native_name):
            return call(x)

    return copy


@mutant(_DISJOINT, _APART, _DIFFERS, plugin=PADDLE)
def paddle_to(backend):
    """Paddle's ``x.to(device)``, which returns ``x`` where it is there."""
    _copy_by(backend, lambda x, device: x.to(device.native))


@mutant(_DISJOINT, _APART, _GRADIENT, plugin=PADDLE)
def paddle_detach(backend):
    """``x.detach()``: another tensor on the same memory."""
    _copy_by(backend, lambda x, device: x.detach())


@mutant(_GRADIENT, plugin=PADDLE)
def paddle_to_with_copy(backend):
    """``x.to("cpu", copy=True)``: a copy, to which no gradient comes."""
    _copy_by(backend, lambda x, device: x.to("cpu", copy=True))


@mutant(_DISJOINT, _APART, _DIFFERS, plugin=MXNET)
def mxnet_as_in_ctx(backend):
    """``x.as_in_ctx(device)``, which returns ``x`` where it is there."""
    _copy_by(backend, lambda x, device: x.as_in_ctx(device.native))


@mutant(_LANDS, _ACROSS, plugin=MXNET)
def mxnet_copy(backend):
    """``x.copy()``, which stays where ``x`` is."""
    _copy_by(backend, lambda x, device: x.copy())
