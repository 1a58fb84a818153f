"""JAX's own kinds of arrays: traced, sharded, deleted, donated, in 64 bits."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from turns import in_a_thread

import unidev
from unidev.errors import (
    DeletedTensorError,
    FrameworkError,
    UnsupportedDtypeError,
    UnsupportedOperation,
)
from unidev_jax import copying


def sharded():
    """An array whose rows are on three devices."""
    mesh = Mesh(np.array(jax.devices()[:3]), ("rows",))
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    return jax.device_put(values, NamedSharding(mesh, PartitionSpec("rows")))


def test_a_large_full_array_is_made_by_jax():
    x = unidev.full((1 << 20,), 3, dtype="int64", device="gpu:1")
    assert (str(unidev.device_of(x)), str(x.dtype)) == ("gpu:1", "int64")
    assert set(unidev.to_numpy(x).tolist()) == {3}


@pytest.mark.parametrize("device", ["cpu", "gpu:1"])
@pytest.mark.parametrize("elements", [16, 1 << 20])
def test_a_copy_has_arrived_and_its_memory_is_jaxs_to_use_again(device, elements):
    x = unidev.rand(elements, device="cpu")
    y = unidev.copy_to(x, device)
    assert y.is_ready()
    assert y.committed
    assert not unidev.shares_memory(x, y)
    address = y.unsafe_buffer_pointer()
    z = jax.jit(lambda y: -y, donate_argnums=0)(y)  # memory of NumPy's could not be donated
    assert (y.is_deleted(), z.unsafe_buffer_pointer()) == (True, address)
    np.testing.assert_array_equal(unidev.to_numpy(z), -unidev.to_numpy(x))


@pytest.fixture(params=[True, False], ids=["this JAX", "a JAX without it"])
def _direct_way(request, monkeypatch):
    """With JAX's private function, and without: then only ``jax.device_put`` copies."""
    if not request.param:
        monkeypatch.setattr(copying, "_put", None)


@pytest.mark.usefixtures("_direct_way")
@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "float32", "int64", "complex128"])
def test_copies_are_the_same_with_and_without_the_direct_way(dtype):
    values = np.arange(6).reshape(2, 3).astype(copying.DTYPES[dtype])
    x = unidev.array(values, device="gpu:0")
    for device in ("cpu:0", "gpu:0", "gpu:1"):
        y = unidev.copy_to(x, device)
        assert (str(y.dtype), y.committed, y.weak_type) == (dtype, True, False)
        assert str(unidev.device_of(y)) == device
        assert not unidev.shares_memory(x, y)
        np.testing.assert_array_equal(unidev.to_numpy(y), values)


def test_a_weak_type_stays_weak():
    x = jnp.asarray(1.5)
    assert [unidev.copy_to(x, device).weak_type for device in ("cpu", "gpu:1")] == [True, True]


def test_an_array_in_a_mesh_of_one_device_is_copied_out_of_it():
    mesh = Mesh(np.array(jax.devices()[1:2]), ("rows",))
    x = jax.device_put(np.ones((3, 2), np.float32), NamedSharding(mesh, PartitionSpec("rows")))
    for device in ("cpu:0", "gpu:0", "gpu:1"):
        y = unidev.copy_to(x, device)
        assert str(unidev.device_of(y)) == device
        assert not unidev.shares_memory(x, y)
        assert unidev.to_numpy(y + 1).tolist() == [[2, 2]] * 3


@pytest.mark.parametrize("device", ["cpu", "gpu:1"])
def test_jaxs_guard_sees_a_copy_as_an_explicit_transfer(device):
    x = unidev.ones(3, device="cpu")
    with jax.transfer_guard("disallow"):
        assert unidev.to_numpy(unidev.copy_to(x, device)).tolist() == [1, 1, 1]
    with jax.transfer_guard("disallow_explicit"), pytest.raises(FrameworkError, match="Disallowed"):
        unidev.copy_to(x, device)


def test_a_sharded_array_has_no_device_and_can_be_read():
    x = sharded()
    with pytest.raises(
        UnsupportedOperation, match=r"over 3 devices: CpuDevice\(id=0\), CpuDevice\(id=1\), CpuDev"
    ):
        unidev.device_of(x)
    with pytest.raises(UnsupportedOperation, match=r"copy_to\(x, device\)"):
        unidev.as_in_device(x, "cpu")
    assert unidev.to_numpy(x).tolist() == [[0, 1], [2, 3], [4, 5]]
    shard = x.addressable_shards[1].data
    assert unidev.to_numpy(unidev.copy_to(shard, "gpu:3")).tolist() == [[2, 3]]
    assert unidev.shares_memory(x, shard)
    replicated = jax.device_put(x, NamedSharding(x.sharding.mesh, PartitionSpec()))
    for whole in (x, replicated):
        for y in (
            unidev.copy_to(whole, "gpu:0"), *unidev.place([whole], "gpu:0"),
            *unidev.device_put([whole], "gpu:0"),
        ):  # fmt: skip
            assert (str(unidev.device_of(y)), y.committed) == ("gpu:0", True)
            assert unidev.to_numpy(y).tolist() == [[0, 1], [2, 3], [4, 5]]
            assert not unidev.shares_memory(whole, y)


