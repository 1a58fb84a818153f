"""MXNet's ``Probe`` for the conformance suite, through MXNet's own calls."""

from __future__ import annotations

import random
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]
import numpy as np
from mxnet import autograd as mx_autograd

from unidev.contract import Probe, part, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from unidev.contract import Array, Device, TransferExample

_LOOKS, _MOST_LOOKS = 4, 40
"""How many equal counts in a row are needed, and how many are taken at most, 5 ms apart."""


class MxnetProbe(Probe):
    """Probe of MXNet. Each method sets NumPy shapes for its thread while it runs."""

    deleted = unsupported("MXNet does not free an array that is in use")
    side_stream = unsupported("MXNet's engine puts work into streams of its own")
    compile = unsupported("MXNet compiles blocks, in which arrays are symbols without a device")

    autograd = part("unidev_mxnet.probe.training:MxnetAutogradProbe")
    models = part("unidev_mxnet.probe.training:MxnetModelProbe")

    def make(self, array: Array, device: Device) -> Any:
        """``mx.np.array``."""
        with mx.util.np_shape(True):
            return mx.np.array(np.ascontiguousarray(array).reshape(array.shape), ctx=device.native)

    def read(self, x: Any) -> bytes:
        """``asnumpy``, which waits; of a sparse array, of each part."""
        with mx.util.np_shape(True):
            if isinstance(x, mx.nd.sparse.CSRNDArray):
                return b"".join(map(self.read, (x.data, x.indices, x.indptr)))
            if isinstance(x, mx.nd.sparse.RowSparseNDArray):
                return b"".join(map(self.read, (x.data, x.indices)))
            values: bytes = x.asnumpy().tobytes()
        return values

    def read_out(self, x: Any) -> object:
        """``asnumpy``, which waits."""
        with mx.util.np_shape(True):
            return x.asnumpy()

    def loaders(self, numbers: Array, size: int) -> Mapping[str, Iterable[Any]]:
        """Gluon's ``DataLoader``, by a ``batchify_fn``."""
        data, rows = mx.gluon.data, [*map(int, numbers)]
        made = partial(data.DataLoader, rows, batchify_fn=lambda xs: {"x": np.array(xs)})
        return {
            "in order": made(batch_size=size, last_batch="keep"),
            "dropping": made(batch_size=size, last_batch="discard"),
            "shuffled": made(batch_size=size, shuffle=True, last_batch="keep"),
            "refused: a batch sampler": made(batch_sampler=[rows[:2], rows[2:]]),
            "refused: a sampler": made(batch_size=size, sampler=rows[::-1]),
            "refused: some rows": made(batch_size=size, sampler=data.RandomSampler(size)),
            "refused: kept for the next": made(batch_size=size, last_batch="rollover"),
        }

    def same_memory(self, x: Any) -> Any:
        """``detach``, which shares memory, despite its name."""
        with mx.util.np_shape(True):
            return x.detach()

    def views(self, x: Any) -> Mapping[str, Any]:
        """MXNet copies for all three; its views are of rows."""
        with mx.util.np_shape(True):
            return {
                # Its transpose has no kernel for bool.
                "transposed": x.astype("uint8").T.astype("bool") if x.dtype == "bool" else x.T,
                "sliced": x[1:, ::2],
                "broadcast": mx.np.broadcast_to(x, (3, *x.shape)),
            }

    def more_views(self, x: Any) -> Mapping[str, Any]:
        """Complete rows, MXNet's only views."""
        with mx.util.np_shape(True):
            return {"rows": x[1:-1]}

    def allocated_bytes(self, device: Device) -> int:
        """The count once it is stable.

        MXNet's own threads release an operator's arrays a moment after it counts as done, so
        ``waitall`` may return before.
        """
        count, same = super().allocated_bytes(device), 0
        for _ in range(_MOST_LOOKS):
            time.sleep(0.005)
            mx.nd.waitall()
            last, count = count, super().allocated_bytes(device)
            same = same + 1 if count == last else 0
            if same == _LOOKS:
                break
        return count

    def global_state(self) -> Mapping[str, object]:
        """This thread's context and flags, and the host's generators.

        MXNet does not expose the state of its own generators.
        """
        kind, keys, *rest = np.random.get_state(legacy=True)
        return {
            "context": str(mx.context.current_context()),
            "np_shape": mx.util.is_np_shape(),
            "np_array": mx.util.is_np_array(),
            "recording": mx_autograd.is_recording(),
            "training": mx_autograd.is_training(),
            "numpy.random": (kind, np.asarray(keys).tobytes(), *rest),
            "numpy.errstate": np.geterr(),
            "random": random.getstate(),
        }

    def current(self) -> Mapping[str, object]:
        """This thread's context."""
        return {"context": str(mx.context.current_context())}

    def specials(self, device: Device) -> Mapping[str, Any]:
        """The legacy class, sparse arrays, a parameter, bfloat16, and shared memory."""
        values = np.array([[1, 0, 2], [0, 0, 0], [0, 3, 0]], "float32")
        context = device.native
        legacy = mx.nd.array(values, ctx=context)
        parameter = mx.gluon.Parameter("weight", shape=(2, 3), init="ones")
        parameter.initialize(ctx=context)
        found = {
            "legacy": legacy,
            "row_sparse": legacy.tostype("row_sparse"),
            "csr": legacy.tostype("csr"),
            "parameter": parameter.data(context),
            "without dimensions": self.make(np.array(1.5, "float32"), device),
            "bfloat16": legacy.astype(np.dtype([("bfloat16", np.uint16)])),
        }
        if device.kind == "cpu":
            found["shared"] = mx.nd.array(values, ctx=mx.Context("cpu_shared", 0))
        return found

    def transfers(self, gpu: Device) -> Iterable[TransferExample]:
        """Examples of MXNet's own calls, with the name, devices and bytes of each transfer."""
        from unidev_mxnet.probe.transfers import transfers_of

        return transfers_of(self.backend, gpu)

    def write(self, x: Any, value: float) -> None:
        """``x[:] = value``, then waits: a view cannot know that it must."""
        with mx.util.np_shape(True):
            x[() if x.ndim == 0 else slice(None)] = value
        x.wait_to_read()

    def gradient(self, function: Callable[[Any], Any], array: Array, device: Device) -> Array:
        """Uses ``autograd.record`` and ``backward``."""
        with mx.util.np_shape(True), mx.util.np_array(True):
            x = self.make(array, device)
            x.attach_grad()
            with mx_autograd.record():
                total = function(x).sum()
            total.backward()
            gradient: Array = x.grad.asnumpy()
        return gradient
