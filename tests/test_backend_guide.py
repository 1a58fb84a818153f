"""The guides for authors of backends: their pieces of examples, and what the suite asks of whom."""

from __future__ import annotations

import inspect
import re
from functools import reduce

import pytest
from page_examples import ROOT, blocks_of

import unidev
from unidev_conformance.running.catalog import all_checks

GUIDE = ROOT / "docs/writing-a-backend.md"
OF_SUITE = ROOT / "plugins/unidev-conformance/README.md"
PART = "not run: part of "
PARTS = [
    block for page in (GUIDE, OF_SUITE) for block in blocks_of(page) if block.note.startswith(PART)
]
PARTS_OF_A_BACKEND = {"models", "autograd", "layers", "functions", "estimator", "collectives"}


@pytest.mark.parametrize("block", PARTS, ids=lambda block: str(block.line))
def test_a_piece_of_an_example_is_in_that_example(block) -> None:
    path = ROOT / block.note.removeprefix(PART)
    assert block.code in path.read_text(encoding="utf-8")


def test_the_guide_has_the_functional_part_of_an_example() -> None:
    whole = "".join(block.code for block in PARTS)
    for name in ("def copy_to", "def of_tensors", "def descend", "def gradients", "no_grad ="):
        assert name in whole


def rows(heading: str) -> list[tuple[list[str], list[str]]]:
    """The names in the first and in the second column of the table with this heading."""
    _, _, below = GUIDE.read_text(encoding="utf-8").partition(heading)
    table = below.split("\n\n", 1)[0].splitlines()
    cells = [line.strip("|").split("|") for line in table if line.startswith(("| `", "| |"))]
    return [(re.findall(r"`([\w.]+)", a), re.findall(r"`([\w.]+)`", b)) for a, b, *_ in cells]


def needed(need: str) -> str:
    """The part of a backend or of a probe that an ability is in; empty: none of these."""
    first, _, rest = need.partition(".")
    if first == "probe":
        part = rest.partition(".")[0]
        return f"probe.{part}" if part in ("autograd", "models") else ""
    return first if first in PARTS_OF_A_BACKEND else ""


def test_the_table_of_parts_has_what_each_group_of_train_needs() -> None:
    needs: dict[str, list[set[str]]] = {}
    for check in all_checks("train"):
        needs.setdefault(check.group, []).append({*map(needed, check.needs)} - {""})
    expected = {group: reduce(set.intersection, each) for group, each in needs.items()}
    found = {
        group: set(parts)
        for parts, groups in rows("| parts | groups of checks |")
        for group in groups
    }
    assert found == expected


@pytest.mark.parametrize(
    ("cls", "heading"),
    [
        (unidev.Backend, "| member | returns | note |"),
        (unidev.Probe, "| method | returns | note |"),
    ],
)
def test_the_guide_lists_what_must_be_overridden(cls: type, heading: str) -> None:
    listed = [name for names, _ in rows(heading) for name in names]
    assert inspect.isabstract(cls)
    assert sorted(listed) == sorted(cls.__abstractmethods__)
