"""JAX's ``Probe`` for the conformance suite, through JAX's own calls."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import Probe, part
from unidev_jax.arrays import spelled
from unidev_jax.copying import enable_x64
from unidev_jax.framework import jax, jnp
from unidev_jax.variables import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from unidev.contract import Array, Device, TransferExample


class JaxProbe(Probe):
    """Probe of the JAX backend."""

    autograd = part("unidev_jax.probe.training:JaxAutogradProbe")
    models = part("unidev_jax.probe.training:JaxModelProbe")

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``jax.jit``."""
        compiled: Callable[..., Any] = jax.jit(function)
        return compiled

    def make(self, array: Array, device: Device) -> Any:
        """``device_put`` of an array that nobody else has, so that JAX may keep its memory."""
        with enable_x64(True):
            return jax.block_until_ready(jax.device_put(np.array(array), device.native))

    def read(self, x: Any) -> bytes:
        """``np.asarray``; of random keys, their numbers."""
        x = plain(x)
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            x = jax.random.key_data(x)
        return np.asarray(x).tobytes()

    def same_memory(self, x: Any) -> Any:
        """A new array made of the same buffer."""
        return jax.make_array_from_single_device_arrays(x.shape, x.sharding, [x])

    def views(self, x: Any) -> Mapping[str, Any]:
        """Not views: JAX has none. Through the host, since JAX compiles each shape otherwise."""
        host, (device,) = np.asarray(x), x.sharding.device_set
        arrays = {
            "transposed": host.T,
            "sliced": host[1:, ::2],
            "broadcast": np.broadcast_to(host, (3, *host.shape)),
        }
        with enable_x64(True):
            return {
                name: jax.block_until_ready(jax.device_put(np.array(array), device))
                for name, array in arrays.items()
            }

    def allocated_bytes(self, device: Device) -> int:
        """The C library's count, once it is steady: JAX frees memory in threads of its own.

        Of a real GPU, its allocator's.
        """
        if device.native.platform != "cpu":
            return int(device.native.memory_stats()["bytes_in_use"])
        gc.collect(0)  # JAX lets go of NumPy's arrays after any collection
        last = -1
        for _ in range(20):
            now = super().allocated_bytes(self.backend.cpu)
            if now == last:
                break
            last = now
            time.sleep(0.01)
        return now

    def global_state(self) -> Mapping[str, object]:
        """JAX's defaults, and the state of NumPy's generator."""
        return {
            "default device": jax.config.jax_default_device,
            "x64": jax.config.jax_enable_x64,
            "transfer guard": jax.config.jax_transfer_guard,
            "matmul precision": jax.config.jax_default_matmul_precision,
            "numpy.random": str(np.random.get_state()),
        }

    def specials(self, device: Device) -> Mapping[str, Any]:
        """Random keys, and dtypes that NumPy lacks."""
        made: dict[str, Any] = {
            "key": jax.random.key(7),
            "float8_e4m3fn": np.ones((2, 3), jnp.float8_e4m3fn),
            "int4": np.ones((3, 3), jnp.int4),
        }
        mesh = jax.sharding.Mesh([device.native], ("x",))
        on_mesh = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
        found = {name: jax.device_put(x, device.native) for name, x in made.items()}
        found["on a mesh of one"] = jax.device_put(np.ones((2, 3), np.float32), on_mesh)
        return {**found, "not committed": self.unbound(device)}

    def unbound(self, device: Device) -> Any:
        """Not committed, as everything that JAX makes without a device."""
        with jax.default_device(device.native):
            return jnp.ones(3)

    def read_out(self, x: Any) -> object:
        """By NumPy, from a new array: JAX keeps what was read with the array that was read."""
        return np.asarray(x.copy())

    def transfers(self, gpu: Device) -> Iterable[TransferExample]:
        """Examples of JAX's own calls, with the name, devices and bytes of each transfer."""
        from unidev_jax.probe.transfers import transfers_of

        return transfers_of(self.backend, gpu)

    def gradient(self, function: Callable[[Any], Any], array: Array, device: Device) -> Array:
        """Uses ``jax.grad``; of a complex result, of both parts."""

        def total(x: Any) -> Any:
            found = function(x).sum()
            return found.real + found.imag if jnp.iscomplexobj(found) else found

        return np.asarray(jax.grad(total)(self.make(array, device)))

    def dtype_spellings(self) -> Mapping[str, Sequence[object]]:
        """JAX's scalar types: ``jnp.float32``."""
        return {name: [getattr(jnp, name)] for name in self.backend.dtypes}

    def elsewhere(self) -> Mapping[str, tuple[Any, Sequence[str]]]:
        """Sharded over two devices, and replicated on them, if there are two."""
        devices = [
            self.backend.device(kind, index)
            for kind in ("cpu", "gpu")
            for index in range(self.backend.device_count(kind))
            if kind == "cpu" or self.backend.simulated_count
        ][:2]
        if len(devices) < 2:
            return {}
        mesh = jax.sharding.Mesh([each.native for each in devices], ("x",))
        words, values = [spelled(each.native) for each in devices], np.arange(4, dtype=np.float32)
        return {
            name: (jax.device_put(values, jax.sharding.NamedSharding(mesh, spec)), words)
            for name, spec in {
                "sharded": jax.sharding.PartitionSpec("x"),
                "replicated": jax.sharding.PartitionSpec(),
            }.items()
        }

    def deleted(self, device: Device) -> Any:
        """By ``delete``."""
        x = self.make(np.ones((2, 3), np.float32), device)
        x.delete()
        return x
