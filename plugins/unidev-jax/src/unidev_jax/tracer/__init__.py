"""JAX's transfers between devices, seen where programs call JAX.

JAX calls no Python when one of its compiled functions runs, and its own guard
(``jax.transfer_guard``) reports nothing to Python. So the public functions and methods that read,
copy or compute are replaced while a scope is open in any thread; in threads without a scope, the
replacements call the originals.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from unidev.contract import Tracer
from unidev_jax.framework import jax
from unidev_jax.tracer.patches import JaxPatches
from unidev_jax.tracer.recording import JaxRecording

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from unidev.contract import Backend, PlannedTransfer

_BLIND_SPOTS = {
    "arrays handed to a function that was compiled (jax.jit, nnx.jit) before the trace began, or "
    "with in_shardings": (
        "JAX runs it in C++. Compile it within the trace, as `unidev trace` does for all of a "
        'program; or add jax.transfer_guard_host_to_device("log"), which names shapes on stderr'
    ),
    "transfers inside a compiled function: constants, callbacks, host memory": (
        "XLA plans and makes them"
    ),
    "NumPy arrays handed to jax.lax, jax.random and jax.scipy": (
        "JAX compares some of these functions by identity, so they are not replaced"
    ),
    "NumPy arrays beside arrays that jax.vmap maps over": "there an array has no device yet",
    "arrays that JAX itself makes on its default device, as in jnp.nonzero": (
        "its own code computes by other functions than programs do"
    ),
    "copies of arrays that are spread over several devices; make_array_from_callback": (
        "JAX decides which part comes from where, and may go by the host"
    ),
    "single Python and NumPy numbers among operands (x + 1.0)": (
        "JAX sends a few bytes each time; jax.transfer_guard finds these"
    ),
    "functions and methods taken before the trace (from jax import device_put, f = x.item)": (
        "they are replaced by their names in jax, jax.numpy and numpy alone, and in their classes"
    ),
    "how long a copy to another device takes": (
        "JAX queues it and returns: the seconds are those of queueing, and whatever reads the "
        "result waits for the rest"
    ),
    "other frameworks that share memory": "DLPack passes an address; the other framework reads it",
}
_BLIND_SPOTS_OF_SIMULATION = {
    "NumPy's ufuncs and numbers (np.exp(x), np.float32(x)), memoryview(x), C code that takes the "
    "buffer": (
        "they read the memory of a simulated GPU without a call of Python; on a GPU they call "
        "x.__array__, which is seen"
    )
}


class JaxTracer(Tracer):
    """Replaces JAX's own functions, and NumPy's that read its arrays."""

    blind_spots = _BLIND_SPOTS
    loops = frozenset({"fit", "evaluate", "predict"})  # Keras's
    index_operations = Tracer.index_operations | {"flatnonzero", "repeat", "union1d", "setdiff1d"}
    gpu_queries = MappingProxyType({
        f"jax.{name}": jax
        for name in (
            "default_backend", "device_count", "devices", "local_device_count", "local_devices"
        )
    })  # fmt: skip

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        if backend.simulated_count:
            self.blind_spots = {**_BLIND_SPOTS, **_BLIND_SPOTS_OF_SIMULATION}
        self.recording = JaxRecording()
        self.patches = JaxPatches(backend, self.recording)

    def watch(
        self, begin: Callable[[PlannedTransfer], Any], end: Callable[[Any], None]
    ) -> AbstractContextManager[None]:
        """See ``Tracer``; with a single device nothing moves, and nothing is replaced."""
        if not self.backend.device_count("gpu"):
            return nullcontext()
        return super().watch(begin, end)
