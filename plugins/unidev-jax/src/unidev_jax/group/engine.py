"""gloo as XLA has it, between CPU devices that only unidev sees."""

from __future__ import annotations

import math
import os
import sys
import tempfile
from contextlib import contextmanager
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import GroupEngine
from unidev_jax.arrays import value_of
from unidev_jax.copying import wide
from unidev_jax.framework import jax
from unidev_jax.group import NEVER_S, is_used, service_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from unidev.contract import Array, Device, Rendezvous, Tensor


_jax: Any = import_module("jaxlib._jax")
_xla_client: Any = import_module("jaxlib.xla_client")

_INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
_FLOATING = frozenset({"float32", "float64"})
_SUMMED = _INTEGERS | _FLOATING | {"complex64", "complex128"}
_ORDERED = _INTEGERS | _FLOATING | {"float16", "bfloat16"}
_MOVED = _SUMMED | _ORDERED | {"bool"}

_AXIS = "workers"
_OPERATIONS = {"sum": jax.lax.psum, "min": jax.lax.pmin, "max": jax.lax.pmax}
_WORD = np.dtype("uint32")
_PADDED_BYTES = (1 << 12, 1 << 14, 1 << 16)
"""Small arrays are filled up to one of these sizes, as XLA compiles a program for each size."""


class JaxEngine(GroupEngine):
    """A group beside JAX's own: ``jax.devices()`` stays this process's, and so do its settings.

    ``jax.distributed.initialize`` would have to come before the first array, and would put the
    other workers' devices into ``jax.devices()``. Here the same parts of JAX are a second CPU
    client, which computes in the calling thread. Arrays come and go by NumPy, which copies none
    that lies in the host's memory.

    Between machines alone: on one, the memory that the workers share is as fast (for 32 MiB, 0.6 to
    1.1 times gloo's time) or faster (1 KiB in 0.5 times), and has no program for each size.
    """

    carries = MappingProxyType(
        {"sum": _SUMMED, "min": _ORDERED, "max": _ORDERED, "broadcast": _MOVED, "gather": _MOVED}
    )

    def join(self, rank: int, rendezvous: Rendezvous, device: Device) -> None:  # noqa: ARG002
        """Connect to the coordination service, and meet the others; on one machine, do nothing."""
        if not is_used(rendezvous):
            self.carries = MappingProxyType({})
            return
        self._rank, self._size = rank, rendezvous.size
        self._client = _jax.get_distributed_runtime_client(
            service_address(rendezvous),
            rank,
            # JAX aborts this process then (0.10.2): `run` has named who is missing before.
            init_timeout=math.ceil(rendezvous.timeout_s),
            heartbeat_timeout=NEVER_S,
            shutdown_timeout=1,
            shutdown_on_destruction=False,  # `leave` does it; a worker that failed may not wait
            use_compression=False,
        )
        self._client.connect()
        cpus = _xla_client.make_cpu_client(
            asynchronous=False,
            distributed_client=self._client,
            node_id=rank,
            num_nodes=rendezvous.size,
            collectives=_jax.make_gloo_tcp_collectives(
                distributed_client=self._client, **_listening_on(rendezvous.hosts[rank])
            ),
            num_devices=1,
        )
        (self._own,) = cpus.local_devices()
        everybodys = sorted(cpus.devices(), key=lambda each: each.process_index)
        mesh = jax.sharding.Mesh(np.array(everybodys), (_AXIS,))
        self._parts = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(_AXIS))
        self._programs = {name: _program(mesh, work) for name, work in _OPERATIONS.items()}
        self._programs["gather"] = _program(mesh, jax.lax.all_gather)
        with _without_gloos_lines():
            self._run("sum", np.ones(1, _WORD))

    def gather_numbers(self, numbers: Sequence[int], device: Device) -> Sequence[Sequence[int]]:  # noqa: ARG002
        """As all bytes travel."""
        found = self._gathered(np.array(numbers, "int64"))
        return [each.tolist() for each in found]

    def all_reduce(self, flat: Tensor, op: str) -> Tensor:
        """``jax.lax.psum``, ``pmin`` or ``pmax``, into new memory."""
        own = _values(flat)
        return _like(flat, self._run(op, own.reshape(-1))[: own.size].reshape(own.shape))

    def broadcast(self, flat: Tensor, root: int) -> Tensor:
        """The bits of ``root``, plus zeros: XLA's gloo has no broadcast of its own."""
        own = _values(flat)
        words = _words(own) if self._rank == root else np.zeros(_word_count(own), _WORD)
        found = self._run("sum", words)
        return flat if self._rank == root else _like(flat, _from_words(found, own))

    def all_gather(self, flat: Tensor) -> Sequence[Tensor]:
        """``jax.lax.all_gather``, of their bits."""
        return [_like(flat, each) for each in self._gathered(_values(flat))]

    def leave(self) -> None:
        """Disconnect from the service. gloo's threads end with the process."""
        if self.carries:
            self._client.shutdown()

    def _gathered(self, own: Array) -> list[Array]:
        return [_from_words(each, own) for each in self._run("gather", _words(own))]

    def _run(self, name: str, own: Array) -> Array:
        """The result of one program, as it lies in JAX's memory; waits for the other workers."""
        given = _padded(own)
        with wide(given.dtype):
            here = jax.device_put(given, self._own)
            shape = (self._size * given.size,)
            whole = jax.make_array_from_single_device_arrays(shape, self._parts, [here])
            found: Array = np.asarray(self._programs[name](whole).addressable_data(0))
            return found


