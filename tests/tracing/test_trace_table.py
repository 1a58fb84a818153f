"""A trace as a table, and the advice in it."""

import re
import statistics
import sys

import pytest

import unidev
from unidev.tracing.advice import remedy
from unidev.tracing.record import LineTotal
from unidev.tracing.transfer import Transfer
from unidev.values import Line


def test_the_most_expensive_line_comes_first_with_what_to_do(two_gpus):
    x = unidev.ones(1000, device="gpu:0")
    with unidev.trace_transfers() as trace:
        unidev.to_numpy(x)
        total = 0.0
        for each in x:
            total += each.item()
    first, second = trace.by_line()
    assert (first.count, first.nbytes) == (1000, 4000)
    assert (second.count, second.nbytes) == (1, 4000)
    assert first.advice == (
        f"`.item()`, 1,000 times at {first.line}: keep the sum on gpu:0 and read it once."
    )
    assert second.advice == ""
    text = str(trace).splitlines()
    assert text[0].startswith("1,001 transfers between devices, 7.8 KiB, ")
    assert re.search(r", [\d.]+ [mµ]?s, from 2 lines$", text[0])
    assert text[1] == "times are of simulated devices, not of a real GPU"
    assert text[3].split() == ["transfers", "bytes", "time", "between", "by", "line"]
    assert text[4].split()[:3] == ["1,000", "3.9", "KiB"]
    assert text[5:7] == [f"    {first.line.source}", f"    {first.advice}"]
    assert "  unidev: other threads" in text


def test_lines_are_in_order_of_what_they_would_cost_on_a_gpu(two_gpus):
    large, small = unidev.ones(2_500_000), unidev.ones(1)
    with unidev.trace_transfers() as trace:
        for _ in range(20):
            unidev.copy_to(small, "gpu:0")  # 0.2 ms
        unidev.copy_to(large, "gpu:0")  # 1 ms
        for _ in range(3):
            unidev.copy_to(small, "gpu:0")
    assert [each.count for each in trace.by_line()] == [1, 20, 3]


def test_lines_are_in_order_of_their_real_seconds(two_gpus):
    with unidev.trace_transfers() as trace:
        unidev.copy_to(unidev.ones(1), "gpu:0")
    (one,) = trace.transfers
    trace._lines.clear()
    for number, seconds in enumerate((0.2, 0.1, 0.3)):
        line = one.line._replace(number=number)
        trace.add(one._replace(line=line, seconds=seconds, is_seconds_real=True))
    assert [each.line.number for each in trace.by_line()] == [2, 0, 1]


def advice_of(call, times=10):
    with unidev.trace_transfers() as trace:
        for _ in range(times):
            call()
    (total,) = trace.by_line()
    return total.advice


def test_advice_is_about_what_was_done(two_gpus):
    x, y = unidev.ones((2, 2), device="gpu:0"), unidev.ones((2, 2))
    assert "decide there" in advice_of(lambda: bool((x == 1).all()))
    assert "print less often" in advice_of(lambda: str(x))
    assert "keep the results on gpu:0" in advice_of(lambda: unidev.to_numpy(x))
    assert "what does not change to gpu:1 once" in advice_of(lambda: unidev.copy_to(y, "gpu:1"))
    assert "compute on gpu:0, where the data is" in advice_of(lambda: unidev.copy_to(x, "gpu:1"))
    assert advice_of(lambda: unidev.copy_to(x, "gpu:1"), times=9) == ""  # too few


def test_advice_about_an_index_or_a_mask_is_not_that_about_a_sum(two_gpus):
    def moved(operation):
        line = Line("train.py", 3, "step", "")
        return Transfer(
            operation, unidev.gpu(0), unidev.cpu(), 8, (), 1e-3, "MainThread", line, False, True,
            0.0, call=next(calls),
        )  # fmt: skip

    def said(operation):
        total = LineTotal(Line("train.py", 3, "step", ""))
        for _ in range(10):
            total.add(moved(operation))
        return total.advice

    calls = iter(range(1000))
    for operation in ("Tensor.__getitem__", "numpy.nonzero", "ndarray.__setitem__"):
        assert "keep the shape (`where`)" in said(operation)
        assert "keep the shape (`where`)" in remedy(moved(operation))
    assert "keep the sum on gpu:0" in said("Tensor.item")
    for operation in ("Tensor.item", "theirs.masked_select"):
        assert "keep the shape" not in remedy(moved(operation))


def test_advice_counts_the_calls_over_all_routes(two_gpus):
    x = unidev.ones(2)
    devices = iter(80 * [unidev.gpu(0), unidev.gpu(1)])
    said = advice_of(lambda: unidev.copy_to(x, next(devices)), times=160)
    assert said.startswith("`copy_to`, 160 times at ")