def test_a_donated_array_is_gone():
    x = unidev.ones(1000)
    jax.jit(lambda x: x + 1, donate_argnums=0)(x).block_until_ready()
    for call in (unidev.device_of, unidev.to_numpy, lambda x: unidev.copy_to(x, "gpu:1")):
        with pytest.raises(DeletedTensorError, match="donate_argnums"):
            call(x)


@pytest.mark.parametrize("trace", [jax.jit, jax.vmap, jax.checkpoint])
def test_the_device_of_a_traced_array_is_refused(trace):
    with pytest.raises(UnsupportedOperation, match=r"no device yet\. There use unidev.copy_to"):
        trace(lambda x: unidev.as_in_device(x, "gpu:1"))(jnp.ones((2, 3)))


def test_a_copy_inside_jit_is_what_jax_has_there():
    x = unidev.ones(3, device="gpu:1")
    y = jax.jit(lambda x: unidev.copy_to(x, "gpu:1") * 2)(x)
    assert unidev.to_numpy(y).tolist() == [2, 2, 2]
    assert str(unidev.device_of(y)) == "gpu:1"


def test_new_arrays_inside_jit_are_constants_of_the_program():
    x = unidev.ones(3, device="gpu:1")

    @jax.jit
    def compute(x):
        small, large = (
            unidev.full((3,), 2.0, device="gpu:1"),
            unidev.ones((1 << 19,), device="gpu:1"),
        )
        return x + small + large[:3] + unidev.zeros_like(x)

    assert unidev.to_numpy(compute(x)).tolist() == [4, 4, 4]
    for like in (unidev.zeros_like, unidev.ones_like, unidev.empty_like):
        assert unidev.device_of(jax.jit(like)(x)) is unidev.gpu(1)  # jnp's would be on the CPU


def test_what_is_traced_inside_grad_is_told_from_what_has_values():
    backend, seen = unidev.active_backend(), []

    def loss(x):
        seen.append(backend.traced(x))
        return (x * x).sum()

    x = unidev.ones(3)
    jax.grad(loss)(x)
    jax.grad(lambda x: jax.grad(loss)(x).sum())(x)
    jax.jit(loss)(x)
    jax.jit(jax.grad(loss))(x)
    jax.grad(jax.jit(loss))(x)
    assert seen[:4] == [False, False, True, True]
    assert all(seen[2:])


def test_inside_grad_an_array_has_the_device_of_the_one_behind_it():
    seen = []

    def loss(x):
        seen.append(str(unidev.device_of(x)))
        assert unidev.as_in_device(x, "gpu:1") is x
        return (unidev.copy_to(x, "gpu:2") ** 2).sum()

    x = unidev.full((3,), 2.0, device="gpu:1")
    found = jax.grad(loss)(x)
    assert unidev.to_numpy(found).tolist() == [4, 4, 4]
    jax.grad(lambda x: jax.grad(loss)(x).sum())(x)
    jax.jvp(loss, (x,), (x,))
    assert seen == ["gpu:1"] * 3


def test_random_keys_are_copied_and_have_no_numpy_dtype():
    key = unidev.copy_to(jax.random.key(7), "gpu:1")
    assert (jax.random.key_data(key) == jax.random.key_data(jax.random.key(7))).all()
    with pytest.raises(UnsupportedDtypeError, match="key_data"):
        unidev.to_numpy(key)
    like = unidev.zeros_like(key, device="gpu:0")
    assert (like.dtype, str(unidev.device_of(like))) == (key.dtype, "gpu:0")


def test_threads_of_unidev_have_the_64_bits_of_the_thread_that_starts_them():
    seen = []
    with jax.enable_x64(True):
        settings = unidev.active_backend().thread_settings()

    def work():
        with settings:
            seen.append(jnp.arange(2).dtype.name)
        seen.append(jnp.arange(2).dtype.name)

    in_a_thread(work)
    assert seen == ["int64", "int32"]


def test_synchronize_waits_for_what_jax_computes():
    x = unidev.ones((1000, 1000), device="gpu:1")
    y = x @ x @ x
    unidev.synchronize("gpu:1")
    assert y.is_ready()


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (jnp.float32, "float32"), (jnp.int64, "int64"), (jnp.bfloat16, "bfloat16"),
        (jnp.int4, "int4"), ("float8_e4m3fn", "float8_e4m3fn"), (np.dtype(jnp.int4), "int4"),
    ],
)  # fmt: skip
def test_a_dtype_has_jaxs_spellings_too(spec, name):
    x = unidev.array([0, 1, 2], dtype=spec, device="gpu:1")
    assert str(x.dtype) == name
    assert unidev.to_numpy(unidev.copy_to(x, "gpu:0")).astype(np.float32).tolist() == [0, 1, 2]


@pytest.mark.parametrize("spec", [jnp.sum, "float31", jnp, "integer", None.__class__])
def test_what_is_no_dtype_is_refused(spec):
    with pytest.raises(UnsupportedDtypeError):
        unidev.zeros(2, dtype=spec)


def test_python_ints_are_as_wide_as_jaxs():
    assert unidev.array([1, 2]).dtype == unidev.arange(3).dtype == jnp.int32
    with jax.enable_x64(True):
        assert unidev.array([1, 2]).dtype == unidev.arange(3).dtype == jnp.int64
