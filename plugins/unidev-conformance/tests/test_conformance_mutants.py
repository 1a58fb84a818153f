"""The suite can fail: every mutant is caught by the checks it names, and the reference by none."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import mutants
import pytest
from conformance_children import ChildResult, Job, mutant_job, run_all
from mutants import IDLE, MUTANTS, SOUND
from mutants.mutant import NUMPY, PLUGINS, TOY, in_place_of, replace, replace_value, restore

from unidev.device import registry
from unidev.system.child_processes import Interruption
from unidev.tensors import devices
from unidev.tensors.devices import check_device, resolve_device
from unidev_conformance.running.catalog import PROFILES, all_checks, every_check
from unidev_conformance.running.child import Order
from unidev_conformance.running.configuration_run import ConfigurationRun

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mutants.mutant import Mutant

REFERENCE_COUNTS = (0, 1, 4)
TAKING_LONG = {"workers"}
"""Groups whose checks start processes."""
OWN = {name: each for name, each in MUTANTS.items() if each.plugin in (NUMPY, TOY)}
"""The others are judged in the session of the framework that they are made of."""
FAILING = {name: each for name, each in OWN.items() if each.result == "fail"}
BREAKING = {name: each for name, each in OWN.items() if each.result != "fail"}
SOUND_HERE = {name: each for name, each in SOUND.items() if each.plugin in (NUMPY, TOY)}
CONDITIONAL = {
    "copy.gradient_reaches_the_source", "create.scope_is_the_frameworks_too",
    "queued.side_stream", "current.device_and_stream_stay",
    "statistics.memory", "statistics.peak", "pinned.copies", "pinned.pinned_once",
    "prefetch.autograd_mode",
    "pending.looking_computes_nothing", "pending.copies_are_computed", "pending.gradient_of_a_copy",
}  # fmt: skip
"""Required where the framework has it; NumPy has no autograd, streams, counters, default device,
and computes at once."""
ON_HARDWARE = {"contexts.looking_makes_none", "statistics.first_use", "failures.full_card"}
"""Simulated devices cannot show it: made-up cards pass them."""
OF_TREES = {check.id for check in all_checks("train") if check.group == "trees"} - {
    "trees.numbers_kept"
}
"""NumPy's containers change in place; ``examples/toy_backend`` has trees."""
TENSOR = {check.id for check in all_checks()}
NOT_IN_NUMPY = {
    *CONDITIONAL, "errors.deleted_tensor", "errors.tensors_elsewhere",
    "values.memory_that_is_cut_short",
}  # fmt: skip


def first_of_each_group(found: Mapping[str, Mutant]) -> list[Any]:
    """Their names; those that only one more check of a group needs are slow, being hundreds."""
    seen: set[str] = set()
    named = []
    for name, each in found.items():
        group = each.caught_by[0].partition(".")[0]
        is_first = group not in seen and group not in TAKING_LONG
        named.append(name if is_first else pytest.param(name, marks=pytest.mark.slow))
        seen.add(group)
    return named


def judged(name: str, mutant: Mutant, folder: Path) -> ChildResult:
    job = mutant_job(name, mutant.caught_by, mutant.simulated_count, profile=mutant.profile)
    return run_all({name: job}, folder)[name]


@pytest.mark.parametrize("name", first_of_each_group(FAILING))
def test_a_mutant_fails_each_check_that_it_names(name: str, tmp_path: Path) -> None:
    told = judged(name, FAILING[name], tmp_path)
    for check in FAILING[name].caught_by:
        assert told.results.get(check) == "fail", told.described(check)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND_HERE)
def test_a_sound_variant_passes_what_its_broken_twins_fail(name: str, tmp_path: Path) -> None:
    told = judged(name, SOUND_HERE[name], tmp_path)
    for check in SOUND_HERE[name].caught_by:
        assert told.results.get(check) == "pass", told.described(check)


