"""`trace_transfers`, on NumPy's simulated devices: what was moved, by which line, and told once."""

import copy
import json
import re
import statistics
import sys
import threading
import tracemalloc
import types
from pathlib import Path

import numpy as np
import pytest
from turns import in_a_thread

import unidev
from unidev.backends.loading import load_backend
from unidev.backends.observer import thread
from unidev.tracing.call_site import passing_over
from unidev.tracing.trace import Trace

HERE = Path(__file__)


def told(trace: Trace) -> list[tuple[object, ...]]:
    """Each transfer as a test writes it down by hand."""
    return [
        (each.operation, str(each.source), str(each.target), each.nbytes, each.shape)
        for each in trace.transfers
    ]


def line_with(text: str) -> int:
    """The number of the line of this file that ends with the comment ``text``."""
    lines = HERE.read_text().splitlines()
    (number,) = (at for at, line in enumerate(lines, 1) if line.endswith(f"# {text}"))
    return number


def test_every_verb_is_told_once_by_its_own_name(two_gpus, tmp_path):
    file = tmp_path / "model.safetensors"
    with unidev.trace_transfers() as trace:
        x = unidev.array([1, 2, 3], dtype="float32", device="gpu:0")
        unidev.arange(4, device="gpu:1")
        unidev.rand((2, 2), device="gpu:0")
        unidev.randn(5, dtype="float64", device="gpu:0")
        unidev.copy_to(x, "gpu:1")
        unidev.as_in_device({"x": x}, "cpu")
        unidev.to_numpy(x)
        unidev.array(x, device="gpu:1")
        unidev.array(x, dtype="int64", device="gpu:1")
        model = {"w": unidev.zeros((2, 3)), "b": unidev.zeros(2)}
        unidev.place(model, "gpu:0")
        unidev.save_parameters(model, file)
    assert told(trace) == [
        ("array", "cpu:0", "gpu:0", 12, (3,)),
        ("arange", "cpu:0", "gpu:1", 32, (4,)),
        ("rand", "cpu:0", "gpu:0", 16, (2, 2)),
        ("randn", "cpu:0", "gpu:0", 40, (5,)),
        ("copy_to", "gpu:0", "gpu:1", 12, (3,)),
        ("as_in_device", "gpu:0", "cpu:0", 12, (3,)),
        ("to_numpy", "gpu:0", "cpu:0", 12, (3,)),
        ("array", "gpu:0", "gpu:1", 12, (3,)),
        ("array", "gpu:0", "cpu:0", 12, (3,)),  # its values are checked on the host
        ("array", "gpu:0", "gpu:1", 12, (3,)),
        ("place", "cpu:0", "gpu:0", 32, None),
        ("save_parameters", "gpu:0", "cpu:0", 24, (2, 3)),
        ("save_parameters", "gpu:0", "cpu:0", 8, (2,)),
    ]
    assert trace.total_bytes == 236
    assert [each.is_explicit for each in trace.transfers] == [True] * 6 + [False] + [True] * 6


def test_loading_keeps_the_old_values_on_the_host_and_brings_the_new_ones(two_gpus, tmp_path):
    file = tmp_path / "model.safetensors"
    model = {"w": unidev.ones((2, 3), device="gpu:0")}
    unidev.save_parameters(model, file)
    with unidev.trace_transfers() as trace:
        unidev.load_parameters(model, file, device="gpu:1")
    assert told(trace) == [
        ("load_parameters", "gpu:0", "gpu:1", 24, (2, 3)),
        ("load_parameters", "gpu:1", "cpu:0", 24, (2, 3)),
        ("load_parameters", "cpu:0", "gpu:1", 24, (2, 3)),
    ]


def test_what_stays_on_its_device_is_no_transfer(two_gpus, tmp_path):
    x = unidev.ones(3, device="gpu:0")
    with unidev.trace_transfers() as trace:
        unidev.copy_to(x, "gpu:0")
        unidev.as_in_device(x, "gpu:0")
        unidev.zeros(3, device="gpu:1")
        unidev.full(3, 7, device="gpu:1")
        unidev.ones_like(x)
        unidev.array([1, 2])
        unidev.to_numpy(unidev.rand(3))
        unidev.place({"x": x}, "gpu:0")
        unidev.device_of(x)
        x + x
        x.sum()
        copy.deepcopy(x)
    assert told(trace) == []
    assert str(trace).startswith("no transfers between devices were seen")