def _listening_on(host: str) -> dict[str, str]:
    """Else gloo would listen on the address that the host's name resolves to."""
    interface = os.environ.get("GLOO_SOCKET_IFNAME")
    return {"interface": interface} if interface else {"hostname": host}


def _program(mesh: Any, work: Callable[[Any, str], Any]) -> Callable[[Any], Any]:
    """Compiled for each shape and dtype; the same result on each worker."""
    spec = jax.sharding.PartitionSpec
    each = jax.shard_map(
        lambda x: work(x, _AXIS), mesh=mesh, in_specs=spec(_AXIS), out_specs=spec(),
        check_vma=False,
    )  # fmt: skip
    program: Callable[[Any], Any] = jax.jit(each)
    return program


def _values(flat: Tensor) -> Array:
    """The array's own memory, if the host has it, in the order of C."""
    found: Array = np.asarray(value_of(flat), order="C")
    return found


def _like(flat: Tensor, values: Array) -> Tensor:
    """``values`` on the device of ``flat``: in their own memory, which nothing else writes to.

    Has arrived: DLPack's readers do not wait for JAX.
    """
    with wide(values.dtype):
        return jax.device_put(values, value_of(flat).device).block_until_ready()


def _padded(own: Array) -> Array:
    nbytes = next((each for each in _PADDED_BYTES if own.nbytes <= each), own.nbytes)
    if own.nbytes == nbytes:
        return own
    found = np.zeros(nbytes // own.itemsize, own.dtype)
    found[: own.size] = own
    return found


def _word_count(own: Array) -> int:
    return -(-own.nbytes // _WORD.itemsize)


def _words(own: Array) -> Array:
    """The bytes of ``own``, as few kinds of programs move them."""
    if own.nbytes % _WORD.itemsize == 0:
        return own.reshape(-1).view(_WORD)
    found = np.zeros(_word_count(own), _WORD)
    found.view("uint8")[: own.nbytes] = own.reshape(-1).view("uint8")
    return found


def _from_words(words: Array, like: Array) -> Array:
    found: Array = words.view("uint8")[: like.nbytes].view(like.dtype).reshape(like.shape)
    return found


@contextmanager
def _without_gloos_lines() -> Iterator[None]:
    """A block in which gloo prints to stdout how many it has connected to, which is left out."""
    sys.stdout.flush()
    with tempfile.TemporaryFile() as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(kept, 1)
            file.seek(0)
            lines = [line for line in file if not line.startswith(b"[Gloo] ")]
            os.write(kept, b"".join(lines))  # of the program's other threads
            os.close(kept)
