"""Moving the memory of one array or parameter, so that both stay the objects they are.

An ``NDArray`` of MXNet's Python is a shell round a handle, and all that belongs to the memory hangs
on the handle: its context, that autograd knows it as a variable, which gradient is its own, and
whether that is fresh. Exchanging the handles of two arrays moves all of it. Seen to work on 1.9.1,
upstream's last release; ``test_models.py`` asks each of these first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mxnet import autograd  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from mxnet.gluon import Parameter  # type: ignore[import-untyped]

    from unidev import Backend, Device

    Tensor = Any


class ParameterTwin:
    """What a parameter has of its own on another device; looks like one as far as ``swap`` goes."""

    __slots__ = ("_ctx_list", "_ctx_map", "_data", "_deferred_init", "_grad")

    _data: Any
    _grad: Any
    _ctx_list: Any
    _ctx_map: Any

    def __init__(self, backend: Backend, parameter: Parameter, device: Device) -> None:
        context = device.native
        self._data = self._grad = self._ctx_list = self._ctx_map = None
        self._deferred_init: tuple[Any, ...] = ()
        if parameter._data is None:
            initializer, _, default, data = parameter._deferred_init
            self._deferred_init = (initializer, [context], default, data)
            return
        self._ctx_list = [context]
        self._ctx_map = [[], []]  # as Parameter._init_impl makes it
        self._ctx_map[context.device_typeid & 1] = [None] * context.device_id + [0]
        with autograd.pause():
            (data,) = parameter._data
            self._data = [backend.copy_to(data, device, False)]
            if parameter._grad is not None:
                (gradient,) = parameter._grad
                self._grad = [backend.copy_to(gradient, device, False)]
                autograd.mark_variables(self._data, self._grad, parameter.grad_req)
                self._data[0]._fresh_grad = data._fresh_grad


def copy_of(backend: Backend, array: Tensor, device: Device) -> Tensor:
    """A copy that no autograd records."""
    with autograd.pause():
        return backend.copy_to(array, device, False)


def wait_for(twin: Tensor | ParameterTwin) -> None:
    """Raise here what went wrong on the way."""
    if not isinstance(twin, ParameterTwin):
        twin.wait_to_read()
        return
    for arrays in (twin._data, twin._grad):
        if arrays is not None:
            arrays[0].wait_to_read()


def exchange_arrays(a: Tensor, b: Tensor) -> None:
    """Each gets the memory of the other."""
    a.handle, b.handle = b.handle, a.handle


def exchange_parameters(a: Parameter, b: ParameterTwin) -> None:
    """Each gets the memory of the other, and what Gluon notes about where that is.

    No call between the first line and the last: there Python would let a Ctrl-C in.
    """
    if a._data is None:
        a._deferred_init, b._deferred_init = b._deferred_init, a._deferred_init
        return
    data, other_data = a._data[0], b._data[0]
    if a._grad is None:
        data.handle, other_data.handle = other_data.handle, data.handle
        a._ctx_list, b._ctx_list = b._ctx_list, a._ctx_list
        a._ctx_map, b._ctx_map = b._ctx_map, a._ctx_map
        return
    gradient, other_gradient = a._grad[0], b._grad[0]
    data.handle, other_data.handle = other_data.handle, data.handle
    gradient.handle, other_gradient.handle = other_gradient.handle, gradient.handle
    a._ctx_list, b._ctx_list = b._ctx_list, a._ctx_list
    a._ctx_map, b._ctx_map = b._ctx_map, a._ctx_map