def test_what_raises_moves_nothing(two_gpus):
    x = unidev.ones(3, device="gpu:0")
    with unidev.trace_transfers() as trace:
        with pytest.raises(unidev.DeviceNotFoundError):
            unidev.copy_to(x, "gpu:7")
        with pytest.raises(unidev.UnsupportedOperation):
            unidev.place({"x": (x,)}, "gpu:1")
    assert told(trace) == []


def test_a_transfer_knows_its_line_thread_and_time(two_gpus):
    x = unidev.ones(3, device="gpu:0")

    def step():
        return unidev.to_numpy(x)  # the line

    with unidev.trace_transfers() as trace:
        step()
    (transfer,) = trace.transfers
    assert transfer.line.file == __file__
    assert transfer.line.number == line_with("the line")
    assert transfer.line.function == "step"
    assert transfer.line.source == "return unidev.to_numpy(x)  # the line"
    assert transfer.thread == threading.current_thread().name
    assert 0 <= transfer.seconds < 60
    assert not transfer.is_seconds_real


def test_the_line_is_the_users_also_below_numpy_and_the_standard_library(two_gpus):
    x = unidev.ones(3, device="gpu:0")
    with unidev.trace_transfers() as trace:
        statistics.fmean(x)  # the standard library's Python code
        np.testing.assert_array_equal(x, x)  # a framework's Python code
    assert {(each.line.file, each.line.number) for each in trace.transfers} == {
        (__file__, line_with("the standard library's Python code")),
        (__file__, line_with("a framework's Python code")),
    }


def test_the_seconds_of_one_call_are_shared_by_its_transfers(two_gpus):
    model = {
        "a": unidev.zeros(1000, device="gpu:0"), "b": unidev.zeros(3000),
        "c": unidev.zeros(5, device="gpu:1"),
    }  # fmt: skip
    with unidev.trace_transfers() as trace:
        unidev.place(model, "gpu:1")
    assert told(trace) == [
        ("place", "gpu:0", "gpu:1", 4000, (1000,)),
        ("place", "cpu:0", "gpu:1", 12000, (3000,)),
    ]
    small, large = trace.transfers
    assert large.seconds == pytest.approx(3 * small.seconds)
    assert "the state of an optimizer" in trace.blind_spots["unidev"]


def test_one_object_can_be_entered_again(two_gpus):
    x = unidev.ones(3, device="gpu:0")
    scope = unidev.trace_transfers()
    with scope as outer, scope as inner:
        x.tolist()
    with scope as later:
        pass
    assert [len(each.transfers) for each in (outer, inner, later)] == [1, 1, 0]
    with pytest.raises(unidev.ScopeError, match="was already exited"):
        scope.__exit__(None, None, None)


def test_other_threads_are_not_traced(two_gpus):
    x = unidev.ones(3, device="gpu:0")
    with unidev.trace_transfers() as trace:
        in_a_thread(x.tolist)
    assert told(trace) == []
    assert trace.blind_spots["unidev"] == {
        "other threads": "a trace sees only the thread that opened it"
    }


def test_a_generator_that_is_closed_in_another_thread_ends_its_scopes(two_gpus):
    traces = []

    def suspended():
        with unidev.trace_transfers() as trace, unidev.transfer_guard("forbid"):
            traces.append(trace)
            yield

    x = unidev.ones(3, device="gpu:0")
    generator = suspended()
    next(generator)
    unidev.copy_to(x, "cpu")
    in_a_thread(generator.close)
    x.tolist()  # neither recorded nor forbidden
    assert [each.operation for each in traces[0].transfers] == ["copy_to"]
    assert "other threads" in traces[0].blind_spots["unidev"]
    unidev.copy_to(x, "cpu")
    assert thread.recorder is None
    assert not any("import_hook" in type(finder).__module__ for finder in sys.meta_path)
    for scope in (unidev.trace_transfers(), unidev.transfer_guard("forbid")):
        with pytest.raises(unidev.ScopeError, match="was not entered"):
            scope.__exit__(None, None, None)


# -- many transfers -----------------------------------------------------------------------------


