"""Frameworks that are imported while a thread watches."""


def test_a_framework_that_is_imported_inside_the_block_is_seen(run_python):
    said = run_python(
        """
        import sys, unidev
        with unidev.trace_transfers() as trace:
            assert "numpy" not in sys.modules and "numpy" not in trace.blind_spots
            import numpy
            assert "numpy" in trace.blind_spots
            x = unidev.ones(3, device="gpu:0")
            x.tolist()
        assert not type(numpy.__spec__.loader).__module__.startswith("unidev.")
        assert numpy.__loader__ is numpy.__spec__.loader
        assert not numpy.__spec__._initializing
        print([each.operation for each in trace.transfers], len(sys.meta_path))
        """,
        UNIDEV_SIMULATE="1", UNIDEV_BACKEND="numpy",
    )  # fmt: skip
    assert said.startswith("['ndarray.tolist'] ")


FRAMEWORK = """
    import unidev
    @unidev.hookimpl
    def unidev_register_backend():
        return unidev.BackendSpec(
            name="fake", contract_version=3, framework="fakeframework", install="pip install it",
            load=load,
        )
    def load():
        import fakeframework
        raise unidev.UnsupportedOperation("loading", "it is a fake")
    """


def test_a_framework_whose_backend_does_not_load_is_imported_all_the_same_and_named(
    run_python, add_plugin, tmp_path
):
    add_plugin("fakeplugin", FRAMEWORK, entry_point="fake")
    (tmp_path / "fakeframework.py").write_text("print('imported')\nvalue = 7\n")
    said = run_python(
        """
        import unidev
        with unidev.trace_transfers() as trace:
            import fakeframework
            assert fakeframework.value == 7
        assert fakeframework.__loader__ is fakeframework.__spec__.loader
        assert type(fakeframework.__loader__).__module__ == "importlib._bootstrap_external" or (
            "frozen" in type(fakeframework.__loader__).__module__
            or type(fakeframework.__loader__).__name__ == "SourceFileLoader")
        print(trace.not_seen["fake"])
        """
    )
    assert said.splitlines() == ["imported", "loading is not supported: it is a fake"]


def test_a_framework_that_fails_to_import_fails_as_it_always_does(run_python, add_plugin, tmp_path):
    add_plugin("fakeplugin", FRAMEWORK, entry_point="fake")
    (tmp_path / "fakeframework.py").write_text("raise OSError('libfake.so is missing')")
    said = run_python(
        """
        import sys, unidev
        with unidev.trace_transfers() as trace:
            try:
                import fakeframework
            except OSError as error:
                print(error, "fakeframework" in sys.modules)
        """
    )
    assert said == "libfake.so is missing False"


def test_a_framework_that_another_thread_imports_is_named_as_not_seen(run_python):
    said = run_python(
        """
        import importlib, threading, unidev
        with unidev.trace_transfers() as trace:
            other = threading.Thread(target=importlib.import_module, args=("numpy",))
            other.start()
            other.join()
            print(trace.not_seen["numpy"])
            import numpy
            x = unidev.ones(3, device="gpu:0")  # loads the backend here, and so its tracer
            x.tolist()
        print(trace.not_seen, len(trace.transfers))
        """,
        UNIDEV_SIMULATE="1", UNIDEV_BACKEND="numpy",
    )  # fmt: skip
    assert said.splitlines() == [
        "another thread imported numpy after this one began to record", "{} 1",
    ]  # fmt: skip


def test_a_thread_that_waits_for_this_import_while_it_loads_the_backend_does_not_hang(run_python):
    said = run_python(
        """
        import threading, unidev
        from unidev.backends.loading import load_backend, loading_lock
        is_held, is_done = threading.Event(), threading.Event()

        def hold():
            with loading_lock:
                is_held.set()
                is_done.wait(300)

        other = threading.Thread(target=hold)
        trace_transfers = unidev.trace_transfers  # looking it up would wait for the other
        other.start()
        is_held.wait(300)
        with trace_transfers() as trace:
            import numpy
            is_done.set()
            other.join()
        print(list(trace.not_seen))
        """
    )
    assert said == "['numpy']"
