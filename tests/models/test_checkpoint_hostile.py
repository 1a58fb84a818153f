"""Checkpoints made to harm: each is a ``CheckpointError``, short and harmless to show."""

from __future__ import annotations

import json
import os
import random
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import safetensors.numpy
import xxhash
from checkpoint_samples import problems_of, values

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DIGEST = "@" * 32
X = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
OURS = {
    "unidev.format": "1", "unidev.version": "0", "unidev.framework": "numpy", "unidev.ties": "{}",
    "unidev.digest": DIGEST,
}  # fmt: skip
DRAWN = 600


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def model() -> dict[str, Any]:
    return {"x": np.ones(2, "float32")}


def forged(header: object, data: bytes = bytes(8)) -> bytes:
    """A file of this header, text or JSON, with the digest that it should have."""
    is_text = isinstance(header, str)
    text = header if is_text else json.dumps(header, separators=(",", ":"))
    content = len(text.encode()).to_bytes(8, "little") + text.encode() + data
    digest = xxhash.xxh3_128(content.replace(DIGEST.encode(), b"0" * 32)).hexdigest()
    return content.replace(DIGEST.encode(), digest.encode())


def of_ties(ties: str) -> object:
    return {"__metadata__": {**OURS, "unidev.ties": ties}, "x": X}


def of_format(version: str) -> object:
    return {"__metadata__": {**OURS, "unidev.format": version}, "x": X}


def harmless(error: unidev.CheckpointError) -> bool:
    """Whether its text is short, and shows in a terminal as what it is."""
    lines = [*str(error).splitlines(), *error.problems]
    return len(str(error)) < 1000 + 20 * 320 and all(
        line.isprintable() and len(line) < 500 for line in lines
    )


def test_what_the_forged_files_are_damaged_from_loads(file: Path) -> None:
    file.write_bytes(forged(of_ties("{}")))
    assert unidev.load_parameters(model(), file)["x"].tolist() == [0, 0]


@pytest.mark.parametrize(
    "ties",
    ["", "{", "[]", "null", "3", '{"x":"ab"}', '{"x":null}', '{"x":[3]}', '{"x":[["a"]]}',
     '{"x":["a","a"]}', '{"x":["a"],"x":["a"]}', '{"x":["x"]}', '{"y":[]}', "[" * 100_000,
     '{"x":' * 100_000, '{"x":' + "9" * 5000 + "}"],
    ids=lambda ties: ascii(ties)[:20],
)  # fmt: skip
def test_tied_names_of_another_shape_or_depth_are_refused(file: Path, ties: str) -> None:
    file.write_bytes(forged(of_ties(ties)))
    with pytest.raises(unidev.CheckpointError, match="tied names") as caught:
        unidev.load_parameters(model(), file)
    assert harmless(caught.value)


@pytest.mark.parametrize(
    "number", ['"7"', "null", '["float32"]', '["(9,)f4", 1]', '["V999", 1]', '["complex", []]']
)
def test_numbers_that_are_none_are_refused(file: Path, number: str) -> None:
    header = {"__metadata__": {**OURS, "unidev.numbers": f'{{"n": {number}}}'}, "x": X}
    file.write_bytes(forged(header))
    (problem,) = problems_of({**model(), "n": 1}, file)
    assert problem.startswith("a number in its metadata")


@pytest.mark.parametrize("version", ["2", "", "one", " 1", "1.0", "x" * 10**6, "\x1b[31m"])
def test_a_format_that_is_not_this_one_is_refused(file: Path, version: str) -> None:
    file.write_bytes(forged(of_format(version)))
    with pytest.raises(unidev.CheckpointError, match="format") as caught:
        unidev.load_parameters(model(), file)
    assert harmless(caught.value)


def test_metadata_of_unidev_without_a_format_is_refused(file: Path) -> None:
    file.write_bytes(forged({"__metadata__": {"unidev.digest": DIGEST}, "x": X}))
    assert "has no unidev.format" in problems_of(model(), file)[0]


@pytest.mark.parametrize("header", ['{"x":X,"x":X}', '{"__metadata__":{"a":"1","a":"2"},"x":X}'])
def test_a_name_that_occurs_twice_is_refused(file: Path, header: str) -> None:
    file.write_bytes(forged(header.replace("X", json.dumps(X))))
    assert problems_of(model(), file) == ["a name occurs twice in its header"]


