"""JAX's devices, their names, and what starts its runtime."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import pytest

import unidev
from unidev_jax import devices
from unidev_jax.memory import gpu_memory

if TYPE_CHECKING:
    from fresh_programs import Python


@pytest.mark.parametrize(
    ("spelling", "device"),
    [
        ("gpu:1", "gpu:1"),
        ("cuda:1", "gpu:1"),
        ("rocm", "gpu:0"),
        ("tpu:3", "gpu:3"),
        ("CpuDevice(id=0)", "cpu:0"),
        ("CpuDevice(id=2)", "gpu:1"),
        (jax.devices("cpu")[3], "gpu:2"),
        (jax.sharding.SingleDeviceSharding(jax.devices("cpu")[0]), "cpu:0"),
    ],
)
def test_a_spelling_of_jaxs_means_one_device(spelling, device):
    assert str(unidev.as_device(spelling)) == device


@pytest.mark.parametrize("spelling", ["cuda:", "cuda:x", "CudaDevice(id=0)", "vulkan:0"])
def test_other_spellings_are_refused(spelling):
    with pytest.raises(unidev.DeviceSpecError):
        unidev.as_device(spelling)


def test_an_uncommitted_array_is_on_its_device_and_a_copy_is_committed():
    x = jax.numpy.ones(3)
    assert not x.committed
    assert unidev.device_of(x) is unidev.cpu()
    assert unidev.copy_to(x, "cpu").committed
    assert unidev.ones(3).committed


OF_FRESH_PROCESSES = {
    "counting devices starts no runtime": """
assert unidev.num_gpus() == 0, unidev.num_gpus()
assert [*map(str, unidev.list_devices())] == ['cpu:0']
jax.config.update('jax_num_cpu_devices', 3)  # refused once the runtime has started
assert [*map(str, unidev.list_devices())] == ['cpu:0', 'cpu:1', 'cpu:2']
assert len(jax.devices()) == 3
""",
    "CPUs that a flag of XLA's splits are counted": """
os.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=2'
found = [*map(str, unidev.list_devices())]
assert found == ['cpu:0', 'cpu:1'], found
assert len(jax.devices()) == 2
""",
    "simulation after the first array is refused": """
jax.numpy.ones(3)
with pytest.raises(unidev.errors.UnidevError, match='UNIDEV_SIMULATE=2'):
    unidev.simulate(2)
    unidev.ones(3)
""",
    "a program that split the CPU itself may simulate as many": """
jax.config.update('jax_num_cpu_devices', 3)
jax.numpy.ones(3)
unidev.simulate(2)
assert unidev.num_gpus() == 2
assert str(unidev.device_of(unidev.ones(3, device='gpu:1'))) == 'gpu:1'
""",
}


@pytest.mark.parametrize("program", [*OF_FRESH_PROCESSES.values()], ids=[*OF_FRESH_PROCESSES])
def test_in_a_fresh_process(python: Python, program: str):
    done = python("import os, jax, pytest, unidev\n" + program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "said",
    [
        "RESOURCE_EXHAUSTED: Out of memory allocating 4096 bytes.",
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4.00KiB.",
        "RESOURCE_EXHAUSTED: Failed to allocate request for 4.00KiB (4096B) on device ordinal 0",
    ],
)
def test_the_numbers_in_jaxs_words_are_read(said, monkeypatch):
    def fails(*_):
        raise jax.errors.JaxRuntimeError(said)

    monkeypatch.setattr(unidev.active_backend(), "copy_to", fails)
    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught:
        unidev.copy_to(jnp.ones(3), "gpu:1")
    assert caught.value.requested_bytes == 4096


def test_too_large_an_array_is_lack_of_memory():
    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught:
        unidev.zeros(2**50, device="gpu:1")
    assert caught.value.requested_bytes == 2**52


def test_the_memory_of_a_gpu_is_its_allocators():
    native = SimpleNamespace(
        memory_stats=lambda: {"bytes_in_use": 3, "bytes_limit": 10, "pool_bytes": 5}
    )
    memory = gpu_memory(SimpleNamespace(native=native))
    assert memory == (3, 7, 10)
    assert memory.reserved_bytes == 5


def test_an_allocator_without_counts_is_said(monkeypatch):
    device = SimpleNamespace(native=SimpleNamespace(memory_stats=lambda: None))
    with pytest.raises(unidev.UnsupportedOperation, match="XLA_PYTHON_CLIENT_ALLOCATOR"):
        gpu_memory(device)


@pytest.fixture
def machine(monkeypatch):
    """The GPUs that JAX will find with these distributions, of three that the driver counts."""

    def counted(*names: str, **settings: str):
        found = [SimpleNamespace(metadata={"Name": name}) for name in names]
        monkeypatch.setattr(devices, "distributions", lambda: found)
        monkeypatch.setattr(devices, "visible_gpus", lambda accelerator: 3)
        config = SimpleNamespace(**{"jax_platforms": None, "jax_num_cpu_devices": -1, **settings})
        monkeypatch.setattr(devices, "jax", SimpleNamespace(config=config))
        return devices.gpus_of_the_driver()

    return counted


@pytest.mark.parametrize(
    ("names", "settings", "count"),
    [
        ((), {}, 0),
        (("jax-cuda13-plugin",), {}, 3),
        (("jax-rocm7-plugin",), {}, 3),
        (("jax-cuda13-plugin",), {"jax_platforms": "cpu"}, 0),
        (("jax-cuda13-plugin",), {"jax_platforms": "cuda,cpu"}, 3),
        (("jax-cuda13-plugin",), {"jax_platforms": "tpu"}, None),
        (("jax-cuda13-plugin",), {"jax_cuda_visible_devices": "0"}, None),
        (("jax-cuda13-plugin", "jax-rocm7-plugin"), {}, None),
    ],
)
def test_gpus_are_counted_by_the_driver_where_jax_will_use_them_all(
    names, settings, count, machine
):
    assert machine(*names, **settings) == count
