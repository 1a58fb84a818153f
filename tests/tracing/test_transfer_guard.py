"""`transfer_guard`: implicit transfers are stopped or logged, with their line and a remedy."""

import logging
import pickle
import threading

import numpy as np
import pytest
from turns import in_a_thread

import unidev
from unidev.backends.observer import thread


def test_what_names_a_device_is_asked_for(two_gpus, tmp_path):
    file = tmp_path / "model.safetensors"
    with unidev.transfer_guard("forbid"):
        x = unidev.rand(3, device="gpu:0")
        unidev.array([1, 2], device="gpu:1")
        unidev.array(x, device="cpu")
        with unidev.gpu(1):
            unidev.array(x)
            unidev.arange(3)
        unidev.to_numpy(unidev.copy_to(x, "cpu"))
        unidev.as_in_device([x], "gpu:1")
        model = unidev.place({"x": x}, "gpu:1")
        unidev.save_parameters(model, file)
        unidev.load_parameters(model, file, device="gpu:0")


def test_what_names_none_is_forbidden(two_gpus):
    x = unidev.rand(3, device="gpu:0")
    for read in (
        lambda: unidev.to_numpy(x),
        lambda: unidev.array(x),  # to cpu:0, which nobody has named
        lambda: x[0].item() + 1,
        lambda: [*x.tolist()],
        lambda: float(x[0]),
        lambda: 1 if x[0] else 0,
        lambda: repr(x),
    ):
        with unidev.transfer_guard("forbid"), pytest.raises(unidev.TransferForbiddenError):
            read()
        read()


def test_the_loop_that_logs_the_loss_is_stopped_at_the_first_item(two_gpus):
    losses = unidev.ones(1000, device="gpu:0")
    seen = []

    def log():
        for loss in losses:
            seen.append(float(loss.item()))  # noqa: PERF401  as it is written in a loop that trains

    with unidev.transfer_guard("forbid"), pytest.raises(unidev.TransferForbiddenError) as caught:
        log()
    assert seen == []
    error = caught.value
    assert str(error).startswith(
        "implicit transfer: `.item()` would move a tensor of shape (), 4 bytes, from gpu:0 to "
        "cpu:0; at "
    )
    assert " in log: seen.append(" in str(error)
    assert "Keep it on gpu:0 and read it once, outside the guard; or make the" in str(error)
    assert 'unidev.copy_to(x, "cpu:0")' in str(error)
    assert error.line.source.startswith("seen.append(float(loss.item()))")
    assert error.line.file == __file__
    assert (error.transfer.operation, error.transfer.nbytes) == ("ndarray.item", 4)


def test_the_remedy_works(two_gpus):
    x = unidev.ones(3, device="gpu:0")
    with unidev.transfer_guard("forbid"):
        assert unidev.copy_to(x, "cpu:0").tolist() == [1.0, 1.0, 1.0]


def test_the_error_survives_pickling(two_gpus):
    x = unidev.ones(3, device="gpu:0")
    with unidev.transfer_guard("forbid"), pytest.raises(unidev.TransferForbiddenError) as caught:
        x.tolist()
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert (again.line, again.transfer) == (caught.value.line, caught.value.transfer)
    assert again.transfer.source is unidev.gpu()


def test_log_warns_of_each_with_its_line_and_lets_it_pass(two_gpus, caplog):
    x = unidev.ones(3, device="gpu:0")
    with unidev.transfer_guard("log"):
        unidev.copy_to(x, "cpu")
        for each in x:
            each.item()
    assert [(each.name, each.levelno) for each in caplog.records] == [
        ("unidev.transfers", logging.WARNING)
    ] * 3
    assert "`.item()` moves a tensor of shape (), 4 bytes, from gpu:0 to cpu:0" in caplog.text
    assert f"{__file__.rpartition('/')[2]}:" in caplog.text
    assert "each.item()" in caplog.text


def test_guards_nest_and_the_innermost_counts(two_gpus, caplog):
    x = unidev.ones(3, device="gpu:0")
    with unidev.transfer_guard("forbid"):
        with unidev.transfer_guard("allow"):
            x.tolist()
            with unidev.transfer_guard("log"):
                x.tolist()
            x.tolist()
        with pytest.raises(unidev.TransferForbiddenError):
            x.tolist()
    x.tolist()
    assert len(caplog.records) == 1


def test_a_guard_ends_after_an_exception_and_nothing_is_left(two_gpus):
    x = unidev.ones(3, device="gpu:0")
    with pytest.raises(ZeroDivisionError), unidev.transfer_guard("forbid"):
        raise ZeroDivisionError
    assert thread.recorder is None
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_one_guard_can_be_entered_again_and_left_once_for_each(two_gpus):
    guard = unidev.transfer_guard("forbid")
    with guard, guard:
        pass
    with pytest.raises(unidev.ScopeError, match="was already exited"):
        guard.__exit__(None, None, None)


def test_a_guard_that_a_thread_has_left_is_left_in_another_one(two_gpus):
    guard = unidev.transfer_guard("forbid")

    def generator():
        with guard:
            yield

    stopped, turns = generator(), threading.Barrier(2, timeout=60)

    def enters() -> None:
        next(stopped)
        turns.wait()
        turns.wait()
        unidev.copy_to(unidev.ones(1), "gpu:0")  # ends this thread's recorder, which is idle now

    with unidev.trace_transfers():
        with guard:
            pass
        other = threading.Thread(target=enters)
        other.start()
        turns.wait()
        stopped.close()
        turns.wait()
        other.join()
    with pytest.raises(unidev.ScopeError, match="was already exited"):
        guard.__exit__(None, None, None)