@pytest.mark.slow
@pytest.mark.parametrize("name", BREAKING)
def test_a_mutant_that_breaks_the_process_is_told_by_the_parent(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNIDEV_PLUGINS", f"mutants:{name}")
    monkeypatch.setenv("UNIDEV_DISABLED_PLUGINS", "numpy")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    mutant = BREAKING[name]
    run = ConfigurationRun(
        name=name,
        backend=mutant.backend_name,
        profile=mutant.profile,
        simulated=mutant.simulated_count,
        only=(*mutant.caught_by, "smoke.create_and_read_back"),
        timeout_s=20,  # a busy machine takes seconds to start what does not hang
        on_progress=lambda progress: None,
    )
    run.run(tmp_path, Interruption())
    assert {check: how for check, (how, *_) in run.broken.items()} == dict.fromkeys(
        mutant.caught_by, mutant.result
    )
    assert run.ends["smoke.create_and_read_back"].result == "pass"


def test_the_reference_passes_all_but_what_numpy_lacks(tmp_path: Path) -> None:
    """One test: in several processes, each would judge the reference for its own."""
    orders = {
        str(count): Order(backend="numpy", profile="tensor", simulated=count)
        for count in REFERENCE_COUNTS
    }
    jobs = {name: Job(order=order, variables={}) for name, order in orders.items()}
    found = run_all(jobs, tmp_path)
    passed, unsupported = set(), set()
    for each in found.values():
        assert set(each.results) == {check.id for check in all_checks()}, each.output[-3000:]
        by_result = {
            result: {check for check, how in each.results.items() if how == result}
            for result in {*each.results.values()}
        }
        passed |= by_result.pop("pass")
        unsupported |= by_result.pop("unsupported", set())
        by_result.pop("not-applicable", None)
        assert not by_result, [each.described(check) for check in set().union(*by_result.values())]
    assert found["4"].required - passed == (CONDITIONAL | ON_HARDWARE) & TENSOR
    assert unsupported == NOT_IN_NUMPY


@pytest.mark.parametrize(
    ("profile", "simulated", "some"),
    [
        ("train", 2, {"layers.conv2d", "functional.values", "models.container_of_arrays"}),
        pytest.param(
            "multi", 3, {"splitting.shards", "replicating.copies", "reducing.values"},
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_numpy_passes_what_it_has_of_a_profile_and_says_what_it_has_not(
    profile: str, simulated: int, some: set[str], tmp_path: Path
) -> None:
    job = Job(order=Order(backend="numpy", profile=profile, simulated=simulated), variables={})
    told = run_all({"numpy": job}, tmp_path)["numpy"]
    lacking = {
        "autograd", "probe.autograd", "probe.models", "probe.current", "probe.deleted",
        "probe.compile",
    }  # fmt: skip
    expected = {
        check.id: "unsupported"
        if {".".join(need.split(".")[:2]) for need in check.needs} & lacking
        else "not-applicable"
        if check.id in ON_HARDWARE | OF_TREES
        else "pass"
        for check in all_checks(profile)
    }
    wrong = {c: told.described(c) for c, how in expected.items() if told.results.get(c) != how}
    assert not wrong
    assert some <= {check for check, how in told.results.items() if how == "pass"}


def test_every_check_is_named_by_a_mutant_required_or_not() -> None:
    named = {check for mutant in MUTANTS.values() for check in mutant.caught_by}
    unseen = set(every_check()) - named
    assert not unseen, "these checks were never seen to fail; write a mutant that each catches"


@pytest.mark.parametrize("profile", PROFILES)
def test_mutants_name_checks_of_their_profile(profile: str) -> None:
    known = {check.id for check in all_checks(profile)}
    named = {
        check
        for each in (*MUTANTS.values(), *SOUND.values())
        for check in each.caught_by
        if each.profile == profile
    }
    assert named
    assert not named - known


def test_each_mutant_says_what_is_broken_and_by_what_it_is_caught() -> None:
    assert all(len(each.broken) > 20 and each.caught_by for each in MUTANTS.values())
    assert len({each.broken for each in MUTANTS.values()}) == len(MUTANTS)


def test_a_misspelt_mutation_is_an_error_and_breaks_nothing() -> None:
    class Owner:
        copy_to = None

    def copy_too() -> None: ...

    with pytest.raises(AttributeError, match="would break nothing"):
        replace(Owner)(copy_too)
    with pytest.raises(AttributeError, match="would break nothing"):
        replace_value(Owner, "kindz", ())
    with pytest.raises(LookupError, match="would break nothing"):
        in_place_of(copy_too)(lambda: None)


def test_what_mutants_replace_is_as_it_was_once_it_is_restored() -> None:
    class Owner:
        def copy_to(self) -> str:
            return "sound"

    class Heir(Owner):
        pass

    inherited = dict(vars(Heir))
    in_place_of(resolve_device)(Owner)
    replace_value(Heir, "copy_to", None)
    replace_value(Heir, "copy_to", 3)
    in_place_of(check_device)(Heir)
    assert (devices.resolve_device, devices.check_device, registry.check_device, Heir.copy_to) == (
        Owner, Heir, Heir, 3,
    )  # fmt: skip
    restore()
    assert devices.resolve_device is resolve_device
    assert devices.check_device is registry.check_device is check_device
    assert vars(Heir) == inherited


def test_every_mutant_is_judged_in_some_session() -> None:
    assert {each.plugin for each in (*MUTANTS.values(), *SOUND.values())} == set(PLUGINS)


def test_a_mutant_has_its_address_and_no_other_name_has_one() -> None:
    assert mutants.copy_is_a_view is MUTANTS["copy_is_a_view"]
    with pytest.raises(AttributeError, match="no attribute 'no_such_mutant'"):
        _ = mutants.no_such_mutant


def test_backends_that_do_nothing_pass_no_required_check(tmp_path: Path) -> None:
    jobs = {
        f"{name}-{count}-{profile}": mutant_job(name, (), count, backend=name, profile=profile)
        for name in IDLE
        for count, profile in ((0, "tensor"), (3, "tensor"), (2, "train"))
    }
    for name, each in run_all(jobs, tmp_path).items():
        is_refused = each.output.startswith("ERROR: ")  # as it was loaded
        assert each.required or is_refused, each.output[-3000:]
        passed = {check for check in each.required if each.results.get(check) == "pass"}
        assert not passed, f"{name} passes what is required"
