"""paddle.distributed: NCCL for tensors on GPUs, gloo for those on the CPU."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from unidev.contract import GroupEngine
from unidev.errors import UnsupportedOperation
from unidev_paddle.framework import core, paddle
from unidev_paddle.group.arrival import Arrivals, wait_for_listener
from unidev_paddle.importing import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract import Device, Rendezvous, Tensor


distributed: Any = paddle.distributed
operations: Any = paddle._C_ops

_INTEGERS = frozenset({"int8", "uint8", "int32", "int64"})
_ORDERED = _INTEGERS | {"float32", "float64"}
_SUMMED = _ORDERED | {"complex64", "complex128"}
_MOVED = _SUMMED | {"bool", "int16", "float16", "bfloat16"}

_OPERATIONS = {
    "sum": core.ReduceOp.SUM, "min": core.ReduceOp.MIN, "max": core.ReduceOp.MAX,
}  # fmt: skip

_PARTS = {paddle.complex64: paddle.float32, paddle.complex128: paddle.float64}
"""Sums of these are sums of their parts."""


class PaddleEngine(GroupEngine):
    """Paddle's default group, which a program may use beside unidev.

    A dtype that gloo does not know ends the process, so only those listed ever reach it.
    """

    carries = MappingProxyType(
        {"sum": _SUMMED, "min": _ORDERED, "max": _ORDERED, "broadcast": _MOVED, "gather": _MOVED}
    )
    # gloo's sums of float16 are wrong: 1 + 2 is inf (Paddle 3.3.1).
    wider = MappingProxyType({**GroupEngine.wider, "int16": "int32"})

    def join(self, rank: int, rendezvous: Rendezvous, device: Device) -> None:
        """``init_parallel_env``.

        Raises:
            UnsupportedOperation: the program has called it already.
        """
        if distributed.is_initialized():
            raise UnsupportedOperation(
                "joining a group", "the program has called paddle.distributed.init_parallel_env"
            )
        uses_gpu = device.kind == "gpu" and core.is_compiled_with_cuda()
        self.on_host = device.kind == "gpu" and not uses_gpu
        self._size = rendezvous.size
        variables = {"PADDLE_DISTRI_BACKEND": "nccl" if uses_gpu else "gloo"}
        interface = rendezvous.own_interface(rank)
        if interface is not None and "GLOO_SOCKET_IFNAME" not in os.environ:
            variables["GLOO_SOCKET_IFNAME"] = interface
        if uses_gpu:
            variables["FLAGS_selected_gpus"] = str(device.index)
        if rank:
            wait_for_listener(rendezvous)
        before = paddle.base.framework._current_expected_place_()
        try:
            with environment(variables):
                self._group = distributed.init_parallel_env().process_group
        finally:
            paddle.base.framework._set_expected_place(before)
        self._arrivals = None if uses_gpu else Arrivals(rank, rendezvous)
        self._here = device.native if uses_gpu else self.backend.cpu.native

    def all_reduce(self, flat: Tensor, op: str) -> Tensor:
        """In place, if ``flat`` is contiguous."""
        return self.start_all_reduce(flat, op)()

    def start_all_reduce(self, flat: Tensor, op: str) -> Callable[[], Tensor]:
        """In place, if ``flat`` is contiguous; gloo's computes at once, on a stream NCCL's."""
        flat = _plain(flat)
        parts = flat.view(_PARTS[flat.dtype]) if flat.dtype in _PARTS else flat
        self._await_all()
        task = self._group.all_reduce(parts, _OPERATIONS[op], False)
        flat._bump_inplace_version()

        def finish() -> Tensor:
            task.wait()
            return flat

        return finish

    def broadcast(self, flat: Tensor, root: int) -> Tensor:
        """In place, if ``flat`` is contiguous; as bytes, since not all dtypes are known there."""
        flat = _plain(flat)
        self._await_all()
        self._group.broadcast(_bytes_of(flat), root, True).wait()
        flat._bump_inplace_version()
        return flat

    def all_gather(self, flat: Tensor) -> Sequence[Tensor]:
        """As bytes, into one tensor, which is split."""
        sent = _bytes_of(_plain(flat))
        found = paddle.empty([self._size * sent.shape[0]], dtype="uint8", device=flat.place)
        self._await_all()
        self._group.all_gather_into_tensor(found, sent, True).wait()
        parts = operations.split(found, [sent.shape[0]] * self._size, 0)
        return [operations.reshape(part.view(flat.dtype), flat.shape) for part in parts]

    def abort(self, reason: str) -> None:  # noqa: ARG002  there is no place for it
        """The others wait before gloo does, but for moments."""
        if self._arrivals is not None:
            self._arrivals.give_up()

    def leave(self) -> None:
        """``destroy_process_group``."""
        distributed.destroy_process_group()
        del self._group

    def _await_all(self) -> None:
        if self._arrivals is not None:
            self._arrivals.await_all()


def _plain(x: Tensor) -> Tensor:
    """``x`` itself where its elements lie in order; ``contiguous`` would change ``x``."""
    return x if x.is_contiguous() else x.clone()


def _bytes_of(x: Tensor) -> Tensor:
    return operations.reshape(x, [-1]).view("uint8")
