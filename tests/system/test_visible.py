"""The variables that leave a process some of the GPUs."""

from __future__ import annotations

import pytest

from unidev.system.visible import hidden, restriction


@pytest.mark.parametrize(
    ("environment", "first", "count", "expected"),
    [
        ({}, 1, 1, {"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}),
        ({}, 2, 2, {"CUDA_VISIBLE_DEVICES": "2,3", "ZE_AFFINITY_MASK": "2,3"}),
        (
            {"CUDA_VISIBLE_DEVICES": "5, GPU-ab ,7"}, 1, 1,
            {"CUDA_VISIBLE_DEVICES": "GPU-ab", "HIP_VISIBLE_DEVICES": "GPU-ab"},
        ),
        # HIP reads CUDA's variable where its own is not set, and counts what ROCR's leaves.
        (
            {"CUDA_VISIBLE_DEVICES": "5,6", "HIP_VISIBLE_DEVICES": "3,2"}, 1, 1,
            {"CUDA_VISIBLE_DEVICES": "6", "HIP_VISIBLE_DEVICES": "2"},
        ),
        ({"ROCR_VISIBLE_DEVICES": "4,5"}, 1, 1, {"HIP_VISIBLE_DEVICES": "1"}),
        ({"ZE_AFFINITY_MASK": ""}, 1, 1, {"ZE_AFFINITY_MASK": "1"}),  # as if it were not set
        ({"ZE_AFFINITY_MASK": "0.1,1.0"}, 1, 1, {"ZE_AFFINITY_MASK": "1.0"}),
        ({"CUDA_VISIBLE_DEVICES": "4"}, 0, 0, {"CUDA_VISIBLE_DEVICES": "-1"}),
    ],
)  # fmt: skip
def test_a_process_that_is_to_see_some_of_them(
    environment: dict[str, str], first: int, count: int, expected: dict[str, str]
) -> None:
    found = restriction(environment, first, count)
    assert {name: found[name] for name in expected} == expected


def test_what_a_restriction_hides_is_read_as_hidden() -> None:
    for accelerator in ("cuda", "rocm", "xpu"):
        hiding = hidden(restriction({}, 0, 0), accelerator, None)
        assert hiding is not None, accelerator
        assert hiding.shown == 0, accelerator
