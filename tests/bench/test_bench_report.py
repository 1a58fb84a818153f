"""What is made of a bench's timings: sentences, table, plots, page, picture, JSON."""

from __future__ import annotations

import itertools
import json
from base64 import b64decode
from dataclasses import asdict, replace
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from bench_samples import (
    GPU,
    ONLY_CPU,
    SIZES,
    WITH_GPU,
    bench,
    from_document,
    of_cpu,
    of_gpu,
    timed,
)
from fake_nvml import FakeNvml
from matplotlib.figure import Figure

from unidev.bench import tasks, textbook
from unidev.bench.files import contents, to_html, to_json
from unidev.bench.findings import crossovers, findings
from unidev.bench.plots import draw, figure_of, plots, to_png, to_svg
from unidev.bench.results import PRODUCT, TEXTBOOK, Bench, GpuRecord, Result
from unidev.bench.table import rows, to_text
from unidev.system.gpu_state import GpuState, read_states


def test_the_heading_has_the_cores_and_their_clock() -> None:
    assert "Python 3.11.7, 2 cores\n" in to_text(ONLY_CPU, [])
    assert "Python 3.11.7, 2 cores at 3,100 MHz\n" in to_text(replace(ONLY_CPU, cpu_mhz=3100), [])


# -- sentences -----------------------------------------------------------------------------------


def test_a_machine_with_only_a_cpu_is_told_that_there_is_nothing_to_compare() -> None:
    said = findings(ONLY_CPU)
    assert said[0].startswith("gpu:1 is simulated and left out")
    assert said[1].startswith("There is no real GPU here, so there is nothing to compare cpu:0")
    assert said[2].startswith("The machine was busy at the start (a load of 3.5 on 2 cores)")
    assert said[3] == (
        "Minimum time of an operation on cpu:0: 1.5 µs queued among others, 2 µs if waited for, "
        "10 µs if read into Python."
    )
    assert said[4] == (
        "Logging each of 1,000 norms on cpu:0 takes 3 times as long as keeping them there and "
        "reading once (300 ms against 100 ms)."
    )
    assert len(said) == 5


def test_crossovers_are_told_with_and_without_the_journey() -> None:
    said = "\n".join(findings(WITH_GPU))
    product = "A product of square matrices, with the data on the device"
    assert f"{product}: gpu:0 is faster than cpu:0 from 512 rows on" in said
    assert "including transfers: gpu:0 is faster than cpu:0 from 512 rows on" in said
    assert "nothing to compare" not in said
    assert "busy" not in said
    rows = {(each.subject, each.device, each.variant): each.rows for each in crossovers(WITH_GPU)}
    assert rows["product", "gpu:0", "on the device"] == 512
    assert crossovers(ONLY_CPU) == []


def test_a_gpu_that_is_never_faster_is_told_up_to_which_size() -> None:
    slow = [
        Result(subject="product", what="x @ y", device="gpu:0", size=size, summary=timed(100.0))
        for size in SIZES
    ]
    said = "\n".join(findings(bench((*ONLY_CPU.real[:1], GPU), of_cpu() + slow)))
    assert "gpu:0 is not significantly faster than cpu:0 up to 4,096 rows." in said


@pytest.mark.parametrize(
    ("at_once", "apart", "said"),
    [(1.0, 2.0, "takes 2 times as long as using both at once (2 s against 1 s)."),
     (2.0, 1.0, "is 2 times as fast as using both at once (1 s against 2 s)."),
     (1.0, 1.1, "and using both at once are too close to call (1.1 s against 1 s).")],
)  # fmt: skip
def test_two_devices_at_once_are_compared_with_one_after_the_other(at_once, apart, said) -> None:
    both = "gpu:0 and cpu:0"
    results = [
        Result(subject=TEXTBOOK, what=what, device=both, summary=timed(seconds))
        for what, seconds in ((textbook.AT_ONCE, at_once), (textbook.ONE_BY_ONE, apart))
    ]
    assert f"Using {both} one after the other {said}" in findings(bench((), results))


# -- table ---------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_result_and_the_reason_where_there_is_no_timing() -> None:
    text = to_text(WITH_GPU, findings(WITH_GPU))
    assert len(rows(WITH_GPU, "product")) == 12
    for result in WITH_GPU.results:
        assert result.what in text
    (refused,) = (row for row in rows(WITH_GPU, TEXTBOOK) if row.median == "none")
    assert refused.remark == "one <device> & no"
    assert "2.15 GFLOP/s" not in text
    (largest,) = (
        row for row in rows(WITH_GPU, "product") if row.device == "cpu:0" and row.size == "4,096"
    )
    assert largest.median == "687 ms"
    assert largest.remark == "200 GFLOP/s"
    assert "devices: cpu:0 (a CPU), gpu:1 (simulated, left out)" in to_text(ONLY_CPU, [])


