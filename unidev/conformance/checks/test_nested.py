"""Models inside containers: queries include them, verbs that move tensors refuse them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import unidev
from unidev.conformance.kit.sample_models import INPUT, Sample
from unidev.conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.conformance.kit.workbench import Workbench

_BOTH = ("models", "probe.models")


@check(required=True, profile="train", needs=_BOTH)
def test_looking_sees_through(workbench: Workbench) -> None:
    """``device_of`` of a container with a model in it counts the model's tensors."""
    for here in workbench.devices:
        sample = Sample.on(workbench, here)
        for there in workbench.devices:
            both = {"model": sample.model, "batch": [workbench.make(INPUT, there)]}
            where = f"a model on {here} and a batch on {there}, in one dict"
            assert unidev.same_device(both) is (here is there), f"{where}: same_device is wrong"
            if here is there:
                found = workbench.works(unidev.device_of, both)
                assert found is here, f"{where}: device_of returns {found}"
            else:
                workbench.expect(unidev.DeviceMismatchError, unidev.device_of, both)


@check(required=True, profile="train", needs=_BOTH)
def test_mismatch_names_paths(workbench: Workbench) -> None:
    """A mismatch inside a container gives the path to the model and on into it."""
    for here, there in workbench.pairs():
        sample = Sample.on(workbench, here)
        state = {"nets": [sample.model], "mask": workbench.make(INPUT, there)}
        error = workbench.expect(unidev.DeviceMismatchError, unidev.check_same_device, state=state)
        names = list(workbench.backend.models.tensors(sample.model))
        expected = {*(f"state['nets'][0].{name}" for name in names), "state['mask']"}
        assert set(error.devices) == expected, f"it names {sorted(error.devices)}, not {expected}"


@check(required=True, profile="train", needs=_BOTH)
def test_transfer_verbs_refuse(workbench: Workbench) -> None:
    """A container with a model in it is not copied, not even partly: the error names ``place``."""
    for source, target in workbench.all_pairs():
        sample = Sample.on(workbench, source)
        x = workbench.make(INPUT, source)
        memory = sample.memory()
        for verb in (unidev.copy_to, unidev.as_in_device):
            for tree in ({"x": x, "model": sample.model}, [sample.model], (x, {"m": sample.model})):
                error = workbench.expect(unidev.NotATensorError, verb, tree, target)
                assert "place" in str(error), f"the message does not name `place`: {error}"
        assert sample.memory() == memory, f"{source} to {target}: the model was touched"
