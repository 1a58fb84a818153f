"""``pin``: the same values in memory of their own, once. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import unidev
from unidev_conformance.kit.inputs import samples
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev_conformance.kit.workbench import Workbench


@check(required=True, needs=("pinned",))
def test_copies(bench: Workbench) -> None:
    """A pinned tensor is a copy on the CPU, of each dtype, bit for bit; an empty one is empty."""
    cpu = bench.backend.cpu
    for dtype in bench.dtypes(cpu):
        x = bench.of_dtype(dtype, cpu)
        bench.oracle.check_copy(x, bench.works(unidev.pin, x), cpu, f"pinned {dtype}")
    for shape in ((), (3, 0), (1000, 1000)):
        x = bench.make(samples.counting(shape), cpu)
        y = bench.works(unidev.pin, x)
        unidev.pin(bench.make(samples.counting(shape) + 1, cpu))  # has other memory
        bench.oracle.check_kind(x, y, f"pinned, of shape {shape}")
        bench.oracle.check_bytes(y, bench.probe.read(x), f"pinned, of shape {shape}")
    if bench.has("probe.gradient"):
        found = bench.probe.gradient(unidev.pin, samples.counting(), cpu)
        assert np.array_equal(found, np.ones_like(found)), f"through pin, a gradient of {found}"


@check(required=True, needs=("pinned",))
def test_pinned_once(bench: Workbench) -> None:
    """``pin`` returns tensors that are pinned already as they are, alone and in a container."""
    x = bench.matrix(bench.backend.cpu)
    batch = unidev.pin({"x": x, "again": [x], "name": "a"})
    assert batch["x"] is batch["again"][0], "a tensor that occurs twice was pinned twice"
    assert unidev.pin(batch["x"]) is batch["x"], "pinning a pinned tensor made another tensor"
    assert unidev.pin(batch) is batch, "pinning a pinned batch made another batch"
