"""Models inside containers: queries include them, transfers refuse them. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import unidev
from unidev_conformance.kit.models.sample_models import INPUT, Sample
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_BOTH = ("models", "probe.models")


@check(required=True, needs=_BOTH, over="devices")
def test_looking_sees_through(bench: Workbench, here: Device) -> None:
    """``device_of`` of a container with a model in it counts the model's tensors."""
    sample = Sample.on(bench, here)
    for there in bench.devices:
        both = {"model": sample.model, "batch": [bench.make(INPUT, there)]}
        where = f"a model on {here} and a batch on {there}, in one dict"
        assert unidev.same_device(both) is (here is there), f"{where}: same_device is wrong"
        if here is there:
            found = bench.works(unidev.device_of, both)
            assert found is here, f"{where}: device_of returns {found}"
        else:
            bench.expect(unidev.DeviceMismatchError, unidev.device_of, both)


@check(required=True, needs=_BOTH, over="pairs")
def test_mismatch_names_paths(bench: Workbench, here: Device, there: Device) -> None:
    """A mismatch inside a container gives the path to the model and on into it."""
    sample = Sample.on(bench, here)
    state = {"nets": [sample.model], "mask": bench.make(INPUT, there)}
    error = bench.expect(unidev.DeviceMismatchError, unidev.check_same_device, state=state)
    names = sample.paths()
    expected = {*(f"state['nets'][0].{name}" for name in names), "state['mask']"}
    assert set(error.devices) == expected, f"it names {sorted(error.devices)}, not {expected}"


@check(required=True, needs=_BOTH, over="all_pairs")
def test_transfer_verbs_refuse(bench: Workbench, source: Device, target: Device) -> None:
    """A container with a model in it is not copied, not even partly: the error names ``place``."""
    sample = Sample.on(bench, source)
    x = bench.make(INPUT, source)
    memory = sample.memory()
    for verb in (unidev.copy_to, unidev.as_in_device):
        for tree in ({"x": x, "model": sample.model}, [sample.model], (x, {"m": sample.model})):
            error = bench.expect(unidev.NotATensorError, verb, tree, target)
            assert "place" in str(error), f"the message does not name `place`: {error}"
    assert sample.memory() == memory, f"{source} to {target}: the model was touched"
