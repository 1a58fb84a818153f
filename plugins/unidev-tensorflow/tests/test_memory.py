"""Memory of GPUs that are split into several logical ones, by made-up answers of TensorFlow."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.client import device_lib, pywrap_tf_session

import unidev
from unidev.contract import Memory
from unidev_tensorflow.memory import memory_of

PREFIX = "/job:localhost/replica:0/task:0/device:"
DEVICES = {"CPU:0": 256, "GPU:0": 100, "GPU:1": 200, "GPU:2": 400}
"""Of this process; the limit of each."""
CARDS = [tf.config.PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(3)]
SPLIT = {CARDS[0]: 2, CARDS[1]: 1, CARDS[2]: 1}


@pytest.fixture
def cards(monkeypatch):
    """Three cards: the first is split in two, and the second is hidden."""
    tf.ones(1)  # starts the runtime, which lists its own devices
    names = list(DEVICES)
    deleted = []
    monkeypatch.setattr(pywrap_tfe, "TFE_ContextListDevices", lambda handle: "devices")
    monkeypatch.setattr(pywrap_tfe, "TF_DeviceListCount", lambda devices: len(names))
    monkeypatch.setattr(pywrap_tfe, "TF_DeviceListName", lambda devices, i: PREFIX + names[i])
    monkeypatch.setattr(pywrap_tfe, "TF_DeleteDeviceList", deleted.append)
    monkeypatch.setattr(
        pywrap_tf_session, "TF_DeviceListMemoryBytes", lambda devices, i: DEVICES[names[i]]
    )
    monkeypatch.setattr(
        device_lib, "list_local_devices", lambda *_: pytest.fail("devices were made anew")
    )
    monkeypatch.setattr(
        tf.config.experimental, "get_memory_info", lambda name: {"current": 30, "peak": 50}
    )
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: CARDS)
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [CARDS[2], CARDS[0]])
    monkeypatch.setattr(
        tf.config, "get_logical_device_configuration", lambda card: [None] * SPLIT[card]
    )
    backend = unidev.active_backend()
    monkeypatch.setattr(backend, "simulated_count", 0)
    monkeypatch.setattr(backend, "full_name", lambda device: f"{PREFIX}GPU:{device.index}")
    yield backend
    assert set(deleted) <= {"devices"}


def test_each_part_of_a_split_card_has_a_limit_of_its_own(cards):
    found = [memory_of(cards)(unidev.Device("tensorflow", "gpu", i)) for i in range(3)]
    assert found == [Memory(30, 70, 100), Memory(30, 170, 200), Memory(30, 370, 400)]


def test_a_device_that_tensorflow_does_not_list_is_refused(cards):
    with pytest.raises(unidev.UnsupportedOperation, match="does not list this device"):
        memory_of(cards)(unidev.Device("tensorflow", "gpu", 3))


def test_the_card_of_a_part_is_the_one_that_is_split(cards):
    assert [cards.hardware_index("gpu", i) for i in range(4)] == [0, 0, 2, None]


def test_a_cpu_has_no_count(cards):
    with pytest.raises(unidev.UnsupportedOperation, match="no limit of a CPU"):
        memory_of(cards)(unidev.cpu())
