"""Every thread can call, whichever imported Paddle; static mode is the user's to set."""

from __future__ import annotations

import textwrap

import pytest

PRELUDE = """
import threading
import unidev


def use():
    try:
        x = unidev.array([1.0, 2.0])
        x.stop_gradient = False
        made = [unidev.zeros(2), unidev.copy_to(x, "cpu"), unidev.as_in_device(x, "cpu")]
        values = [unidev.to_numpy(y).tolist() for y in made]
        made[1].sum().backward()
        return values == [[0, 0], [1, 2], [1, 2]] and x.grad.tolist() == [1, 1]
    except unidev.UnsupportedOperation as error:
        return "refused" if "static graph" in str(error) else str(error)


def dynamic():
    import paddle
    return paddle.in_dynamic_mode()


def imported_then_used():
    return dynamic() and use()


def static():
    import paddle
    paddle.enable_static()
    return not paddle.in_dynamic_mode()


def in_thread(*acts):
    # In a new thread, which is over when this returns.
    results = []
    thread = threading.Thread(target=lambda: results.extend(act() for act in acts))
    thread.start()
    thread.join()
    return results


def at_once(*acts):
    barrier, results = threading.Barrier(len(acts)), []

    def run(act):
        barrier.wait()
        results.append(act())

    threads = [threading.Thread(target=run, args=[act]) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class Importer:
    # A thread that has imported Paddle itself, and runs until it is asked to end.
    def __init__(self):
        self.imported, self.may_end = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        self.imported.wait()

    def run(self):
        dynamic()
        self.imported.set()
        self.may_end.wait()

    def end(self):
        self.may_end.set()
        self.thread.join()
"""


@pytest.mark.parametrize("count", [None, "2"], ids=["host", "simulated"])
@pytest.mark.parametrize(
    "first", ["in_thread(use)", "at_once(*[use] * 4)", "at_once(*[imported_then_used] * 4)"]
)
def test_all_threads_can_call_when_the_one_that_imported_has_ended(run_python, first, count):
    if count and "imported" in first:
        # Simulated devices have to be there before Paddle, so unidev has to import it.
        first = first.replace("imported_then_used", "use")
    program = f"print(*{first}, *in_thread(use, dynamic), use(), dynamic(), *at_once(use, use))"
    done = run_python(PRELUDE + program, UNIDEV_SIMULATE=count)
    assert set(done.stdout.split()) == {"True"}, done.stdout + done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("user", ["in_thread(use)", "[use()]"], ids=["thread", "main thread"])
def test_all_threads_can_call_when_somebodys_own_importing_thread_ends_later(run_python, user):
    program = f"""
    importer = Importer()
    used = {user}
    importer.end()
    print(*used, *in_thread(use, dynamic), use(), dynamic(), *at_once(use, use))
    """
    done = run_python(PRELUDE + textwrap.dedent(program), UNIDEV_SIMULATE=None)
    assert set(done.stdout.split()) == {"True"}, done.stdout + done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize(
    "first",
    [
        "use()",
        "in_thread(use)",
        "in_thread(use); use()",
        "in_thread(imported_then_used)",
        "importer = Importer(); use(); importer.end()",
        "importer = Importer(); in_thread(use); importer.end()",
    ],
)
def test_static_mode_of_the_main_thread_is_refused_and_ends(run_python, first):
    program = f"""
    {first}
    import paddle
    print(static(), use(), *in_thread(use))
    paddle.disable_static()
    print(dynamic(), use(), *in_thread(use, dynamic))
    print(static(), use(), *in_thread(use))
    """
    done = run_python(PRELUDE + textwrap.dedent(program), UNIDEV_SIMULATE=None)
    assert done.stdout.splitlines() == [
        "True refused refused",
        "True True True True",
        "True refused refused",
    ], done.stderr
    assert done.stderr == ""


def test_static_mode_that_was_there_before_is_refused(run_python):
    done = run_python(PRELUDE + "print(static(), use(), *in_thread(use))", UNIDEV_SIMULATE=None)
    assert done.stdout == "True refused refused\n", done.stderr


def test_static_mode_of_the_importing_thread_is_refused(run_python):
    program = "print(*in_thread(use, static, use), *in_thread(use), use())"
    done = run_python(PRELUDE + program, UNIDEV_SIMULATE=None)
    assert done.stdout == "True True refused refused refused\n", done.stderr


def test_tracing_is_refused_in_every_thread(run_python, tmp_path):
    program = """
    def traced():
        import paddle

        @paddle.jit.to_static(full_graph=True)
        def function(x):
            try:
                unidev.copy_to(x, "cpu")
            except unidev.UnsupportedOperation as error:
                seen.append("graph" in str(error))
            return x + 1

        seen = []
        return function(unidev.ones(2)).tolist() == [2, 2] and seen == [True] and use()

    print(*in_thread(use, traced), *in_thread(traced), traced(), use())
    """
    # A file, since Paddle reads the source of what it traces.
    (tmp_path / "traces.py").write_text(PRELUDE + textwrap.dedent(program))
    done = run_python("import traces", PYTHONPATH=str(tmp_path), UNIDEV_SIMULATE=None)
    assert done.stdout == "True True True True True\n", done.stderr
