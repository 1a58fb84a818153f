"""Simulated GPUs with a name, a memory and a model: what is read, refused and prepared."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from named_gpus import write_plugin

import unidev
from unidev.backends.discovery import backend_spec
from unidev.backends.loading import refusal_of
from unidev.backends.simulation import simulated_gpus
from unidev.contract import SimulatedGpus

ROOT = Path(__file__).parents[2]
NAMED = {"UNIDEV_SIMULATE": "8", "UNIDEV_SIMULATE_AS": "cuda"}


@pytest.fixture
def run(run_python, tmp_path):
    write_plugin(tmp_path)
    return run_python


@pytest.mark.parametrize(
    ("text", "number"),
    [("24GiB", 24 * 2**30), ("1.5 kib", 1536), ("1,024 GiB", 2**40), ("4194304", 4194304)],
)
def test_what_is_requested_is_read_as_unidev_prints_it(text, number) -> None:
    given = {**NAMED, "UNIDEV_SIMULATE_MEMORY": text, "UNIDEV_SIMULATE_LIKE": " H100 "}
    expected = SimulatedGpus(count=8, name="cuda", memory_bytes=number, like="H100")
    assert simulated_gpus(given) == expected


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("UNIDEV_SIMULATE", "two", "Example: UNIDEV_SIMULATE=2."),
        ("UNIDEV_SIMULATE_AS", "cuda:0", "Example: UNIDEV_SIMULATE_AS=cuda."),
        ("UNIDEV_SIMULATE_LIKE", "the best", "Example: UNIDEV_SIMULATE_LIKE=H100."),
        ("UNIDEV_SIMULATE_FIRST", "-1", "and it is '-1': unset it."),
        *(
            ("UNIDEV_SIMULATE_MEMORY", text, "Example: UNIDEV_SIMULATE_MEMORY=24GiB.")
            for text in ("24GB", "0", "24", "-1", "1.5", "GiB", "\u0662", "9" * 5000)
        ),
    ],
)
def test_a_wrong_value_is_an_error_with_the_variable_and_an_example(variable, text, said) -> None:
    with pytest.raises(unidev.SimulationError) as caught:
        simulated_gpus({**NAMED, variable: text})
    assert str(caught.value).startswith(variable)
    assert str(caught.value).endswith(said)


@pytest.mark.parametrize("count", ["", "0"])
@pytest.mark.parametrize("detail", ["AS", "MEMORY", "LIKE", "COMPILE"])
def test_what_is_said_of_gpus_that_are_not_simulated_is_an_error(count, detail) -> None:
    variable = f"UNIDEV_SIMULATE_{detail}"
    with pytest.raises(unidev.SimulationError, match=f"^{variable}=x is set, but no GPUs .*=8, or"):
        simulated_gpus({"UNIDEV_SIMULATE": count, variable: "x"})
    assert simulated_gpus({"UNIDEV_SIMULATE": count, variable: " "}) is None


def test_numpy_keeps_its_gpus_beside_a_name_and_refuses_the_rest() -> None:
    spec = backend_spec("numpy")
    assert refusal_of(spec, SimulatedGpus(count=2, name="cuda", memory_bytes=1, like="L4")) is None
    for gpus, variable in (
        (SimulatedGpus(count=2, memory_bytes=1), "UNIDEV_SIMULATE_MEMORY"),
        (SimulatedGpus(count=2, like="L4"), "UNIDEV_SIMULATE_LIKE"),
        (SimulatedGpus(count=2, compile="eager"), "UNIDEV_SIMULATE_COMPILE"),
        (SimulatedGpus(count=2, late="1"), "UNIDEV_SIMULATE_LATE"),
    ):
        assert str(refusal_of(spec, gpus)).endswith(f": unset {variable}")


def test_a_backend_starts_with_what_is_requested_or_says_why_not(run) -> None:
    program = """
        import unidev
        for name in ("fake", "numpy"):
            with unidev.use_backend(name):
                print(name, unidev.num_gpus())
        """
    assert run(program, **NAMED, UNIDEV_SIMULATE_MEMORY="1KiB", UNIDEV_SIMULATE_LIKE="L4") == (
        "prepare 8 as cuda 1024 L4\nstart 8 as cuda 1024 L4\nimport\nfake 8\nnumpy 8"
    )
    refused = """
        import unidev
        try:
            unidev.set_backend("fake")
        except unidev.SimulationError as error:
            print(error)
        """
    assert run(refused, UNIDEV_SIMULATE="8", UNIDEV_SIMULATE_AS="rocm") == (
        "backend 'fake' cannot have these simulated GPUs: its GPUs can only be called cuda: set "
        "UNIDEV_SIMULATE_AS=cuda."
    )


def test_importing_unidev_prepares_the_import_of_a_framework(run) -> None:
    said = run("import unidev; print('unidev'); import fakeframework", **NAMED)
    assert said == "prepare 8 as cuda None None\nunidev\nimport"


def test_a_plugin_that_is_imported_first_is_prepared_for_once_it_is_whole(run) -> None:
    said = run("import fakeplugin; print('plugin'); import fakeframework", **NAMED)
    assert said == "plugin\nprepare 8 as cuda None None\nimport"


def test_importing_unidev_after_the_framework_is_an_error(run) -> None:
    said = run(
        """
        import fakeframework
        for attempt in range(2):
            try:
                import unidev
            except Exception as error:
                print(type(error).__name__, error)
        """,
        **NAMED,
    )
    late = "SimulationError too late: import unidev before fakeframework"
    assert said.splitlines() == ["import", late, late]


def test_a_wrong_value_is_raised_by_the_frameworks_import_unless_the_program_corrects_it(run):
    wrong = """
        import unidev, json
        try:
            import fakeframework
        except unidev.SimulationError as error:
            print(error)
        """
    said = run(wrong, UNIDEV_SIMULATE_AS="cuda")
    assert said.startswith("UNIDEV_SIMULATE_AS=cuda is set, but no GPUs are simulated")
    corrected = "import unidev; unidev.simulate(3); import fakeframework"
    said = run(corrected, UNIDEV_SIMULATE_AS="cuda")
    assert said == "prepare 3 as cuda None None\nimport"


def test_a_process_keeps_the_number_that_it_was_prepared_for(run) -> None:
    said = run(
        """
        import unidev
        unidev.simulate(8)
        try:
            unidev.simulate(3)
        except unidev.SimulationError as error:
            print(error)
        """,
        **NAMED,
    )
    assert said.splitlines()[1] == (
        "this process was started with UNIDEV_SIMULATE=8, which it keeps, because of "
        "UNIDEV_SIMULATE_AS=cuda: start Python with UNIDEV_SIMULATE=3."
    )


def test_a_framework_that_refuses_the_name_is_imported_with_one_line_about_it(tmp_path) -> None:
    write_plugin(tmp_path)
    program = "import unidev, numpy, fakeframework; del sys; import fakeframework"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({str(tmp_path)!r}); {program}"],
        env={"UNIDEV_SIMULATE": "2", "UNIDEV_SIMULATE_AS": "rocm", "PATH": ""},
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "import\n")
    assert done.stderr == (
        "unidev: fake is imported without simulated GPUs: its GPUs can only be called cuda: set "
        "UNIDEV_SIMULATE_AS=cuda.\n"
    )


def test_a_trace_is_of_the_named_gpus(run) -> None:
    said = run(
        """
        import unidev
        with unidev.trace_transfers() as trace:
            import fakeframework
            x = unidev.copy_to(unidev.ones(2, device="gpu:1"), "cpu")
        print(*trace.transfers[0].source.native_name.split(), unidev.gpu().is_simulated)
        """,
        **NAMED, UNIDEV_BACKEND="fake",
    )  # fmt: skip
    assert said.splitlines()[-1] == "cuda:1 True"


OTHERS = {
    "mxnet": ("mx.gpu(0) is compiled out", "UNIDEV_SIMULATE=8 alone", "mx.cpu(1), mx.cpu(2)"),
    "paddle": ("gpu:0 is compiled out", "UNIDEV_SIMULATE=8 alone", "sim:0, sim:1"),
    "tensorflow": ("kernels of its own", "UNIDEV_SIMULATE=8 alone", "CPU:1, CPU:2"),
}


def test_frameworks_whose_gpus_are_compiled_out_say_so_and_what_they_have(run_python) -> None:
    sources = ROOT.glob("plugins/unidev-*/src")
    said = run_python(
        f"""
        import sys
        sys.path += {[*map(str, sources)]!r}
        from unidev.contract import SimulatedGpus
        from unidev.backends.discovery import backend_spec
        from unidev.backends.loading import refusal_of
        for name in {[*OTHERS]!r}:
            spec = backend_spec(name)
            print(refusal_of(spec, SimulatedGpus(count=8, name="cuda", memory_bytes=1)))
            print(refusal_of(spec, SimulatedGpus(count=8, memory_bytes=1)))
            print(refusal_of(spec, SimulatedGpus(count=8, like="L4")))
            assert refusal_of(spec, SimulatedGpus(count=8)) is None
            assert spec.framework not in sys.modules
        """,
        UNIDEV_PLUGINS=",".join(f"unidev_{name}" for name in OTHERS),
    )
    lines = said.splitlines()
    for name, parts in OTHERS.items():
        named, memory, like, *lines = lines
        assert all(part in named for part in ("'cuda'", *parts)), name
        assert memory.endswith("host's memory, unlimited: unset UNIDEV_SIMULATE_MEMORY")
        assert like.endswith("do not imitate a model: unset UNIDEV_SIMULATE_LIKE")
