"""The most memory that was in use, by Paddle's own statistics; pinned memory."""

from __future__ import annotations

import gc

import pytest

import unidev

MEGABYTE = 2**20


@pytest.fixture(autouse=True)
def _no_garbage():
    """Earlier tests leave tensors in cycles, which a collection inside a tracker would free."""
    gc.collect()


@pytest.mark.parametrize("device", ["cpu:0", "gpu:0", "gpu:2"])
def test_the_peak_is_what_was_in_use_at_once(device):
    with unidev.track_memory(device) as peak:
        x = unidev.ones(MEGABYTE, device=device)
        y = unidev.ones(MEGABYTE, device=device)
        del x, y
        z = unidev.ones(MEGABYTE, device=device)
    assert peak.added_bytes == 8 * MEGABYTE
    del z
    with unidev.track_memory(device) as peak:
        pass
    assert peak.added_bytes == 0


def test_what_other_devices_take_is_not_counted():
    with unidev.track_memory("gpu:1") as peak:
        x = unidev.ones(MEGABYTE, device="gpu:0")
    assert peak.added_bytes == 0
    del x


def test_trackers_nest():
    with unidev.track_memory("gpu:0") as outer:
        x = unidev.ones(2 * MEGABYTE, device="gpu:0")
        del x
        with unidev.track_memory("gpu:0") as inner:
            x = unidev.ones(MEGABYTE, device="gpu:0")
            del x
    assert (outer.added_bytes, inner.added_bytes) == (8 * MEGABYTE, 4 * MEGABYTE)


def test_more_simulated_devices_than_paddle_counts_apart_are_refused(run_python):
    done = run_python(
        "import unidev\n"
        "try:\n"
        "    unidev.track_memory('gpu:0')\n"
        "except unidev.UnsupportedOperation as error:\n"
        "    print(error)\n",
        UNIDEV_SIMULATE="17",
    )
    assert "Paddle counts some simulated GPUs together if there are more than 16" in done.stdout


def test_memory_is_pinned_only_for_a_real_gpu():
    with pytest.raises(unidev.UnsupportedOperation, match="only in a build for CUDA"):
        unidev.active_backend().pinned(unidev.ones(3))


def test_paddles_own_lack_of_memory_says_what_was_asked_for():
    import paddle

    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught, unidev.track_memory("cpu"):
        paddle.ones([2**45])
    assert caught.value.requested_bytes == 2**47
