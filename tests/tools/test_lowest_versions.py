"""The constraints of ``nox -s lowest``."""

from __future__ import annotations

import pytest
from lowest_versions import lowest_versions


def test_each_dependency_is_at_its_minimum() -> None:
    declared = ["a>=1.2", "b~=3.0", "c==4", "d>=1,<2", "e[x]>=5.0; python_version < '3.11'"]
    expected = ["a==1.2", "b==3.0", "c==4", "d==1", 'e==5.0; python_version < "3.11"']
    assert lowest_versions({"dependencies": declared}) == expected


def test_an_extra_counts_where_it_is_named_and_the_higher_minimum_wins() -> None:
    project = {
        "dependencies": ["a>=1.2"],
        "optional-dependencies": {"x": ["a>=1.10", "b>=2"], "y": ["a>=1.1"], "z": ["c>=9"]},
    }
    assert lowest_versions(project) == ["a==1.2"]
    assert lowest_versions(project, ["x", "y"]) == ["a==1.10", "b==2"]


@pytest.mark.parametrize("declared", ["a", "a<2", "a!=1.0", "a>=1,==2"])
def test_a_dependency_without_one_minimum_is_an_error(declared: str) -> None:
    with pytest.raises(ValueError, match="one minimum is needed"):
        lowest_versions({"dependencies": [declared]})


def test_an_unknown_extra_is_an_error() -> None:
    with pytest.raises(KeyError):
        lowest_versions({"optional-dependencies": {}}, ["x"])
