"""Exchanging the memory of one array or parameter, which stays the same object.

An ``NDArray`` in MXNet's Python wraps a handle, and everything about the memory belongs to the
handle: its context, its registration as an autograd variable, its gradient, and whether that is
fresh. Exchanging the handles of two arrays moves all of it. Tested on 1.9.1, upstream's last
release; ``test_models.py`` checks each of these first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mxnet import autograd  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from mxnet.gluon import Parameter  # type: ignore[import-untyped]

    from unidev.contract import Backend, Device, Tensor


class ParameterTwin:
    """A parameter's fields on another device, with the attributes that ``swap`` uses."""

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
    """A copy that autograd does not record."""
    with autograd.pause():
        return backend.copy_to(array, device, False)


def wait_for(twin: Tensor | ParameterTwin) -> None:
    """Raise the errors of the copies here."""
    if not isinstance(twin, ParameterTwin):
        twin.wait_to_read()
        return
    for arrays in (twin._data, twin._grad):
        if arrays is not None:
            arrays[0].wait_to_read()


def exchange_arrays(a: Tensor, b: Tensor) -> None:
    """Exchange the memory of two arrays."""
    a.handle, b.handle = b.handle, a.handle


def exchange_parameters(a: Parameter, b: ParameterTwin) -> None:
    """Exchange the memory of a parameter and its twin, and Gluon's record of where it is.

    There is no call between the first line and the last, where Python would let in a Ctrl-C.
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
