"""The most memory that was in use, by Paddle's own statistics."""

from __future__ import annotations

import pytest

import unidev


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


def test_paddles_own_lack_of_memory_says_what_was_asked_for():
    import paddle

    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught, unidev.track_memory("cpu"):
        paddle.ones([2**45])
    assert caught.value.requested_bytes == 2**47
