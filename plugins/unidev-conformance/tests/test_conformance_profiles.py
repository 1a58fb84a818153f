"""Profiles of the conformance suite, and the abilities that their checks need."""

from __future__ import annotations

import ast
import datetime
from pathlib import Path
from typing import Any

import pytest

import unidev_conformance as conformance
from unidev.backends.description import abilities, capabilities
from unidev.backends.loading import load_backend
from unidev.contract.backend import Unsupported, unsupported
from unidev_conformance.judging.expectations import (
    Configuration,
    Expectation,
    expected_failures,
    problems_of,
)
from unidev_conformance.judging.outcomes import NotSupportedError, require_ability
from unidev_conformance.kit.spying import Calls, failing_at
from unidev_conformance.running.catalog import GROUPS, PROFILES, all_checks, check, every_check

TODAY = datetime.date(2026, 1, 1)


@pytest.fixture
def numpy_backend(two_gpus: None) -> Any:
    return load_backend("numpy")


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_begins_with_its_calibration_and_goes_by_groups(profile: str) -> None:
    checks = all_checks(profile)
    assert checks[0].id == "smoke.probe_calibrated"
    assert {each.profile for each in checks} == {profile}
    assert [each.id for each in checks if not each.summary.endswith(".")] == []
    order = [GROUPS.index(each.group) for each in checks]
    assert order == sorted(order)
    assert len({each.id for each in checks}) == len(checks)


def test_a_check_may_belong_to_several_profiles_and_is_one_check() -> None:
    both = {each.id for each in all_checks("tensor")} & {each.id for each in all_checks("train")}
    assert both == {"smoke.probe_calibrated"}
    assert set(every_check()) == {each.id for name in PROFILES for each in all_checks(name)}


def test_every_assertion_of_a_check_says_what_is_wrong() -> None:
    """pytest does not: where ``CI`` is set it would compare the bytes of tensors for hours."""
    folder = Path(conformance.__file__).parent
    files = [*folder.glob("checks/**/*.py"), *folder.glob("kit/**/*.py")]
    found = [
        f"{path.relative_to(folder)}:{node.lineno}"
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert) and node.msg is None
    ]
    assert len(files) > 40
    assert found == []
    checks = [path for path in files if path.name.startswith("test_")]
    assert [p for p in checks if "PYTEST_DONT_REWRITE" not in p.read_text(encoding="utf-8")] == []


def test_a_check_of_a_profile_that_there_is_not_is_refused() -> None:
    def test_zero_d() -> None: ...

    test_zero_d.__module__ = "unidev_conformance.checks.tensor.test_copy"
    with pytest.raises(ValueError, match=r"copy\.zero_d: unknown profile"):
        check(also_in=("trian",))(test_zero_d)


def test_an_expectation_about_another_profiles_check_is_no_problem_and_counts_only_there() -> None:
    expectation = Expectation(
        check="models.container_of_arrays", condition="always", reason="so it is",
        link="https://example.org", expires=datetime.date(2030, 1, 1),
    )  # fmt: skip
    assert problems_of([expectation], every_check(), TODAY) == []
    for profile, expected in (("tensor", 0), ("train", 1)):
        checks = {each.id: each for each in all_checks(profile)}
        found = expected_failures([expectation], checks, TODAY, Configuration(0, "1"))
        assert len(found) == expected


def test_what_a_part_cannot_do_has_the_parts_reason_if_there_is_no_part(numpy_backend: Any) -> None:
    found = capabilities(numpy_backend)
    assert found["layers"].supported
    for name in ("probe.models", "probe.models.add_hook", "probe.models.earlier_optimizer"):
        assert not found[name].supported
        assert found[name].reason == found["probe.models"].reason
    with pytest.raises(NotSupportedError, match="no autograd"):
        require_ability(numpy_backend, "probe.autograd.second_order")
    with pytest.raises(NotSupportedError, match="NumPy has no autograd"):
        require_ability(numpy_backend, "autograd")


def test_an_ability_that_is_declared_missing_must_not_be_able_to_work(
    numpy_backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Works(Unsupported):
        def leaf(self, x: object) -> object:
            return x

    monkeypatch.setattr(type(numpy_backend), "autograd", Works("as it claims"))
    with pytest.raises(AssertionError, match=r"\(as it claims\) by a Works, which may work"):
        require_ability(numpy_backend, "autograd")


def test_a_member_of_a_part_is_declined_with_its_own_reason(
    numpy_backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Part:
        unbuilt = unsupported("models have their parameters from the beginning")

    monkeypatch.setattr(type(numpy_backend.probe), "models", Part(), raising=False)
    with pytest.raises(NotSupportedError, match="from the beginning"):
        require_ability(numpy_backend, "probe.models.unbuilt")


def test_every_ability_that_a_check_needs_is_declared_by_the_contract() -> None:
    assert {need for each in every_check().values() for need in each.needs} <= set(abilities())


def test_a_method_that_is_listened_to_or_broken_is_itself_again_afterwards() -> None:
    import os

    class Owner:
        def double(self, x: int) -> int:
            return 2 * x

    owner, replace = Owner(), os.replace
    with Calls(owner, "double", failing_at(2, MemoryError("no memory"))) as calls:
        assert owner.double(3) == 6
        with pytest.raises(MemoryError):
            owner.double(4)
        assert owner.double(5) == 10
    assert calls.count == 3
    assert not vars(owner)
    with pytest.raises(KeyError), Calls(os, "replace"):
        raise KeyError
    assert os.replace is replace