def test_a_guard_that_is_left_late_takes_out_itself(two_gpus):
    x = unidev.ones(3, device="gpu:0")

    def generator():
        with unidev.transfer_guard("forbid"):
            yield

    stopped = generator()
    next(stopped)
    with unidev.transfer_guard("allow"):
        stopped.close()
        x.tolist()
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert thread.recorder is None


def test_a_guard_that_two_threads_have_entered_is_left_by_each(two_gpus):
    guard = unidev.transfer_guard("forbid")

    def enters():
        with guard:
            pass

    with guard:
        in_a_thread(enters)
        with pytest.raises(unidev.TransferForbiddenError):
            unidev.as_in_device(unidev.ones(1), "gpu:0").tolist()
    assert thread.recorder is None
    unidev.copy_to(unidev.ones(1), "gpu:0")


def test_a_guard_holds_in_its_thread(two_gpus):
    x = unidev.ones(3, device="gpu:0")
    read = []
    with unidev.transfer_guard("forbid"):
        in_a_thread(lambda: read.append(x.tolist()))
    assert read == [[1.0, 1.0, 1.0]]


def test_a_guard_inside_a_trace_stops_what_then_is_not_in_the_trace(two_gpus):
    x = unidev.ones(3, device="gpu:0")
    with unidev.trace_transfers() as trace:
        with unidev.transfer_guard("forbid"), pytest.raises(unidev.TransferForbiddenError):
            x.tolist()
        with unidev.transfer_guard("forbid"):
            unidev.copy_to(x, "cpu")
        x[0].item()
    assert [each.operation for each in trace.transfers] == ["copy_to", "ndarray.item"]


def test_a_trace_inside_a_guard_sees_what_may_pass(two_gpus):
    x = unidev.ones(3, device="gpu:0")
    with unidev.transfer_guard("forbid"):
        with unidev.trace_transfers() as trace:
            unidev.copy_to(x, "cpu")
            with pytest.raises(unidev.TransferForbiddenError):
                x.tolist()
        with pytest.raises(unidev.TransferForbiddenError):  # the trace has not ended the guard
            x.tolist()
    assert [each.operation for each in trace.transfers] == ["copy_to"]


# -- for pytest ----------------------------------------------------------------------------------

TESTS = """
    import pytest, unidev

    @pytest.fixture
    def x():
        x = unidev.ones(3, device="gpu:0")
        unidev.to_numpy(x)  # a fixture may
        return x

    @pytest.mark.transfer_guard("forbid")
    def test_marked(x):
        unidev.to_numpy(x)

    @pytest.mark.transfer_guard
    def test_marked_without_a_mode(x):
        x[0].item()

    @pytest.mark.transfer_guard(mode="allow")
    def test_allowed(x, transfer_guard):
        unidev.to_numpy(x)

    @pytest.mark.transfer_guard("log")
    def test_logged(x, caplog):
        unidev.to_numpy(x)
        assert len(caplog.records) == 1

    def test_with_the_fixture(x, transfer_guard):
        with transfer_guard("allow"):
            unidev.to_numpy(x)
        unidev.to_numpy(x)

    def test_without_either(x):
        unidev.to_numpy(x)

    @pytest.mark.transfer_guard("forbid")
    class TestAll:
        def test_in_a_marked_class(self, x):
            unidev.to_numpy(x)

        def test_that_asks(self, x):
            unidev.copy_to(x, "cpu")

    @pytest.mark.transfer_guard("sometimes")
    def test_wrong():
        pass
    """


def test_the_mark_and_the_fixture_of_pytest(tmp_path, run_python):
    source = "\n".join(line.removeprefix("    ") for line in TESTS.splitlines())
    (tmp_path / "test_guarded.py").write_text(source)
    said = run_python(
        """
        import pytest
        print(int(pytest.main(["-q", "--strict-markers", "-W", "error", "-rA", "-p",
                               "no:cacheprovider", "--tb=line", "test_guarded.py"])))
        """,
        UNIDEV_SIMULATE="1", UNIDEV_BACKEND="numpy",
    )  # fmt: skip
    ended = {
        line.split("::", 1)[1].split(" ")[0]: line.split(" ")[0]
        for line in said.splitlines()
        if line.startswith(("PASSED ", "FAILED ", "ERROR "))
    }
    assert ended == {
        "test_marked": "FAILED",
        "test_marked_without_a_mode": "FAILED",
        "test_allowed": "PASSED",
        "test_logged": "PASSED",
        "test_with_the_fixture": "FAILED",
        "test_without_either": "PASSED",
        "TestAll::test_in_a_marked_class": "FAILED",
        "TestAll::test_that_asks": "PASSED",
        "test_wrong": "FAILED",
    }
    assert said.count("TransferForbiddenError") >= 4
    assert "transfer_guard's mode must be one of allow, log, forbid, not 'sometimes'" in said


@pytest.mark.parametrize(
    "mode", [np.ones(3), np.array("forbid"), ["forbid"], None, 1, True, "sometimes", ""]
)
def test_what_is_no_mode_is_refused_before_anything_is_watched(mode):
    with pytest.raises(unidev.InvalidDataError, match="mode must be one of allow, log, forbid"):
        unidev.transfer_guard(mode)
    assert thread.recorder is None
