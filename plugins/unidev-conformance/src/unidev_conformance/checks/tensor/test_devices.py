"""The list of devices, and devices as values. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING

import numpy as np

import unidev
from unidev_conformance.kit.inputs import samples
from unidev_conformance.kit.processes.first_use import first_use
from unidev_conformance.kit.processes.fresh import run_fresh
from unidev_conformance.kit.processes.looking import tried
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench


@check(required=True)
def test_not_empty(bench: Workbench) -> None:
    """There is at least one device, and the first is the CPU."""
    found = unidev.list_devices()
    assert found, "list_devices() is empty"
    assert str(found[0]) == "cpu:0", f"the first device is {found[0]}, not cpu:0"
    assert found[0] is bench.cpu, f"the first device is not cpu(), which is {bench.cpu!r}"
    bench.evidence.add("devices", [str(device) for device in found])


@check(required=True)
def test_stable_order(bench: Workbench) -> None:
    """Repeated calls list the same devices in the same order: by kind, then by index."""
    first = [str(device) for device in bench.devices]
    for _ in range(4):
        again = [str(device) for device in unidev.list_devices()]
        assert again == first, f"listed as {first}, and then as {again}"
    for kind in bench.backend.kinds:
        indices = [device.index for device in bench.devices if device.kind == kind]
        assert indices == list(range(len(indices))), f"{kind}s have the indices {indices}"


@check(required=True)
def test_unique(bench: Workbench) -> None:
    """No device is listed twice: neither by name nor as the framework's own object."""
    listed = bench.devices
    for name, values in (
        ("str", [str(device) for device in listed]),
        ("native_name", [device.native_name for device in listed]),
        ("native", [repr(device.native) for device in listed]),
    ):
        assert len(set(values)) == len(listed), f"{name} of the listed devices: {values}"


@check(required=True)
def test_equality_and_hash(bench: Workbench) -> None:
    """A device equals itself however it is made, with the same hash, and equals no other."""
    for position, device in enumerate(bench.devices):
        others = [unidev.list_devices()[position], unidev.as_device(str(device))]
        for other in others:
            assert other == device, f"{device} was made twice, and the two are unequal"
            assert bench.works(hash, other) == bench.works(hash, device), f"{device}: its hashes"
        assert {device: 1}.get(others[0]) == 1, f"{device} is not found in a dict"
        for index, another in enumerate(bench.devices):
            if index != position:
                assert device != another, f"{device} == {another}"
        for name in ("backend", "kind", "index", "native", "note"):
            bench.expect(AttributeError, setattr, device, name, 1)
        text: object = str(device)
        assert device != text, f"{device} equals a string"


@check(over="devices")
def test_pickles(bench: Workbench, device: Device) -> None:
    """A device that is pickled, copied or deep-copied is the same object afterwards."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        back = bench.works(pickle.loads, pickle.dumps(device, protocol))
        assert back is device, f"{device!r} came back from pickle as {back!r}"
    assert copy.copy(device) is device, f"copy.copy({device}) is another object"
    assert copy.deepcopy({"d": device})["d"] is device, f"copy.deepcopy of {device} is another"


@check(required=True, over="devices")
def test_string_round_trip(bench: Workbench, device: Device) -> None:
    """``str`` gives kind and index, and parses back to the same device."""
    text = str(device)
    assert text == f"{device.kind}:{device.index}", f"{device!r} is spelt {text!r}"
    back = bench.works(unidev.as_device, text)
    assert back is device, f"{text!r} means {back!r}, not {device!r}"


@check(required=True)
def test_aliases_mean_one_device(bench: Workbench) -> None:
    """``cpu`` and ``cpu:0``, the framework's own spelling and its own object are one device."""
    for device in bench.devices:
        aliases: list[object] = [device, str(device), device.native, device.native_name]
        if device.index == 0:
            aliases.append(device.kind)
        if device.kind == "gpu":
            aliases += [device.index, np.int64(device.index)]
        for alias in aliases:
            found = bench.works(unidev.as_device, alias)
            assert found is device, f"{alias!r} means {found!r}, not {device!r}"
        bench.evidence.add("aliases", f"{device}: {', '.join(map(repr, aliases[1:]))}")
    for index, device in enumerate(each for each in bench.devices if each.kind == "gpu"):
        assert unidev.gpu(index) is device, f"gpu({index}) is not the listed {device}"


@check(required=True)
def test_count_equals_simulated(bench: Workbench) -> None:
    """There are as many GPUs as simulated (or else listed), and each reports if it is simulated."""
    gpus = [device for device in bench.devices if device.kind == "gpu"]
    count = unidev.num_gpus()
    wanted = bench.simulated or len(gpus)
    assert count == wanted, f"num_gpus() is {count}, not {wanted}"
    assert [each.index for each in gpus] == list(range(wanted)), f"listed: {list(map(str, gpus))}"
    for device in gpus:
        assert device.is_simulated is (bench.simulated > 0), f"{device}: is_simulated is wrong"
    assert not bench.cpu.is_simulated, "the CPU reports that it is simulated"


