"""Paddle's ``Probe`` for the conformance suite, through Paddle's own calls."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import Probe, part, unsupported
from unidev_paddle.framework import core, paddle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from unidev.contract import Array, Backend, Device, Tensor, TransferExample


class PaddleProbe(Probe):
    """Probe of the Paddle backend."""

    autograd = part("unidev_paddle.probe.training:PaddleAutogradProbe")
    models = part("unidev_paddle.probe.training:PaddleModelProbe")
    side_stream = part("unidev_paddle.probe:side_stream_of")

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``to_static``, which by default leaves to Python what it cannot follow."""
        compiled: Callable[..., Any] = paddle.jit.to_static(function, full_graph=False)
        return compiled

    def make(self, array: Array, device: Device) -> Tensor:
        """``to_tensor``, which copies; bfloat16 from its bits, the form that Paddle takes."""
        bits = array.view(np.uint16) if array.dtype.name == "bfloat16" else array
        return paddle.to_tensor(bits, place=device.native)

    def read(self, x: Tensor) -> bytes:
        """``numpy``, which returns the bits of a bfloat16; of a sparse tensor, of each part."""
        if not x.is_dense():  # numpy() would end the process
            return b"".join(map(self.read, _parts(x)))
        values: Array = x.detach().numpy()
        return values.tobytes()

    def same_memory(self, x: Tensor) -> Tensor:
        """``detach``, which shares memory."""
        return x.detach()

    def views(self, x: Tensor) -> Mapping[str, Tensor]:
        """Views by Paddle's stride kernels; ``expand`` would copy."""
        rows, columns = x.shape
        return {
            "transposed": x.T,
            "sliced": x[1:, ::2],
            "broadcast": paddle.as_strided(x, [3, rows, columns], [0, *x.strides], x.offset),
        }

    def more_views(self, x: Tensor) -> Mapping[str, Tensor]:
        """Views by Paddle's stride kernels, which know no negative strides."""
        return {"rows": x[1:-1], "permuted": x.transpose([0, 3, 1, 2])}

    def loaders(self, numbers: Array, size: int) -> Mapping[str, Iterable[Any]]:
        """``paddle.io.DataLoader``, by a ``collate_fn``."""
        io, rows = paddle.io, [*map(int, numbers)]
        made = partial(io.DataLoader, rows, collate_fn=lambda xs: {"x": np.array(xs)})
        again = io.BatchSampler(sampler=io.RandomSampler(rows, True, size), batch_size=size)
        return {
            "in order": made(batch_size=size),
            "dropping": made(batch_size=size, drop_last=True),
            "shuffled": made(batch_size=size, shuffle=True),
            "refused: a batch sampler": made(batch_sampler=[rows[:2], rows[2:]]),
            "refused: rows again": made(batch_sampler=again),
        }

    def transfers(self, gpu: Device) -> Iterable[TransferExample]:
        """Examples of Paddle's own calls, with the name, devices and bytes of each transfer."""
        from unidev_paddle.probe.transfers import transfers_of

        return transfers_of(self.backend, gpu)

    def read_out(self, x: Tensor) -> object:
        """``numpy``."""
        return x.numpy()

    def write(self, x: Tensor, value: float) -> None:
        """``copy_``: ``assign`` writes a view on a custom device to the start of its memory.

        ``fill_`` allocates anew where Paddle computes it on the host.
        """
        with paddle.no_grad():
            x.copy_(paddle.full_like(x, value), True)

    def gradient(self, function: Callable[[Tensor], Tensor], array: Array, device: Device) -> Array:
        """Uses ``backward``; zeros if no gradient arrived."""
        x = self.make(array, device)
        x.stop_gradient = False
        result = function(x)
        if not result.stop_gradient:
            (paddle.as_real(result) if result.is_complex() else result).sum().backward()
        return np.zeros_like(array) if x.grad is None else np.asarray(x.grad.numpy())

    def deleted(self, device: Device) -> Tensor:
        """Frees the allocation with ``_clear_data``."""
        x = self.make(np.ones(3, np.float32), device)
        x._clear_data()
        return x

    def current(self) -> Mapping[str, object]:
        """The process's current place, and the current stream of each accelerator."""
        devices = [self.backend.device("gpu", i) for i in range(self.backend.device_count("gpu"))]
        streams = [str(paddle.device.current_stream(device.native)) for device in devices]
        return {"device": paddle.device.get_device(), "streams": streams}

    def specials(self, device: Device) -> Mapping[str, Tensor]:
        """Tensors that the optimizer and the tape treat specially, and sparse ones."""
        plain = self.make(np.arange(6, dtype=np.float32).reshape(2, 3), device)
        tracked = plain.clone()
        tracked.stop_gradient = False
        parameter = paddle.base.framework.EagerParamBase.from_tensor(plain.clone())
        frozen = paddle.base.framework.EagerParamBase.from_tensor(plain.clone())
        frozen.stop_gradient = True
        return {
            "with gradient": tracked,
            "inside a graph": tracked * 2,
            "parameter": parameter,
            "frozen parameter": frozen,
            "without dimensions": self.make(np.array(1.5, np.float32), device),
            "float8_e4m3fn": self.make(np.arange(4, dtype=np.uint8), device).view(
                paddle.float8_e4m3fn
            ),
            # Not of `plain`: Paddle computes that on the host, and leaves it there.
            "sparse": paddle.sparse.sparse_coo_tensor(
                [[0, 1], [1, 0]], [1.0, 2.0], [2, 3], place=device.native
            ),
            "sparse, with gradient": paddle.sparse.sparse_coo_tensor(
                [[0], [1]], [1.0], [2, 3], place=device.native, stop_gradient=False
            ),
            "sparse, by rows": paddle.sparse.sparse_csr_tensor(
                [0, 1, 2], [1, 0], [1.0, 2.0], [2, 3], place=device.native
            ),
        }

    def references(self, device: Device) -> Mapping[str, Tensor]:
        """Rows of an embedding's gradient: several tensors in one, meant for the optimizers."""
        from unidev_paddle.probe.mixed_operands import by_default_on

        with by_default_on(device):
            layer = paddle.nn.Embedding(5, 3, sparse=True)
            layer(paddle.to_tensor([1, 2])).sum().backward()
        return {"selected rows": layer.weight._grad_ivar()}

    def global_state(self) -> Mapping[str, object]:
        """Default device and dtype, the modes, and the CPU's generator."""
        # The state's text also has the engine's address, which is not part of the state.
        random = str(core.default_cpu_generator().get_state())
        return {
            "device": paddle.device.get_device(),
            "dtype": paddle.get_default_dtype(),
            "grad": paddle.is_grad_enabled(),
            "dynamic": paddle.in_dynamic_mode(),
            "random": " ".join(word for word in random.split() if not word.startswith("0x")),
        }


def _parts(x: Tensor) -> list[Tensor]:
    indices = [x.indices()] if x.is_sparse_coo() else [x.crows(), x.cols()]
    return [*indices, x.values()]


def side_stream_of(backend: Backend) -> Any:
    """A ``paddle.device.Stream``, if there is an accelerator."""
    if not backend.device_count("gpu"):
        return unsupported("Paddle has streams on accelerators alone, and there is none")
    return _side_stream


@contextmanager
def _side_stream(device: Device) -> Iterator[None]:
    before = paddle.device.get_device()
    paddle.device.set_device(device.native_name)  # a stream's own scope does not
    try:
        with paddle.device.stream_guard(paddle.device.Stream(device.native)):
            yield
    finally:
        paddle.device.set_device(before)
