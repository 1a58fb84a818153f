"""Objects of no known kind that hold tensors and move themselves, by a ``to`` of their own."""

from __future__ import annotations

from typing import Any

import pytest

import unidev


class Graph:
    """Moves in place and returns itself, as torch_geometric's and transformers' objects do."""

    def __init__(self, x: Any, note: str = "") -> None:
        self.x = x
        self.note = note
        self.asked: list[Any] = []

    def to(self, device: Any) -> Any:
        self.asked.append(device)
        self.x = unidev.as_in_device(self.x, device)
        return self


class Odd(Graph):
    def __init__(self, x: Any, returned: Any) -> None:
        super().__init__(x)
        self.returned = returned

    def to(self, device: Any) -> Any:
        return self.returned(self)


def raises(odd: Odd) -> Any:
    raise KeyError("no device of that name")


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (raises, "raised KeyError"), (lambda odd: None, "returned an object without tensors"),
        (lambda odd: odd, r"left \.x on cpu:0"),
    ],
)  # fmt: skip
def test_a_to_that_does_something_else_is_refused(returned: Any, said: str, two_gpus: None) -> None:
    tree = {"x": unidev.ones(1), "odd": [Odd(unidev.ones(1), returned)]}
    with pytest.raises(unidev.UnsupportedContainerError, match=said) as caught:
        unidev.copy_to(tree, "gpu:1")
    assert str(caught.value).startswith("at ['odd'][0]: ")
    assert "Odd holds a tensor, at .x in it" in str(caught.value)


def test_only_transfers_call_it(two_gpus: None) -> None:
    graph = Graph(unidev.ones(2))
    with pytest.raises(unidev.UnsupportedContainerError, match="is not registered"):
        unidev.map_tensors(lambda x: x + x, graph)
    with pytest.raises(unidev.UnsupportedContainerError, match="is not registered"):
        unidev.device_get(graph)
    assert graph.asked == []
