"""MXNet's devices and tensors, in unidev's terms.

MXNet calls a device a context. MXNet is asynchronous: operators return before they are done, and
the next call that waits raises their errors. So memory is allocated here before an operator is
called, not by it: an allocation that does not fit fails in the call that needs it.
"""

from __future__ import annotations

import math
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]
import numpy as np
from mxnet.ndarray.sparse import BaseSparseNDArray  # type: ignore[import-untyped]

from unidev.contract import Backend, part, unsupported
from unidev.errors import (
    DeletedTensorError,
    FrameworkError,
    UnsupportedDtypeError,
    UnsupportedOperation,
)
from unidev_mxnet import devices
from unidev_mxnet.memory import allocate
from unidev_mxnet.native_calls import ContextAnswer, get_context, numpy_shapes, split_answer
from unidev_mxnet.scopes import numpy_semantics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract import Array, BackendSpec, Device, Extent

_NAMES = ("bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64")

_SMALL = 2**18
"""Elements that an operator may allocate itself: at most 2 MiB, in half the time."""


class MxnetBackend(Backend):
    """``mx.np.ndarray``, and the legacy ``mx.nd.NDArray``, dense and sparse.

    New tensors are ``mx.np.ndarray``; a tensor made from another one has the same class.
    """

    probe = part("unidev_mxnet.probe:MxnetProbe")
    models = part("unidev_mxnet.models:MxnetModels")
    autograd = part("unidev_mxnet.autograd:MxnetAutograd")
    layers = part("unidev_mxnet.nn.layers:MxnetLayers")
    loader = part("unidev_mxnet.data_loaders:MxnetLoader")
    functions = part("unidev_mxnet.nn:MxnetFunctions")
    collectives = part("unidev_mxnet.collectives:MxnetCollectives")
    group_engine = part("unidev_mxnet.group.engine:MxnetEngine")
    installation = part("unidev_mxnet.installation:MxnetInstallation")
    interop = part("unidev_mxnet.memory.interop:MxnetInterop")
    tracer = part("unidev_mxnet.tracer:MxnetTracer")
    makers = (mx.np, mx.nd)
    memory = part("unidev_mxnet.memory:memory_of")
    pinned = part("unidev_mxnet.memory:pinning_of")
    peaks = unsupported("MXNet does not record peak memory")
    estimator = unsupported("MXNet does not record peak memory")

    # A size beyond a C int; a dtype that MXNet's own table lacks.
    framework_errors = (*Backend.framework_errors, OverflowError, KeyError)
    out_of_memory_words = (
        "failed to allocate", "allocate memory",
        # A full GPU has no room for what CUDA's libraries need first.
        "create cublas handle failed", "create cusolver handle failed",
        # No memory is enough for one of 2^31 elements, unless MXNet is built otherwise (1.9.1).
        "allocate is larger than 2^31 elements",
    )  # fmt: skip
    # A Symbol is a graph that is bound to a device later, so it is moved as a model is.
    model_types = (
        mx.gluon.Block, mx.gluon.Parameter, mx.gluon.ParameterDict,
        mx.sym.Symbol, mx.module.base_module.BaseModule,
    )  # fmt: skip
    optimizer_types = (mx.gluon.Trainer, mx.optimizer.Optimizer)
    containers = MappingProxyType({mx.io.DataBatch: None})

    def __init__(self, spec: BackendSpec, simulated_count: int) -> None:
        super().__init__(spec, simulated_count)
        self._devices: dict[int, Device] = {}
        self._answers: list[ContextAnswer] = []

    @property
    def tensor_types(self) -> tuple[type, ...]:
        """``NDArray``, the base class of ``mx.np.ndarray`` and the sparse arrays."""
        return (mx.nd.NDArray,)

    @cached_property
    def dtypes(self) -> Mapping[str, np.dtype[Any]]:
        """NumPy's own objects. MXNet's bfloat16 is incomplete: it supports little besides copies.

        https://github.com/apache/mxnet/blob/1.9.1/python/mxnet/ndarray/ndarray.py#L63
        """
        return {name: np.dtype(name) for name in _NAMES}

    # -- devices ---------------------------------------------------------------------------------

    def device_count(self, kind: str) -> int:
        """One CPU, though MXNet accepts any index; GPUs as CUDA counts them.

        0 without a driver, or if it is too old.
        """
        if kind == "cpu":
            return 1
        if self.simulated_count:
            return self.simulated_count
        try:
            return int(mx.context.num_gpus())
        except mx.MXNetError as error:
            raise FrameworkError(
                f"mxnet could not count the GPUs. {type(error).__name__}: {error}"
            ) from error

    def native_device(self, kind: str, index: int) -> devices.SharedContext:
        """A context that any thread may enter, any number of times."""
        return devices.context(kind, index, self.simulated_count)

    def native_scope(self, device: Device) -> mx.Context:
        """A new context for each scope, see ``SharedContext``; MXNet's default is thread-local."""
        return mx.Context(device.native)

    def thread_settings(self) -> AbstractContextManager[None]:
        """Whether MXNet has NumPy's semantics, which it keeps for each thread."""
        return numpy_semantics(shapes=mx.util.is_np_shape(), arrays=mx.util.is_np_array())

    def parse_native(self, spec: object) -> tuple[str, int] | None:
        """``gpu(1)``, ``mx.gpu(1)`` and the like; ``cpu(2)`` is a simulated ``gpu:1``.

        None for pinned and shared memory, which cannot be used as a device, and for a real
        GPU while GPUs are simulated.
        """
        return devices.parse(spec, self.simulated_count)

    def device_of(self, x: Any) -> Device:
        """Queries MXNet each time, in a third of the time that ``x.ctx`` takes.

        Host memory that is pinned for a GPU, or shared between processes, belongs to ``cpu:0``,
        where MXNet computes with it.
        """
        handle = x.handle
        if not handle:
            raise DeletedTensorError("the array has no handle: its construction did not complete.")
        # Popped and put back: another thread, or a finalizer, could overwrite a shared one
        # between the call and the read.
        try:
            answer = self._answers.pop()
        except IndexError:
            answer = ContextAnswer()
        get_context(handle, answer.kind, answer.index)
        word = answer.word.value
        self._answers.append(answer)
        try:
            return self._devices[word]
        except KeyError:
            return self._devices.setdefault(word, self._named_device(word))

    def traced(self, x: Any) -> bool:
        """A ``Symbol``, as which a hybridized block gets its arguments; not among the tensors."""
        return isinstance(x, mx.sym.Symbol)

    def synchronize(self, device: Device) -> None:  # noqa: ARG002  MXNet waits for all or for one array
        """Waits for every device; raises any pending error."""
        mx.nd.waitall()

    # -- tensors ---------------------------------------------------------------------------------

    def copy_to(self, x: Any, device: Device, non_blocking: bool) -> Any:  # noqa: ARG002
        """Keeps the class of ``x``. Never waits; MXNet itself orders reads and writes."""
        self.device_of(x)  # raises where MXNet would end the process
        with numpy_shapes():
            if isinstance(x, BaseSparseNDArray):
                return x.copyto(device.native)
            make = mx.np.empty if isinstance(x, mx.np.ndarray) else mx.nd.empty
            return x.copyto(allocate(make, x.shape, x.dtype, device.native))

    def copy_if_there(self, x: Any, device: Device) -> Any:
        """``mx.np.copy``, which takes half the time of ``copyto``."""
        if type(x) is not mx.np.ndarray or self.device_of(x) is not device:
            return None
        with numpy_shapes():
            shape = x.shape
            if math.prod(shape) <= _SMALL:
                return mx.np.copy(x)
            return mx.np.copy(x, out=allocate(mx.np.empty, shape, x.dtype, x.ctx))

    def from_numpy(self, array: Array, dtype: np.dtype[Any], device: Device) -> Any:
        """Blocks until the values are copied."""
        values = np.asarray(array, dtype=dtype, order="C")
        made = self.empty(values.shape, dtype, device)
        with numpy_shapes():
            made[() if values.ndim == 0 else slice(None)] = values
        return made

    def to_numpy(self, x: Any) -> Array:
        """Blocks until the values are copied; a sparse array becomes a dense one."""
        self.device_of(x)
        if np.dtype(x.dtype).fields is not None:
            raise UnsupportedDtypeError(
                "NumPy has no bfloat16: convert x.astype('float32') instead."
            )
        with numpy_shapes():
            values: Array = x.asnumpy()
        return values

    def cast(self, x: Any, dtype: np.dtype[Any], device: Device) -> Any:
        """Converts on the device, and keeps the class of ``x``."""
        moved = x if self.device_of(x) is device else self.copy_to(x, device, False)
        with numpy_shapes():
            return moved.astype(dtype)

    def empty(self, shape: tuple[int, ...], dtype: Any, device: Device) -> Any:
        """Allocates in this call."""
        with numpy_shapes():
            return allocate(mx.np.empty, shape, dtype, device.native)

    def zeros(self, shape: tuple[int, ...], dtype: Any, device: Device) -> Any:
        """Fills on the device."""
        made = self.empty(shape, dtype, device)
        with numpy_shapes():
            return mx.np.full(shape, 0, dtype=dtype, ctx=device.native, out=made)

    def full(self, shape: tuple[int, ...], value: Any, dtype: Any, device: Device) -> Any:
        """Fills on the device, from an array of one number.

        MXNet's own ``full`` passes the number as text, and parses it badly: -0.0 as +0.0, 1e308 as
        9.999999999999998e307, 2**63 - 1 as -2**63, and 5e-324 is an error.
        """
        one = self.from_numpy(np.full((1,) * len(shape), value, dtype), dtype, device)
        if not shape:
            return one
        made = self.empty(shape, dtype, device)
        if 0 not in shape:
            with numpy_shapes():  # only the legacy operator writes to a given array
                mx.nd.broadcast_to(one.as_nd_ndarray(), shape=shape, out=made.as_nd_ndarray())
        return made

    def new_like(self, x: Any, value: int | None, device: Device) -> Any:
        """Of the class of ``x``, a legacy or a sparse one; of these, MXNet has zeros alone."""
        if isinstance(x, mx.np.ndarray):
            return None
        if np.dtype(x.dtype).fields is not None:
            raise UnsupportedOperation(
                "an array like one of bfloat16", "MXNet makes none: pass x.astype('float32')"
            )
        if isinstance(x, BaseSparseNDArray):
            if value:
                raise UnsupportedOperation(
                    f"ones_like of a {x.stype} array", "MXNet has none: pass x.tostype('default')"
                )
            with numpy_shapes():
                return mx.nd.sparse.zeros(x.stype, x.shape, ctx=device.native, dtype=x.dtype)
        return self.full(x.shape, value or 0, x.dtype, device).as_nd_ndarray()

    def extents(self, x: Any) -> Sequence[Extent]:
        """Waits until ``x`` is written."""
        from unidev_mxnet.memory.extents import storage_extents

        self.device_of(x)
        return storage_extents(x)

    # -- the meaning of MXNet's numbers ------------------------------------------------------------

    def _named_device(self, word: int) -> Device:
        typeid, index = split_answer(word)
        if typeid in (devices.PINNED, devices.SHARED):
            return self.cpu
        found = devices.kind_and_index(typeid, index, self.simulated_count)
        if found is not None:
            return self.device(*found)
        if typeid == devices.GPU:
            raise UnsupportedOperation(
                "finding the device of an array on a real GPU",
                f"in this process {self.simulated_count} simulated GPUs stand in for the real "
                "ones; unset UNIDEV_SIMULATE to use those",
            )
        raise DeletedTensorError("the array has no memory yet: nothing was written to it.")
