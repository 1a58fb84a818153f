"""What notebooks show has the words of the text, whatever is in it."""

from __future__ import annotations

import io
from html.parser import HTMLParser

import bench_samples
import numpy as np
import pytest
from rich.console import Console

import unidev
from unidev.bench.report import DeviceReport, Trial
from unidev.contract.memory import DriverMemory, Memory
from unidev.system.tables import Table, as_html, as_text

NASTY = "<script>alert('1')</script> & \"x\" \x1b[2J [bold]y[/] \ud800"
SAFE = (
    "&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt; &amp; &quot;x&quot; \\u001b[2J [bold]y[/] "
    "\\ud800"
)


TAGS = {"div", "table", "tr", "th", "td", "br"}
ATTRIBUTES = {"class", "style", "colspan"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        assert {name for name, _ in attrs} <= ATTRIBUTES, attrs
        style = dict(attrs).get("style") or ""
        # The page's own colours, light or dark; borders in a grey that is seen on both.
        assert "color:" not in style, style
        assert "background" not in style, style
        assert "url(" not in style, style
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data.split()


def words_of(html: str) -> list[str]:
    """Its words in order, once it has been checked: whole, plain and self-contained."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader.words


def test_a_table_is_aligned_as_text() -> None:
    table = Table(("n", "name"), [("1,000", "a"), ("2", "bc")], 1, {0: ["why", "so"]})
    assert as_text(["before", "", table, "after"]).splitlines() == [
        "before", "", "    n  name", "1,000  a", "    why", "    so", "    2  bc", "after",
    ]  # fmt: skip


def test_a_table_without_rows_or_headings_is_whole() -> None:
    assert as_text([Table(("a", "b"), [])]) == "a  b"
    assert words_of(as_html([Table(("a", "b"), [])])) == ["a", "b"]
    assert as_text([Table((), [("1", "2")])]) == "1  2"
    assert words_of(as_html([Table((), [("1", "2")])])) == ["1", "2"]


def test_a_table_wider_than_the_page_scrolls_in_a_box_of_its_own() -> None:
    html = as_html([Table(["a" * 90], [["b" * 90]])])
    assert html.startswith('<div class="unidev" style="overflow-x: auto"><table ')


def test_what_is_shown_is_escaped_everywhere() -> None:
    html = as_html([NASTY, Table([NASTY], [[NASTY]], 0, {0: [NASTY]})])
    assert html.count(SAFE) == 4
    assert "<script" not in html
    assert "\x1b" not in html
    html.encode()  # no lone surrogate, which a notebook cannot be saved with
    words_of(html)


def test_a_table_of_ours_is_printed_by_rich_as_it_is() -> None:
    file = io.StringIO()
    Console(file=file, width=200).print(Table(("[red]a", "b"), [("1", "[/]")]))
    assert file.getvalue() == "[red]a  b\n1       [/]\n"


def test_a_trace_has_the_words_of_its_text(two_gpus: None) -> None:
    x = unidev.ones(100, device="gpu:0")
    with unidev.trace_transfers(limit=5) as trace:
        for each in x:
            each.item()
        unidev.copy_to(x, "gpu:1")
    assert len(trace.by_line()) == 2
    assert words_of(trace._repr_html_()) == str(trace).split()
    with unidev.trace_transfers() as empty:
        pass
    assert words_of(empty._repr_html_()) == str(empty).split()


def test_a_trace_is_escaped(two_gpus: None) -> None:
    with unidev.trace_transfers() as trace:
        unidev.copy_to(unidev.ones(2, device="gpu"), "cpu"), "<b>"
    assert "&quot;&lt;b&gt;&quot;" in trace._repr_html_()


@pytest.mark.parametrize("placing_s", [None, 0.25])
def test_a_device_report_has_the_words_of_its_text(two_gpus: None, placing_s) -> None:
    timing = bench_samples.timed(0.5)
    trial = Trial(
        device=unidev.cpu(), total=timing, there=timing, computing=timing, back=timing,
        placing_s=placing_s,
    )  # fmt: skip
    report = DeviceReport(trials=(trial,), left_out={"gpu:0": "it is simulated"})
    assert words_of(report._repr_html_()) == str(report).split()


def test_a_device_is_shown_without_loading_its_backend(run_python) -> None:
    said = run_python(
        """
        import sys, unidev
        print(unidev.Device("torch", "gpu", 1)._repr_html_())
        print(sorted({"torch", "numpy", "unidev_torch"} & set(sys.modules)))
        """
    )
    html, loaded = said.splitlines()
    assert words_of(html) == ["device", "backend", "gpu:1", "torch"]
    assert loaded == "[]"


def test_memory_is_shown_as_its_three_numbers() -> None:
    memory = Memory(1024, 2**30, 2**30 + 1024)
    expected = "used_bytes free_bytes total_bytes 1,024 1,073,741,824 1,073,742,848"
    assert " ".join(words_of(memory._repr_html_())) == expected
    assert " ".join(words_of(memory.with_reserved(4096)._repr_html_())) == expected


def test_peak_memory_is_shown_before_and_after_its_block(two_gpus: None, monkeypatch) -> None:
    from unidev.backends.loading import load_backend
    from unidev.tensors.peak_memory import PeakMemory

    class Peaks:
        def used_bytes(self, device):
            return 1024

        def restart(self, device):
            pass

        def peak_bytes(self, device):
            return 3 * 2**20

    backend = load_backend("numpy")
    monkeypatch.setattr(type(backend), "peaks", Peaks())
    peak = PeakMemory(unidev.gpu(0), backend)
    assert repr(peak) == "<peak memory of gpu:0: not started>"
    assert " ".join(words_of(peak._repr_html_())) == "peak memory of gpu:0 not started"
    with peak:
        np.ones(3)
    assert repr(peak) == "<peak memory of gpu:0: 3 MiB>"
    assert " ".join(words_of(peak._repr_html_())) == "peak memory of gpu:0 3 MiB"


def test_details_of_memory_do_not_change_what_is_shown() -> None:
    memory = Memory(1, 2, 3)
    driver = DriverMemory(1, 2, 3, ())
    assert memory.with_driver(driver)._repr_html_() == memory._repr_html_()
