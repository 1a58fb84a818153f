"""Drawn sequences of placing, training, saving, splitting and reducing. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev_conformance.kit.machines.running import run_machine
from unidev_conformance.kit.machines.training import TrainingMachine
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev_conformance.kit.workbench import Workbench


@check(required=True, needs=("models", "layers", "functions", "collectives"), also_in=("multi",))
def test_of_models_and_shards(bench: Workbench) -> None:
    """Placing, steps, files, replicas, shards and sums: the weights and values of NumPy always."""
    can_train = bench.has("autograd")  # without: fewer kinds of lines
    run_machine(TrainingMachine, bench, programs=24 if can_train else 10, lines=40)
