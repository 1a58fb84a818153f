"""Sequences of calls, drawn and held against a model. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev_conformance.kit.machines.running import run_machine
from unidev_conformance.kit.machines.tensors import TensorMachine
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev_conformance.kit.workbench import Workbench


@check(required=True)
def test_of_tensors(bench: Workbench) -> None:
    """Making, viewing, copying, writing, dropping, in scopes and threads: NumPy's values always."""
    run_machine(TensorMachine, bench, programs=110, lines=40)