# -- plots ---------------------------------------------------------------------------------------


def points_expected(given: Bench) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Of each plot's series, straight from the results."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for each in given.results:
        if each.size is None or each.summary is None or each.subject == TEXTBOOK:
            continue
        y = each.summary.median_s
        name = each.device if each.variant == "on the device" else f"{each.device}, {each.variant}"
        if each.subject == "bandwidth":
            y = each.size / y
        found.setdefault((each.subject, name), []).append((each.size, y))
    return found


class Page(HTMLParser):
    """What is in the page: its elements, and the pictures."""

    VOID = ("meta", "br", "link", "img")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, Any]]] = []
        self.pictures: list[bytes] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.elements.append((tag, named))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "img":
            kind, _, data = (named["src"] or "").partition(",")
            assert kind == "data:image/svg+xml;base64"
            self.pictures.append(b64decode(data, validate=True))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing() -> None:
    html = to_html(WITH_GPU, findings(WITH_GPU))
    page = Page(html)
    assert page.open == []
    assert len(page.pictures) == len(plots(WITH_GPU))
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "iframe", "object", "a", "image", "use", "base"}
    for tag, named in page.elements:
        assert not {"href", "xlink:href", "srcset", "action"} & set(named)
        assert tag == "img" or "src" not in named
        assert not [name for name in named if name.startswith("on")]
    assert "http" not in html
    assert "url(" not in html
    assert "@import" not in html
    for svg in page.pictures:
        elements = list(ElementTree.fromstring(svg).iter())
        assert not [each for each in elements if each.tag.endswith(("script", "image", "}a"))]
        for name, value in (pair for each in elements for pair in each.items()):
            assert "http" not in value
            assert not name.endswith("href") or value.startswith("#")
            assert value.count("url(") == value.count("url(#")


def test_pictures_are_the_same_each_time() -> None:
    assert [to_svg(each) for each in plots(WITH_GPU)] == [to_svg(each) for each in plots(WITH_GPU)]
    assert to_html(WITH_GPU, []) == to_html(WITH_GPU, [])


def test_no_label_is_cut_off() -> None:
    """256 MiB at the right end was."""
    sizes = [
        Result(subject="bandwidth", what="copy_to", device=f"{a} to {b}", size=size,
               variant="from pinned memory", summary=timed(1e-6 + size / speed))
        for a, b, speed in (("cpu:0", "gpu:0", 1e10), ("gpu:0", "cpu:0", 1e9))
        for size in tasks.TRANSFER_SIZES
    ]  # fmt: skip
    (plot,) = plots(bench((), sizes))
    figure = figure_of([plot], "a title")
    figure.canvas.draw()
    (axes,) = figure.axes
    labels = [each for each in axes.get_xticklabels() if each.get_text()]
    assert [labels[0].get_text(), labels[-1].get_text()] == ["1 KiB", "256 MiB"]
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert 0 <= drawn.x0 < drawn.x1 <= width
    assert 0 <= drawn.y0 < drawn.y1 <= height
    for left, right in itertools.pairwise(labels):
        assert left.get_window_extent().x1 < right.get_window_extent().x0


def test_what_a_framework_said_is_escaped_in_the_page() -> None:
    html = to_html(ONLY_CPU, ["<script>alert(1)</script>"])
    assert "<script" not in html
    assert "one &lt;device&gt; &amp; no" in html
    assert "&lt;script&gt;" in html


def test_what_was_not_measured_is_in_no_plot() -> None:
    unmeasured = [Result(subject="sum", what="x + y", device="cpu:0", size=8, reason="no")]
    assert plots(bench((), unmeasured)) == []
    assert "<img" not in to_html(bench((), unmeasured), [])
    assert to_png(bench((), unmeasured))[:4] == b"\x89PNG"


def test_the_picture_is_a_png_of_all_plots() -> None:
    data = to_png(WITH_GPU)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20], "big") == 880
    assert int.from_bytes(data[20:24], "big") == 3 * 495


def test_the_picture_has_the_points_of_the_page() -> None:
    for plot in plots(WITH_GPU):
        axes = Figure().subplots()
        draw(axes, plot)
        drawn = {
            container.get_label(): list(zip(*container.lines[0].get_data(), strict=True))
            for container in axes.containers
        }
        expected = {
            name: points
            for (subject, name), points in points_expected(WITH_GPU).items()
            if subject == plot.name
        }
        assert drawn == expected


