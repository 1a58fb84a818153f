"""TensorFlow's collective operations, each eager and in the scope of one device."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]
from tensorflow.core.protobuf import tensorflow_server_pb2  # type: ignore[import-untyped]
from tensorflow.python.eager import context  # type: ignore[import-untyped]

from unidev.contract import GroupEngine
from unidev.errors import UnsupportedOperation
from unidev_tensorflow.models.swap import native_variable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract import Device, Rendezvous, Tensor


_REAL = frozenset({"int32", "int64", "float16", "bfloat16", "float32", "float64"})
_ORDERED = _REAL - {"bfloat16"}
_SUMMED = frozenset(
    {"int32", "int64", "uint64", "float32", "float64", "complex64", "complex128"}
)  # float16 and bfloat16 in a wider one
_SMALL = frozenset({"bool", "int8", "uint8"})
_MOVED = _REAL | _SUMMED | _SMALL | {"int16", "uint16", "uint32"}

_OPERATIONS = {"sum": "Add", "min": "Min", "max": "Max"}

_PARTS = {tf.complex64: tf.float32, tf.complex128: tf.float64, tf.uint64: tf.int64}
"""Sums of these are sums of their parts: the same bits."""

_BITS = {
    tf.int16: tf.float16, tf.uint16: tf.float16, tf.bfloat16: tf.float16,
    tf.uint32: tf.int32, tf.uint64: tf.int64, tf.complex64: tf.int64, tf.complex128: tf.int64,
}  # fmt: skip
"""Dtypes that only travel as another one of the same bits."""


class TensorFlowEngine(GroupEngine):
    """One group of all workers; tensors of a simulated GPU travel through the host.

    TensorFlow keeps a record of each key for good: what has the same operation, dtype and shape has
    the same key.
    """

    carries = MappingProxyType(
        {"sum": _SUMMED, "min": _ORDERED, "max": _ORDERED, "broadcast": _MOVED, "gather": _MOVED}
    )
    wider = MappingProxyType(
        {
            **GroupEngine.wider,
            "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32",
            "uint32": "int64",
        }
    )  # fmt: skip

    abort_interrupts = True

    def join(self, rank: int, rendezvous: Rendezvous, device: Device) -> None:
        """Configure TensorFlow's runtime, which then starts as one task of a cluster.

        Raises:
            UnsupportedOperation: the runtime has started already.
        """
        runtime = context.context()
        if runtime._initialized:
            raise UnsupportedOperation(
                "joining a group",
                "TensorFlow's runtime has started, and the variables made before would be lost: "
                "join before the first tensor, model or list of devices",
            )
        self.on_host = self.backend.simulated_count > 0
        self._device = self.backend.cpu if self.on_host else device
        self._rank, self._size = rank, rendezvous.size
        self._keys: dict[Any, int] = {}
        self._always: dict[str, Any] = {
            "group_size": rendezvous.size, "group_key": 1, "communication_hint": "auto",
            "timeout_seconds": float(rendezvous.timeout_s),
        }  # fmt: skip
        places = zip(rendezvous.hosts, rendezvous.ports, strict=True)
        workers = {"worker": [f"{host}:{port}" for host, port in places]}
        runtime.configure_collective_ops(
            collective_leader="/job:worker/replica:0/task:0",
            scoped_allocator_enabled_ops=(),
            use_nccl_communication=self._device.kind == "gpu",
        )
        runtime.enable_collective_ops(
            tensorflow_server_pb2.ServerDef(
                cluster=tf.train.ClusterSpec(workers).as_cluster_def(),
                default_session_config=runtime.config,
                job_name="worker",
                task_index=rank,
                protocol="grpc",
            )
        )

    def all_reduce(self, flat: Tensor, op: str) -> Tensor:
        """``CollectiveReduceV2``, into new memory."""
        with self._scope():
            x = tf.convert_to_tensor(native_variable(flat))
            parts = tf.bitcast(x, _PARTS[x.dtype]) if x.dtype in _PARTS else x
            found = tf.raw_ops.CollectiveReduceV2(
                input=parts,
                merge_op=_OPERATIONS[op],
                final_op="Id",
                instance_key=self._key(op, parts),
                ordering_token=[],
                **self._always,
            )
            return found if parts is x else tf.bitcast(found, x.dtype)

    def broadcast(self, flat: Tensor, root: int) -> Tensor:
        """``CollectiveBcastSendV2`` and ``CollectiveBcastRecvV2``."""
        with self._scope():
            x = tf.convert_to_tensor(native_variable(flat))
            sent = _as_carried(x)
            key = self._key(f"broadcast {root}", sent)
            if root == self._rank:
                tf.raw_ops.CollectiveBcastSendV2(input=sent, instance_key=key, **self._always)
                return flat
            found = tf.raw_ops.CollectiveBcastRecvV2(
                T=sent.dtype, shape=sent.shape, instance_key=key, **self._always
            )
            return _from_carried(found, x.dtype)

    def all_gather(self, flat: Tensor) -> Sequence[Tensor]:
        """``CollectiveGatherV2``, and a part for each worker."""
        with self._scope():
            x = tf.convert_to_tensor(native_variable(flat))
            sent = _as_carried(x)[tf.newaxis]
            found = tf.raw_ops.CollectiveGatherV2(
                input=sent, instance_key=self._key("gather", sent), ordering_token=[],
                **self._always,
            )  # fmt: skip
            parts: list[Tensor] = tf.unstack(_from_carried(found, x.dtype), self._size)
            return parts

    def abort(self, reason: str) -> None:
        """TensorFlow only lets go of this worker's own calls."""
        context.context().abort_collective_ops(tf.errors.UNAVAILABLE, reason)

    def leave(self) -> None:
        """Nothing: TensorFlow's server ends with the process."""

    def _scope(self) -> Any:
        return self.backend.native_scope(self._device)

    def _key(self, operation: str, x: Tensor) -> int:
        """The same on all workers, which call in the same order."""
        kind = operation, x.dtype, tuple(x.shape)
        return self._keys.setdefault(kind, len(self._keys) + 1)


def _as_carried(x: Tensor) -> Tensor:
    """The same bits in a dtype that TensorFlow moves; a byte as an integer of four."""
    if x.dtype in (tf.bool, tf.int8, tf.uint8):
        return tf.cast(x, tf.int32)
    return tf.bitcast(x, _BITS[x.dtype]) if x.dtype in _BITS else x


def _from_carried(x: Tensor, dtype: Any) -> Tensor:
    if dtype in (tf.bool, tf.int8, tf.uint8):
        return tf.cast(x, dtype)
    return tf.bitcast(x, dtype) if dtype in _BITS else x
