"""The tracer's scopes: threads, nesting, cost, and that nothing is left behind."""

from __future__ import annotations

import sys
import threading
import types

import paddle
from tracing import GPU, GPU_1, changed, on, originals, recorded

__all__ = ["originals"]  # a fixture, of every test here

# -- afterwards -----------------------------------------------------------------------------------


def test_attributes_are_others_in_a_scope_and_the_originals_after_it(originals):
    assert changed(originals) == set()
    with recorded():
        patched = {name for _, name in changed(originals)}
        assert {"numpy", "__add__", "_copy_to", "matmul", "run_backward", "__array__"} <= patched
    assert changed(originals) == set()


def test_a_module_that_is_imported_in_a_scope_keeps_no_replacement():
    original = paddle._C_ops.multiply
    late = types.ModuleType("paddle.imported_late")
    try:
        with recorded() as transfers:
            late.multiply = paddle._C_ops.multiply
            sys.modules[late.__name__] = late
            assert late.multiply is not original
        assert late.multiply is original
        with recorded() as transfers:
            late.multiply(on(GPU), on(GPU_1))
        assert transfers[-1][0] == "multiply of mixed operands"
        assert late.multiply is original
    finally:
        del sys.modules[late.__name__]


# -- threads --------------------------------------------------------------------------------------


def test_two_threads_have_scopes_of_their_own_and_the_last_one_restores(originals):
    mine_is_open, theirs_is_open, mine_is_closed = (threading.Event() for _ in range(3))
    seen = []

    def theirs():
        assert mine_is_open.wait(60)
        with recorded() as transfers:
            theirs_is_open.set()
            assert mine_is_closed.wait(60)
            on(GPU).tolist()
            seen.extend(transfers)

    thread = threading.Thread(target=theirs)
    thread.start()
    with recorded() as transfers:
        mine_is_open.set()
        assert theirs_is_open.wait(60)
        on(GPU).numpy()
    assert changed(originals)
    mine_is_closed.set()
    thread.join(60)
    assert [each[0] for each in transfers] == ["paddle.to_tensor", "Tensor.numpy"]
    assert [each[0] for each in seen] == ["paddle.to_tensor", "Tensor.tolist"]


def test_many_threads_open_and_close_scopes_at_once():
    def work():
        counts = set()
        x = on(GPU).sum()
        for _ in range(50):
            with recorded() as transfers:
                x.item()
            counts.add(len(transfers))
        seen.append(counts)

    seen = []
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert seen == [{1}] * 4


def test_the_tracer_is_imported_when_it_is_first_asked_for(run_python):
    done = run_python(
        """
        import sys, unidev
        backend = unidev.active_backend()
        print("unidev_paddle.tracer" in sys.modules)
        backend.tracer
        print("unidev_paddle.tracer" in sys.modules)
        """
    )
    assert done.stdout.split() == ["False", "True"], done.stderr