# -- JSON and files ------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [ONLY_CPU, WITH_GPU], ids=["only a CPU", "with a GPU"])
def test_the_json_gives_back_the_bench(given: Bench) -> None:
    document = json.loads(to_json(given, findings(given)))
    assert from_document(document) == given
    assert document["findings"] == findings(given)
    listed = [asdict(each) for each in crossovers(given)]
    assert document["crossovers"] == json.loads(json.dumps(listed))


def test_there_are_four_files() -> None:
    made = contents(WITH_GPU, [], "table\n")
    assert made.keys() == {"bench.txt", "bench.json", "bench.html", "bench.png"}
    assert made["bench.txt"] == b"table\n"
    assert bench((), of_gpu()).gpus == []


# -- what the timings depend on, and sizes that are missing ----------------------------------------


def without(given: Bench, device: str, *sizes: int) -> Bench:
    """The same, where there was no time for products of those sizes."""
    return replace(
        given,
        results=tuple(
            replace(each, summary=None, reason="out of time: --limit allows more")
            if (each.subject, each.device) == (PRODUCT, device) and each.size in sizes
            else each
            for each in given.results
        ),
    )


@pytest.mark.parametrize(
    ("device", "sizes", "said"),
    [
        ("gpu:0", (4096,), "from 512 rows on, as far as measured: 4,096 rows are missing."),
        ("cpu:0", (64, 4096), "from 512 rows on, as far as measured: 64 and 4,096 rows are "
                              "missing."),
        ("cpu:0", (512, 4096), "not significantly faster than cpu:0 up to 64 rows, as far as "
                               "measured: 512 and 4,096 rows are missing."),
    ],
)  # fmt: skip
def test_sizes_that_were_not_measured_are_named_beside_the_crossover(device, sizes, said) -> None:
    given = without(WITH_GPU, device, *sizes)
    (sentence,) = [
        each for each in findings(given)
        if each.startswith("A product of square matrices, with the data on the device")
    ]  # fmt: skip
    assert sentence.endswith(said)
    (found,) = [
        each for each in crossovers(given)
        if (each.subject, each.variant) == (PRODUCT, "on the device")
    ]  # fmt: skip
    assert found.missing == sizes
    assert not any("missing" in each for each in findings(WITH_GPU))


def state(**changed: Any) -> GpuState:
    return replace(read_states(FakeNvml())[0], **changed)


IN_CIRCUMSTANCES = replace(
    WITH_GPU,
    driver="570.86.15",
    settings={"TF32 in products": "off"},
    gpu_states=(
        GpuRecord(
            before=state(throttled_by="0x0"),
            after=state(performance_state="P0", sm_mhz=1755, power_w=698.2, throttled_by="0x4"),
        ),
    ),
)


def test_the_report_says_what_the_timings_depend_on() -> None:
    lines = to_text(IN_CIRCUMSTANCES, []).splitlines()
    assert lines[4:8] == [
        "NVIDIA's driver 570.86.15; TF32 in products: off",
        "the driver's GPU 0: NVIDIA H200, GPU-1, 16,896 cores, ECC on",
        "  before: P8, SM 345 of 1,980 MHz, memory 3,201 of 3,201 MHz, 76 of 700 W, 27 °C",
        "  after: P0, SM 1,755 of 1,980 MHz, memory 3,201 of 3,201 MHz, 698 of 700 W, 27 °C, "
        "clocks held down by 0x4",
    ]
    assert from_document(json.loads(to_json(IN_CIRCUMSTANCES, []))) == IN_CIRCUMSTANCES


def test_a_machine_without_a_gpu_has_no_such_circumstances() -> None:
    given = replace(ONLY_CPU, settings={"TF32 in products": "off"})
    assert "TF32" not in to_text(given, [])


def test_memory_that_a_gpu_shares_with_the_host_is_shown_as_that() -> None:
    cpu, gpu = WITH_GPU.devices
    own = replace(gpu, total_bytes=80 * 2**30)
    shared = replace(own, is_memory_shared=True)
    for each, said in ((own, "80 GiB)"), (shared, "80 GiB shared with the host)")):
        given = replace(WITH_GPU, devices=(cpu, each))
        assert f"({gpu.name}, {said}" in to_text(given, []).splitlines()[2]
        assert from_document(json.loads(to_json(given, []))) == given