def test_what_may_be_done_once_is_not_called_a_loop(two_gpus):
    x = unidev.ones((2, 2))
    once = "; fine if it is done once, such as for each parameter of a model."
    assert advice_of(lambda: unidev.copy_to(x, "gpu:0"), times=16).endswith(once)
    assert "done once" not in advice_of(lambda: unidev.copy_to(x, "gpu:0"), times=100)
    assert "done once" not in advice_of(lambda: unidev.ones((), device="gpu:0").item())


THEIRS = """
import unidev
from unidev.contract import Recording, Tracer
from unidev.backends.numpy_backend import NumpySimulator
from unidev.backends.numpy_backend.backend import NumpyBackend

class Traced(Tracer):
    loops = frozenset({"fit"})
    index_operations = Tracer.index_operations | {"pick"}
    recording = Recording()

class Theirs(NumpyBackend):
    tensor_types = ()
    tracer = property(Traced)

@unidev.hookimpl
def unidev_register_backend():
    return unidev.BackendSpec(
        name="theirs", contract_version=3, framework="json", short_names=("js",),
        install="-", load=lambda: Theirs, simulator=NumpySimulator,
    )
"""
TRACED = """
    import json
    import unidev
    from unidev.contract import PlannedTransfer

    unidev.set_backend("theirs")
    cpu, gpu = unidev.cpu(), unidev.gpu(0)
    recording = unidev.active_backend().tracer.recording
    for operation in ("Net.fit", "js.pick", "json.sum", "Net.sum"):
        moved = PlannedTransfer(operation, gpu, cpu, 8, ())
        with unidev.trace_transfers() as trace:
            for _ in range(20):
                recording.call([moved], print, end="")
        (total,) = trace.by_line()
        print(total.advice)
"""


def test_advice_is_in_the_words_of_the_plugin_whose_framework_moves_data(add_plugin, run_python):
    add_plugin("theirs", THEIRS, entry_point="theirs")
    loop, index, function, method = run_python(TRACED, UNIDEV_SIMULATE="1").splitlines()
    assert loop.startswith("`.fit()`, 20 times at ")
    assert loop.endswith("it moves data and results itself; call it on more data, less often.")
    assert index.startswith("`js.pick()`, 20 times at ")
    assert "keep the shape (`where`)" in index
    assert function.startswith("`json.sum()`, 20 times at ")
    assert method.startswith("`.sum()`, 20 times at ")
    assert method.endswith("keep the sum on gpu:0 and read it once.")


MANY = 50
PLACES = {
    "copy_to of a container": lambda on_host, file: unidev.copy_to(on_host, "gpu:1"),
    "as_in_device of a container": lambda on_host, file: unidev.as_in_device(on_host, "gpu:1"),
    "place": lambda on_host, file: unidev.place(on_host, "gpu:1"),
    "the standard library's loop": lambda on_host, file: statistics.fmean(
        unidev.ones(MANY, device="gpu:0")
    ),
}


@pytest.mark.parametrize("call", PLACES.values(), ids=PLACES)
def test_one_call_that_moves_many_tensors_counts_once(two_gpus, call, tmp_path):
    def container():
        return {str(i): unidev.ones(2, device=f"gpu:{i % 2}" if i else "cpu") for i in range(MANY)}

    one = container()
    with unidev.trace_transfers() as trace:
        call(one, tmp_path)
    assert len({each.call for each in trace.transfers}) == 1
    assert [each.advice for each in trace.by_line()] == [""]
    several = [container() for _ in range(12)]
    with unidev.trace_transfers() as trace:
        for each in several:
            call(each, tmp_path)
    assert len({each.call for each in trace.transfers}) == 12
    (total,) = trace.by_line()
    assert f", 12 times at {total.line}: " in total.advice


def test_checkpoints_may_be_written_as_often_as_one_likes(two_gpus, tmp_path):
    model = {str(i): unidev.ones(2, device="gpu:0") for i in range(3)}
    with unidev.trace_transfers() as trace:
        for _ in range(12):
            unidev.save_parameters(model, tmp_path / "model.safetensors")
    assert len(trace.transfers) == 36
    assert len({each.call for each in trace.transfers}) == 12
    assert [each.advice for each in trace.by_line()] == [""]


def test_a_debugger_keeps_the_frames_that_it_follows(two_gpus):
    events = []

    def debugger(frame, event, argument):
        if frame.f_code.co_name == "copy_to" and frame.f_back.f_code.co_filename == __file__:
            events.append(event)
        return debugger

    x, before = unidev.ones(1, device="gpu:0"), sys.gettrace()
    with unidev.trace_transfers() as trace:
        sys.settrace(debugger)
        try:
            for _ in range(12):
                unidev.copy_to(x, "cpu")
        finally:
            sys.settrace(before)
    assert (events.count("call"), events.count("return")) == (12, 12)
    assert len({each.call for each in trace.transfers}) == 12


def test_a_trace_keeps_no_tensor_alive(two_gpus):
    x = unidev.ones(1, device="gpu:0")
    references = sys.getrefcount(x)
    with unidev.trace_transfers():
        unidev.copy_to(x, "cpu")
        x.item()
        assert sys.getrefcount(x) == references
