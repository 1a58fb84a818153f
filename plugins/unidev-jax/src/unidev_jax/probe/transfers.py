"""JAX's calls that read, send or compute with arrays of several devices; and what moves nothing."""

from __future__ import annotations

import copy
import io
import math
import pickle
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import PlannedTransfer, TransferExample
from unidev_jax.framework import jax, jnp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from unidev.contract import Backend, Device

    Shape = tuple[int, ...]

_MATRIX: Shape = (2, 3)
_READS: dict[str, Sequence[Callable[[Any], object]]] = {
    "Array.__repr__": [repr],
    "Array.__str__": [str],
    "Array.__format__": [lambda x: f"{x}"],
    "Array.__array__": [lambda x: x.__array__()],
    "Array.tolist": [lambda x: x.tolist()],
    "Array.tobytes": [lambda x: x.tobytes()],
    "Array.copy_to_host_async": [lambda x: x.copy_to_host_async()],
    "pickle": [pickle.dumps],
    "jax.device_get": [jax.device_get, lambda x: jax.device_get({"x": x, "again": [x]})],
    "numpy.asarray": [
        lambda x: np.asarray(x, "float64"), lambda x: float(np.asarray(x)[0, 0]),
        lambda x: (np.asarray(x), x.tolist(), np.array(x)),  # JAX reads an array once
    ],
    "numpy.array": [lambda x: np.array(x, "float16"), lambda x: np.array([x, x])],
}  # fmt: skip
"""Calls that read a whole matrix."""
_BY_NUMPY: dict[str, Callable[[Any], object]] = {
    "numpy.stack": lambda x: np.stack([x, x]),
    "numpy.concatenate": lambda x: np.concatenate([x, x]),
    "numpy.allclose": lambda x: np.allclose(x, x),
    "numpy.save": lambda x: np.save(io.BytesIO(), x),
}
"""NumPy's functions: on a real GPU, the name is that of a function inside them."""
_OF_ONE: dict[str, Callable[[Any], object]] = {
    "Array.item": lambda x: x.item(),
    "Array.__bool__": bool,
    "Array.__int__": int,
    "Array.__float__": float,
    "Array.__complex__": complex,
    "Array.__format__": lambda x: f"{x:.2f}",
}
_OPERANDS: dict[str, Sequence[Callable[[Any, Any], object]]] = {
    # Of a matrix on the GPU and NumPy's of the same shape.
    "add of mixed operands": [
        lambda x, y: x + y, lambda x, y: y + x, jnp.add, lambda x, y: jax.tree.map(jnp.add, x, y),
    ],
    "mul of mixed operands": [
        lambda x, y: jax.grad(lambda x: (x * y).sum())(x), lambda x, y: jax.jit(jnp.sin)(x) * y,
    ],
    "eq of mixed operands": [lambda x, y: x == y],
    "matmul of mixed operands": [lambda x, y: jnp.matmul(x.T, y), lambda x, y: x.T @ y],
    "where of mixed operands": [lambda x, y: jnp.where(x > 2, x, y)],
    "concatenate of mixed operands": [lambda x, y: jnp.concatenate([x, y])],
    "Array.at.set": [lambda x, y: x.at[:].set(y)],
    "jax.jit(_added)": [
        lambda x, y: jax.jit(_added)(x, y=y), lambda x, y: _doubled(x, y / 2),
    ],
}  # fmt: skip


def _with_constants(x: Any) -> Any:
    """A compiled function has its constants on each device that it was compiled for."""
    host = np.ones(3, np.float32)
    return jax.jit(lambda x: x + host + jnp.sin(host))(x)


_NOTHING: Sequence[Callable[[Any], object]] = [
    lambda x: x + 1, lambda x: x @ x.T, lambda x: x.sum(), lambda x: x[1], lambda x: x.reshape(-1),
    lambda x: x.astype("float16"), copy.copy, copy.deepcopy, len, list, lambda x: x.shape, np.sum,
    np.shape, np.result_type, jnp.sin, lambda x: jnp.stack([x, x]),
    lambda x: jnp.where(x > 2, x, 0),
    lambda x: x.at[0].set(5.0), jax.block_until_ready, lambda x: jax.device_put(x, x.device),
    lambda x: jax.jit(_added)(x, x), lambda x: jnp.asarray(x, "float32"), jnp.ones_like,
    lambda x: jnp.zeros((2,), device=x.device), _with_constants,
]  # fmt: skip


def _added(x: Any, y: Any) -> Any:
    return x + y


def _doubled(x: Any, y: Any) -> Any:
    """Compiled within the scope, by a decorator with options."""

    @partial(jax.jit, static_argnames=("factor",))
    def _added(x: Any, y: Any, factor: int) -> Any:
        return x + factor * y

    return _added(x, y, factor=2)


def transfers_of(backend: Backend, gpu: Device) -> Iterator[TransferExample]:
    """See ``Probe.transfers``."""
    cpu = backend.cpu
    yield from _readings(gpu, cpu)
    yield from _numpys(backend, gpu, cpu)
    yield from _sendings(gpu, cpu)
    yield from _computations(gpu, cpu)
    for index in range(backend.device_count("gpu")):
        if index != gpu.index:
            yield from _copies(gpu, backend.device("gpu", index), cpu)
    for call in _NOTHING:
        yield TransferExample(partial(call, _matrix(gpu)), ())


