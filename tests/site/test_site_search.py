"""The site's search finds the page that answers, by the words that people type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from needed import need
from site_pages import built_site
from site_search import search_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from site_search import SiteSearch

need("site", "py_mini_racer", install="nox -s docs")

COOKBOOK = {
    "hugging face batch second gpu": "hugging-face-batch",
    "expected all tensors to be on the same device": "same-device",
    "out of memory": "out-of-memory",
    "train on 4 gpus": "train-on-4-gpus",
    "test without a gpu in ci": "test-without-a-gpu",
    "why is my gpu not used": "gpu-not-used",
    "choose the free gpu": "choose-the-free-gpu",
    "move a dataclass": "dataclass",
    "two frameworks in one process": "two-frameworks",
    "save from tensorflow load in pytorch": "save-and-load",
    "write a backend": "your-own-backend",
    "run a cuda program on a laptop": "cuda-on-a-laptop",
}
OTHERS = {
    "cuda not available": "cookbook/gpu-not-used",
    "huggingface": "cookbook/hugging-face-batch",
    "multi-gpu training": "cookbook/train-on-4-gpus",
    "accelerate or lightning fabric": "faq",
    "install": "learn/install",
    "training loop": "learn/training-loop",
    "as_in_device": "reference/tensors",
    "UNIDEV_SIMULATE_MEMORY": "reference/environment",
    "release": "releasing",
}
ANSWERS = {query: f"cookbook/{page}" for query, page in COOKBOOK.items()} | OTHERS


@pytest.fixture(name="search", scope="module")
def _search() -> Iterator[SiteSearch]:
    with search_of(built_site()) as search:
        yield search


@pytest.mark.parametrize("query", ANSWERS)
def test_the_page_that_answers_is_among_the_first_three(query: str, search: SiteSearch) -> None:
    first = [(found.page, found.score) for found in search.results(query)[:3]]
    assert ANSWERS[query] in [page for page, _ in first], first


def test_words_that_no_page_has_find_none(search: SiteSearch) -> None:
    assert search.results("zyzzyva quagga") == []