@check(required=True, over="devices")
def test_each_listed_device_is_usable(bench: Workbench, device: Device) -> None:
    """On every listed device, values can be written, copied, and read back."""
    bench.works(_use, device)


def _use(device: Device) -> None:
    values = samples.counting()
    x = unidev.array(values, device=device)
    y = unidev.copy_to(x, device)
    unidev.synchronize(device)
    unidev.synchronize()
    back = unidev.to_numpy(y)
    assert np.array_equal(back, values), f"{device} returned {back} for {values}"
    zeros = unidev.to_numpy(unidev.zeros((2, 3), device=device))
    assert not zeros.any(), f"{device} returned {zeros} for zeros"


@check(required=True)
def test_try_gpu_in_and_out_of_range(bench: Workbench) -> None:
    """``try_gpu(i)`` is GPU ``i`` if it exists, otherwise the CPU, never another GPU."""
    count = unidev.num_gpus()
    gpus = [device for device in bench.devices if device.kind == "gpu"]
    for index, device in enumerate(gpus):
        assert bench.works(unidev.try_gpu, index) is device, f"try_gpu({index}) is not {device}"
    for index in (count, count + 1, count + 1_000):
        found = bench.works(unidev.try_gpu, index)
        assert found is bench.cpu, f"with {count} GPUs, try_gpu({index}) is {found!r}"
    expected = gpus or [bench.cpu]
    found_all = bench.works(unidev.try_all_gpus)
    assert found_all == expected, f"try_all_gpus() is {found_all}, not {expected}"
    bench.expect(unidev.DeviceSpecError, unidev.try_gpu, -1)


@check(required=True)
def test_free_memory_chooses(bench: Workbench) -> None:
    """``free`` is the first GPU with that much free memory, otherwise the CPU; sizes are checked.

    The two sizes are one that every GPU has, and one that none can have.
    """
    gpus = [device for device in bench.devices if device.kind == "gpu"]
    for size in ("8 apples", "24", -1, True):
        bench.expect(unidev.DeviceSpecError, unidev.try_gpu, free=size)
    try:
        first = unidev.try_gpu(free=_LITTLE)
    except unidev.UnsupportedOperation as refusal:
        if bench.simulated or not refusal.reason:
            raise
        bench.not_applicable(f"free memory takes a context here: {refusal.reason}")
    assert first is (gpus or [bench.cpu])[0], f"try_gpu(free={_LITTLE!r}) is {first!r}"
    for free, expected in ((_LITTLE, gpus), (1, gpus), (_TOO_MUCH, []), (10**18, [])):
        found = unidev.try_all_gpus(free=free)
        assert found == (expected or [bench.cpu]), f"try_all_gpus(free={free!r}) is {found}"
        for index, device in enumerate(gpus):
            one = unidev.try_gpu(index, free=free)
            wanted = device if expected else bench.cpu
            assert one is wanted, f"try_gpu({index}, free={free!r}) is {one!r}"
    bench.expect(unidev.DeviceSpecError, unidev.try_gpu, 0, most_free=True)
    most = unidev.try_gpu(most_free=True)
    assert most in (gpus or [bench.cpu]), f"try_gpu(most_free=True) is {most!r}"
    none = unidev.try_gpu(free=_TOO_MUCH)
    assert none is bench.cpu, f"try_gpu(free={_TOO_MUCH!r}) is {none!r}"
    error = bench.expect(unidev.DeviceNotFoundError, unidev.gpu, free=_TOO_MUCH)
    unnamed = [str(device) for device in gpus if str(device) not in str(error)]
    assert not unnamed, f"gpu(free={_TOO_MUCH!r}) does not name {unnamed}: {error}"


_LITTLE = "1 KiB"
_TOO_MUCH = "1,000,000,000 GiB"


@check(required=True)
def test_try_all_gpus_without_any_gives_cpu(bench: Workbench) -> None:
    """Without a GPU, ``try_all_gpus()`` is ``[cpu()]``, and ``try_gpu()`` is ``cpu()``."""
    if bench.simulated:
        # It would be the process without simulated GPUs that the configuration without them has.
        bench.not_applicable("GPUs are simulated: the configuration without them shows it")
    found = tried()
    if found["count"]:
        found = run_fresh(_TRY, backend=bench.backend.name, variables=_NO_GPUS)
    if found["count"]:
        bench.not_applicable(f"there are {found['count']} GPUs, which cannot be hidden")
    assert found["all"] == ["cpu:0"], f"try_all_gpus() without a GPU is {found['all']}"
    assert found["first"] == "cpu:0", f"try_gpu() without a GPU is {found['first']}"
    bench.evidence.add("without a GPU", found)


_NO_GPUS = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1", "ZE_AFFINITY_MASK": "-1"}
_TRY = """
from unidev_conformance.kit.processes.looking import tried
answer(tried())
"""


@check()
def test_survives_spawn(bench: Workbench) -> None:
    """A device sent to a fresh process is the same device there, and works."""
    found = first_use(bench)["arrived"]
    expected = [[str(device), str(device), [0.0, 0.0]] for device in bench.devices]
    assert found == expected, f"sent {[row[0] for row in expected]}, arrived and used: {found}"
    bench.evidence.add("arrived", found)