def test_a_trace_counts_all_and_keeps_those_up_to_its_limit(two_gpus, tmp_path):
    x = unidev.ones((), device="gpu:0")
    with unidev.trace_transfers(limit=100) as trace:
        for _ in range(100):
            x.item()
        assert trace.left_out == 0
        tracemalloc.start()
        for _ in range(5_000):
            x.item()
        grown = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    assert grown < 500_000  # Python keeps 2,000 tuples that are free again
    assert (trace.count, len(trace.transfers), trace.left_out) == (5_100, 100, 5_000)
    assert (trace.total_bytes, sum(each.count for each in trace.by_line())) == (20_400, 5_100)
    assert str(trace).splitlines()[0].startswith("5,100 transfers between devices, 19.9 KiB, ")
    assert "only the first 100 are in trace.transfers" in str(trace)
    assert "5,000 times at" in trace.by_line()[0].advice
    trace.to_json(tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    assert (document["count"], len(document["transfers"])) == (5_100, 100)
    assert document["left_out"] == 5_000


@pytest.mark.parametrize("limit", [-1, 2.5, "many", None])
def test_a_limit_that_is_no_count_is_refused(limit):
    with pytest.raises(unidev.InvalidDataError, match="limit must be a non-negative integer"):
        unidev.trace_transfers(limit=limit)


# -- questions ----------------------------------------------------------------------------------


def test_a_program_that_asks_for_a_real_gpu_is_told_that_it_sees_none(two_gpus, monkeypatch):
    framework = types.SimpleNamespace(is_available=lambda: False, count=lambda: 2)
    given = framework.is_available
    questions = {"gpus.is_available": framework, "gpus.count": framework, "gpus.gone": framework}
    tracer = load_backend("numpy").tracer
    monkeypatch.setattr(tracer, "gpu_queries", questions, raising=False)
    with unidev.trace_transfers() as trace:
        assert (framework.is_available(), framework.count()) == (False, 2)
        statistics.mean([framework.is_available()])
    assert framework.is_available is given
    why = trace.gpu_queries["gpus.is_available"]
    assert re.fullmatch(
        r"called at .*test_tracing.py:\d+ in test_a_program_that_asks.*, it sees no "
        "GPU: numpy calls the simulated ones gpu:0, gpu:1",
        why,
    )
    assert trace.gpu_queries.keys() == {"gpus.is_available"}
    assert f"gpus.is_available(), {why}" in str(trace).splitlines()


def test_what_is_not_seen_is_part_of_the_trace(two_gpus, monkeypatch):
    with unidev.trace_transfers() as trace:
        spot = next(iter(trace.blind_spots["numpy"]))
    assert "numpy.asarray(a)" in spot
    assert spot in str(trace)
    monkeypatch.setattr(
        load_backend("numpy"), "tracer", unidev.unsupported("nobody has written it")
    )
    with unidev.trace_transfers() as trace:
        assert trace.not_seen["numpy"] == "nobody has written it"
    assert "  numpy: all transfers except unidev's own: nobody has written it" in str(trace)


# -- nothing outside the block -------------------------------------------------------------------


def test_importing_unidev_imports_nothing_of_a_trace(run_python):
    said = run_python(
        "import sys, unidev\n"
        "late = {'unidev.tracing.recorder', 'unidev.tracing.trace', 'json'};"
        "print(sorted(late & set(sys.modules)))"
    )
    assert said == "[]"


def test_without_a_watch_the_verbs_call_the_backend_directly(two_gpus, monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("looked at without need")

    monkeypatch.setattr("unidev.backends.transfers.of_tensor", refuse)
    monkeypatch.setattr("unidev.tracing.recorder.Recorder.own_call", refuse)
    x = unidev.rand(3, device="gpu:0")
    unidev.to_numpy(unidev.as_in_device(unidev.copy_to(x, "gpu:1"), "cpu"))
    unidev.place({"x": x}, "gpu:1")


def test_a_package_is_passed_over_as_long_as_it_says_so(two_gpus, tmp_path, monkeypatch):
    package = tmp_path / "judging"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "reads.py").write_text("import unidev\ndef read(x): return unidev.to_numpy(x)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "judging", raising=False)
    from judging.reads import read

    x = unidev.ones(3, device="gpu:0")
    with unidev.trace_transfers() as trace:
        read(x)
        with passing_over("judging"):
            read(x)  # passed over
        read(x)
    theirs = (str(package / "reads.py"), 2)
    assert [(each.line.file, each.line.number) for each in trace.transfers] == [
        theirs, (__file__, line_with("passed over")), theirs
    ]  # fmt: skip


def test_code_that_a_framework_has_made_of_text_is_nobodys_line(two_gpus):
    x = unidev.ones(3, device="gpu:0")
    program = "def read(x): return x.tolist()"
    theirs: dict[str, object] = {"__name__": "numpy.made"}
    mine: dict[str, object] = {"__name__": "mine"}
    exec(program, theirs)
    exec(program, mine)
    with unidev.trace_transfers() as trace:
        theirs["read"](x)  # made of text
        mine["read"](x)
    first, second = trace.transfers
    assert (first.line.file, first.line.number) == (__file__, line_with("made of text"))
    assert (second.line.file, second.line.number, second.line.source) == ("<string>", 1, "")