def _readings(gpu: Device, cpu: Device) -> Iterator[TransferExample]:
    for name, calls in _READS.items():
        for call in calls:
            yield TransferExample(partial(call, _matrix(gpu)), _moves(name, gpu, cpu))
            yield TransferExample(partial(call, _matrix(cpu)), ())
    for name, read in _OF_ONE.items():
        one = jax.device_put(np.float32(2), gpu.native)
        yield TransferExample(partial(read, one), _moves(name, gpu, cpu, (4, ())))
    x, flags = _matrix(gpu), _matrix(gpu) > 2
    mask = _moves("Array.__getitem__", gpu, cpu, (6, _MATRIX))
    yield TransferExample(lambda: x[flags], mask)
    number = _moves("Array.__float__", gpu, cpu, (4, ()))
    yield TransferExample(lambda: math.sqrt(x[0, 1]), number)
    yield TransferExample(lambda: sum(map(float, x[0])), number * 3)


def _numpys(backend: Backend, gpu: Device, cpu: Device) -> Iterator[TransferExample]:
    for name, read in _BY_NUMPY.items():
        known = name if backend.simulated_count else ""
        yield TransferExample(partial(read, _matrix(gpu)), _moves(known, gpu, cpu))


def _sendings(gpu: Device, cpu: Device) -> Iterator[TransferExample]:
    native, host = gpu.native, _host()
    wide = host.astype("float64")  # narrowed before it is sent
    for name, call in (
        ("jax.device_put", lambda: jax.device_put(host, native)),
        ("jax.device_put", lambda: jax.device_put({"x": host, "lr": 0.1}, native)),
        ("jax.device_put", lambda: jax.device_put(wide, native)),
        ("jnp.asarray", lambda: jnp.asarray(host, device=native)),
        ("jnp.array", lambda: jnp.array(host.tolist(), device=native)),
    ):
        yield TransferExample(call, _moves(name, cpu, gpu))
    yield TransferExample(lambda: jax.device_put(host, cpu.native), ())

    def by_default() -> None:
        with jax.default_device(native):
            jnp.asarray(host)
            jnp.sin(host)
            jnp.ones((2, 3))

    moved = _moves("jnp.asarray", cpu, gpu) + _moves("jnp.sin", cpu, gpu)
    yield TransferExample(by_default, moved)


def _computations(gpu: Device, cpu: Device) -> Iterator[TransferExample]:
    for name, calls in _OPERANDS.items():
        for call in calls:
            brought = _moves(name, cpu, gpu)
            yield TransferExample(partial(call, _matrix(gpu), _host()), brought)
            yield TransferExample(partial(call, _matrix(gpu), _matrix(gpu)), ())
    x, rows = _matrix(gpu), np.array([1, 0])
    index = _moves("Array.__getitem__", cpu, gpu, (8, (2,)))
    yield TransferExample(lambda: x[rows], index)


def _copies(gpu: Device, other: Device, cpu: Device) -> Iterator[TransferExample]:
    x, native = _matrix(gpu), other.native
    put = _moves("jax.device_put", gpu, other)
    yield TransferExample(lambda: jax.device_put(x, native), put)
    yield TransferExample(lambda: jax.device_put([x, x], [native, gpu.native]), put)
    yield TransferExample(lambda: x.to_device(native), _moves("Array.to_device", gpu, other))
    with jax.default_device(native):
        loose = jnp.asarray(_host())  # not committed: it goes where the other operand is
    yield TransferExample(lambda: x + loose, _moves("add of mixed operands", other, gpu))
    yield TransferExample(lambda: _refused(lambda: x + jax.device_put(loose, native)), ())
    mesh = jax.sharding.Mesh(np.array([gpu.native, native]), ("rows",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    row = (12, (1, 3))
    first, second = sorted((gpu, other), key=lambda each: each.index)
    yield TransferExample(
        lambda: jax.device_put(_host(), rows),
        _moves("jax.device_put", cpu, first, row) + _moves("jax.device_put", cpu, second, row),
    )
    yield TransferExample(
        lambda: jax.device_put(x, rows), _moves("jax.device_put", gpu, other, row)
    )
    yield TransferExample(lambda: jax.device_put(x, everywhere), put)
    sharded, replicated = jax.device_put(x, rows), jax.device_put(x, everywhere)
    yield TransferExample(
        lambda: np.asarray(sharded),
        _moves("numpy.asarray", gpu, cpu, row) + _moves("numpy.asarray", other, cpu, row),
    )
    read = _moves("numpy.asarray", gpu, cpu)  # the first of its copies
    yield TransferExample(lambda: np.asarray(replicated), read)


def _refused(call: Callable[[], object]) -> None:
    try:
        call()
    except ValueError:
        return
    raise AssertionError("JAX did not refuse it")


def _host() -> Any:
    return np.arange(6, dtype="float32").reshape(_MATRIX)


def _matrix(device: Device) -> Any:
    return jax.device_put(_host(), device.native)


def _moves(
    name: str, source: Device, target: Device, *sizes: tuple[int, Shape]
) -> tuple[PlannedTransfer, ...]:
    """One transfer for each size, of bytes and a shape: by default, of the matrix."""
    return tuple(
        PlannedTransfer(name, source, target, nbytes, shape)
        for nbytes, shape in sizes or [(24, _MATRIX)]
    )