@pytest.mark.parametrize(
    "header",
    [
        {"n" * 10**6: X},
        {"\x1b[2J\x1b]0;title\x07\u202e": X},
        {"n" * 10**6 + "\x1b": {**X, "data_offsets": [1, 9]}},
        {"x": {**X, "dtype": "\x1b[31m" * 1000}},
        {"x": {**X, "shape": [1] * 100_000 + [2]}},
        {"__metadata__": {**OURS, "unidev.framework": "\x1b[31m" * 10**5}, "y": X},
        {"__metadata__": {**OURS, "unidev.format": "2", "unidev.version": "\x1b" * 10**5}, "x": X},
        {f"{number}\n": {**X, "shape": [0], "data_offsets": [0, 0]} for number in range(100)},
    ],
    ids=range(8),
)
def test_what_the_file_says_is_shown_short_and_escaped(file: Path, header: object) -> None:
    is_empty = isinstance(header, dict) and len(header) == 100
    file.write_bytes(forged(header, b"" if is_empty else bytes(8)))
    with pytest.raises(unidev.CheckpointError) as caught:
        unidev.load_parameters(model(), file)
    assert harmless(caught.value)


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices are POSIX's")
def test_a_pipe_or_a_device_is_refused_and_not_waited_for(file: Path) -> None:
    os.mkfifo(file)
    for path in (file, os.devnull, "/dev/zero"):
        with pytest.raises(unidev.CheckpointError, match="a device, a pipe or a socket"):
            unidev.load_parameters(model(), path)


# -- drawn -----------------------------------------------------------------------------------------

VALUES: list[Any] = [
    None, True, 0, 1, -1, 8, 2**63, 10**30, 1.5, "", "a", "x", "F32", "F8_E4M3", "\x1b[2J", "1",
    "2", "{}", "n" * 10_000, [], [0], [2], [0, 8], [[]], {}, {"a": "b"}, {"a": ["b"]}, [[[[0]]]],
]  # fmt: skip


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every container in ``tree`` with each of its keys."""
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree))
    inner = [tree[key] for key in keys if isinstance(tree[key], dict | list)]
    return [(tree, key) for key in keys] + [place for each in inner for place in places(each)]


def damaged_tree(header: Any, draw: random.Random) -> object:
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        container, key = draw.choice(found := places(header) or [([0], 0)])
        how = draw.choice(["replace", "delete", "swap", "rename"])
        other, other_key = draw.choice(found)
        if how == "replace":
            container[key] = deepcopy(draw.choice(VALUES))
        elif how == "swap":
            first, second = deepcopy(container[key]), deepcopy(other[other_key])
            container[key], other[other_key] = second, first
        else:
            value = container.pop(key)
            if how == "rename" and isinstance(container, dict):
                container[draw.choice(["x", "y", "__metadata__", "unidev.z", "\x07"])] = value
    return header


def damaged_ties(header: Any, draw: random.Random) -> object:
    metadata = header["__metadata__"]
    ties = damaged_tree(json.loads(metadata["unidev.ties"]), draw)
    metadata["unidev.ties"] = json.dumps(ties)
    return header


def damaged_text(text: str, draw: random.Random) -> str:
    at = draw.randrange(len(text) + 1)
    to = min(len(text), at + draw.choice([0, 1, 1, 5, 50]))
    piece = draw.choice(
        ["", "", "\x00", "\x1b", '"', "{", "}", "[" * 300, ",", "\\ud800", "9" * 50]
    )
    again = text[at:to] * draw.choice([0, 1, 2])
    return text[:at] + piece + again + text[to:]


def drawn(header: bytes, data: bytes, draw: random.Random) -> bytes:
    tree = json.loads(header)
    tree["__metadata__"]["unidev.digest"] = DIGEST
    how: Callable[[], bytes] = draw.choice([
        lambda: forged(damaged_tree(tree, draw), data),
        lambda: forged(damaged_ties(tree, draw), data),
        lambda: forged(damaged_text(json.dumps(tree, separators=(",", ":")), draw), data),
        lambda: forged(tree, data[: draw.randrange(len(data) + 1)] + draw.randbytes(3)),
        lambda: draw.randbytes(8 - (n := draw.randrange(9))) + bytes(n) + header + data,
    ])  # fmt: skip
    return how()


def test_files_damaged_in_drawn_ways_are_refused_or_load_what_safetensors_reads(
    file: Path, tmp_path: Path
) -> None:
    draw = random.Random(9)
    tied = np.arange(6, dtype="float32").reshape(2, 3)
    first = {"a": tied, "b": [tied, np.arange(4, dtype="int8")], "c": np.ones(())}
    unidev.save_parameters(first, file)
    whole = file.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    damaged = tmp_path / "damaged.safetensors"
    loaded = refused = 0
    for _ in range(DRAWN):
        content = drawn(whole[8:start], whole[start:], draw)
        damaged.write_bytes(content)
        tied = np.full((2, 3), -1, "float32")
        into = {"a": tied, "b": [tied, np.full(4, -1, "int8")], "c": np.zeros(())}
        before = values(into)
        try:
            unidev.load_parameters(into, damaged)
        except unidev.CheckpointError as error:
            refused += 1
            found = harmless(error), values(into) == before
        else:
            loaded += 1
            found = True, True
            read = safetensors.numpy.load(content)
            assert {"c", "b.1"} <= read.keys() <= {"a", "b.0", "b.1", "c"}, content
            for name, x in read.items():
                assert values(into)[name] == x.tobytes(), (name, content)
        assert found == (True, True), content
    assert loaded > DRAWN / 50
    assert refused > DRAWN / 2
