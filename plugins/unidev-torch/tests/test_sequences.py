"""The programs that the suite draws reach all of PyTorch's part that they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from unidev.backends.loading import load_backend
from unidev_conformance.checks.tensor.test_sequences import test_of_tensors as of_tensors
from unidev_conformance.checks.train.test_training_sequences import (
    test_of_models_and_shards as of_models_and_shards,
)
from unidev_conformance.kit.workbench import Workbench

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(("check", "programs"), [(of_tensors, 110), (of_models_and_shards, 24)])
def test_each_function_is_reached(check: Callable[[Workbench], None], programs: int) -> None:
    bench = Workbench(load_backend("torch"))
    check(bench)
    found = bench.evidence.as_dict()
    assert found["programs"] == programs
    assert [name for name, count in found["calls"].items() if not count] == []
