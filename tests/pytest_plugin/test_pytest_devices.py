"""unidev_pytest, as a user's tests meet it: each run is a pytest of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import unidev

pytest_plugins = ("pytester",)
ROOT = Path(__file__).parents[2]

PLUGIN = """
    from unidev import BackendSpec, hookimpl
    from unidev.numpy_backend.simulator import NumpySimulator

    @hookimpl
    def unidev_register_backend():
        return BackendSpec(
            name="{module}", contract_version=1, framework="{framework}",
            install="pip install numpy", load="{module}_backend:Own", {simulator}
            namespaces=("unidev",),
        )
"""
OWN = """
    from unidev.numpy_backend.backend import NumpyBackend

    class Own(NumpyBackend):
        pass
"""
TWO = """
    import unidev

    def test_two(unidev_backend, unidev_gpus):
        a, b = unidev_gpus(2)
        assert (str(a), str(b)) == ("gpu:0", "gpu:1")
        assert a.backend == b.backend == unidev_backend.name == unidev.active_backend().name
        assert unidev.device_of(unidev.ones(2, device=b)) is b
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs pytest with unidev's plugin and no other in a folder of its own."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(*options: str, **variables: str) -> pytest.RunResult:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return pytester.runpytest_subprocess("-p", "unidev_pytest", "-rs", "-v", *options)

    return run


@pytest.fixture
def add_backend(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Adds a backend beside NumPy's."""

    def add(
        module: str, framework: str = "numpy", backend: str = OWN, *, simulates: bool = True
    ) -> None:
        simulator = "simulator=NumpySimulator," if simulates else ""
        source = PLUGIN.format(module=module, framework=framework, simulator=simulator)
        pytester.makepyfile(**{module: source, f"{module}_backend": backend})
        monkeypatch.setenv("UNIDEV_PLUGINS", module)

    return add


def said(result: pytest.RunResult) -> str:
    """All output, in one line."""
    return " ".join([*result.outlines, *result.errlines])


# -- simulated GPUs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "settings", "variables"),
    [
        (["--unidev-simulate", "2"], "", {}),
        ([], "unidev_simulate = 2", {}),
        (["--unidev-simulate", "2"], "unidev_simulate = 3", {}),
        (["--unidev-simulate", "2"], "", {"UNIDEV_SIMULATE": "3"}),
        (["--unidev-simulate", "2"], "unidev_simulate = 4", {"UNIDEV_SIMULATE": "3"}),
        ([], "unidev_simulate = 2", {"UNIDEV_SIMULATE": "2"}),
    ],
)
def test_a_users_tests_get_simulated_gpus(pytester, run, options, settings, variables) -> None:
    pytester.makeini(f"[pytest]\n{settings}\n")
    pytester.makepyfile(
        test_own="""
        import subprocess, sys, unidev

        def test_here():
            assert unidev.num_gpus() == 2

        def test_in_a_process_of_its_own():
            program = "import unidev; print(unidev.num_gpus())"
            assert subprocess.check_output([sys.executable, "-c", program]).split() == [b"2"]
        """
    )
    result = run(*options, UNIDEV_BACKEND="numpy", **variables)
    result.assert_outcomes(passed=2)
    assert "unidev: UNIDEV_SIMULATE=2 by " in said(result)


def test_the_number_holds_in_a_conftest_too(pytester, run) -> None:
    pytester.makeconftest("import unidev\nGPUS = unidev.num_gpus()\n")
    pytester.makepyfile(test_own="from conftest import GPUS\ndef test_x(): assert GPUS == 2")
    run("--unidev-simulate", "2", UNIDEV_BACKEND="numpy").assert_outcomes(passed=1)


def test_the_environment_is_as_before_when_pytest_has_ended(pytester, run) -> None:
    pytester.makepyfile(test_own="def test_x(): pass")
    program = pytester.makepyfile(
        twice="""
        import os, pytest
        assert not pytest.main(["-p", "unidev_pytest", "--unidev-simulate", "2", "test_own.py"])
        assert "UNIDEV_SIMULATE" not in os.environ
        os.environ["UNIDEV_SIMULATE"] = "3"
        assert not pytest.main(["-p", "unidev_pytest", "--unidev-simulate", "2", "test_own.py"])
        assert os.environ["UNIDEV_SIMULATE"] == "3"
        """
    )
    assert pytester.runpython(program).ret == 0


@pytest.mark.parametrize("text", ["-1", "65", "2.0", "two", "", "٣"])
def test_a_number_that_is_none_is_refused(pytester, run, text) -> None:
    pytester.makepyfile(test_own="def test_x(): pass")
    result = run(f"--unidev-simulate={text}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"must be an integer from 0 to 64, not {text!r}" in said(result)
    if text:
        pytester.makeini(f"[pytest]\nunidev_simulate = {text}\n")
        result = run()
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "tox.ini: the number of simulated GPUs must be an integer" in said(result)


def test_a_file_and_the_environment_that_differ_are_refused(pytester, run) -> None:
    pytester.makeini("[pytest]\nunidev_simulate = 2\n")
    pytester.makepyfile(test_own="def test_x(): pass")
    result = run(UNIDEV_SIMULATE="4")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "tox.ini is 2, but UNIDEV_SIMULATE=4 is in the environment: remove one" in said(result)
    assert "--unidev-simulate N" in said(result)


@pytest.mark.parametrize("count", ["0", "3"])
def test_a_backend_that_is_loaded_too_early_is_refused(pytester, run, count) -> None:
    pytester.makepyfile(
        early="import unidev\nunidev.simulate(2)\nunidev.set_backend('numpy')",
        test_own="def test_x(): pass",
    )
    result = run("-p", "early", "--unidev-simulate", count)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "'numpy' was loaded with 2 simulated GPUs before" in said(result)
    assert f"set UNIDEV_SIMULATE={count} in the environment" in said(result)
    run("-p", "early", "--unidev-simulate", "2").assert_outcomes(passed=1)


# -- unidev_backend --------------------------------------------------------------------------------


def test_a_test_runs_on_each_backend_that_is_installed(pytester, run, add_backend) -> None:
    add_backend("own")
    pytester.makepyfile(test_own=TWO)
    result = run("--unidev-simulate", "2", UNIDEV_DISABLED_PLUGINS="torch,tensorflow,paddle,mxnet")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_two?numpy?*PASSED*", "*test_two?own?*PASSED*"])


def test_backends_can_be_named(pytester, run, add_backend) -> None:
    add_backend("own")
    pytester.makepyfile(test_own=TWO)
    result = run("--unidev-simulate", "2", "--unidev-backend", "own")
    result.assert_outcomes(passed=1)
    assert "test_two[own]" in said(result)
    run("--unidev-simulate", "2", "--unidev-backend", "own, numpy,own").assert_outcomes(passed=2)


def test_a_tests_own_parametrize_comes_first(pytester, run, add_backend) -> None:
    add_backend("own")
    pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.parametrize("n, unidev_backend", [(1, "own")], indirect=["unidev_backend"])
        def test_x(unidev_backend, n):
            assert unidev_backend.name == "own"
        """
    )
    run().assert_outcomes(passed=1)


def test_the_backend_is_no_longer_selected_afterwards(pytester, run, add_backend) -> None:
    add_backend("own")
    pytester.makepyfile(
        test_own="""
        import unidev

        def test_selected(unidev_backend):
            assert unidev.active_backend() is unidev_backend

        def test_not_selected():
            assert unidev.active_backend().name == "numpy"
        """
    )
    run("--unidev-backend", "own", UNIDEV_BACKEND="numpy").assert_outcomes(passed=2)


def test_a_backend_that_does_not_load_is_skipped_with_the_reason(
    pytester, run, add_backend
) -> None:
    add_backend("broken", "json", "raise OSError('libcuda.so is gone')")
    pytester.makepyfile(test_own="def test_x(unidev_backend): pass")
    without = {"UNIDEV_DISABLED_PLUGINS": "torch,tensorflow,paddle,mxnet"}
    result = run(**without)
    result.assert_outcomes(passed=1, skipped=1)
    assert "test_own.py:1: backend 'broken' does not load: OSError: libcuda.so is gone" in said(
        result
    )
    result = run("--unidev-backend", "broken")
    result.assert_outcomes(errors=1)
    assert "libcuda.so is gone" in said(result)


def test_a_framework_that_is_not_installed_is_left_out_and_refused_by_name(
    pytester, run, add_backend
) -> None:
    add_backend("absent", framework="not_installed_here")
    pytester.makepyfile(test_own="def test_x(unidev_backend): pass")
    result = run(UNIDEV_DISABLED_PLUGINS="torch,tensorflow,paddle,mxnet")
    result.assert_outcomes(passed=1)
    result = run("--unidev-backend", "absent")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "needs not_installed_here, which is not installed. Install it with:" in said(result)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("numpyy", "there is no backend 'numpyy'; there are: numpy"),
        ("numpy,cuda", "there is no backend 'cuda'"),
        (" , ", "name at least one backend of: numpy"),
    ],
)
def test_an_unknown_backend_is_refused(pytester, run, given, message) -> None:
    pytester.makepyfile(test_own="def test_x(): pass")
    result = run("--unidev-backend", given)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: --unidev-backend {given}: {message}" in said(result)


@pytest.mark.parametrize(
    "source",
    [
        "def test_x(request): request.getfixturevalue('unidev_backend')",
        "import pytest, unittest\n\n@pytest.mark.usefixtures('unidev_backend')\n"
        "class TestX(unittest.TestCase):\n    def test_x(self): pass",
    ],
)
def test_where_a_test_cannot_be_repeated_it_says_so(pytester, run, source) -> None:
    pytester.makepyfile(test_own=source)
    result = run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "unidev_backend runs a test once for each backend, which pytest cannot do" in (
        said(result)
    )


def test_a_fixture_of_the_users_can_use_it(pytester, run, add_backend) -> None:
    add_backend("own")
    pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.fixture
        def net(unidev_backend):
            return unidev_backend.name

        def test_x(net):
            assert net in ("numpy", "own")
        """
    )
    run("--unidev-backend", "numpy,own").assert_outcomes(passed=2)


def test_workers_of_xdist_have_the_same_devices_and_backends(pytester, run) -> None:
    pytest.importorskip("xdist")
    pytester.makeini("[pytest]\nunidev_simulate = 3\n")
    pytester.makepyfile(test_own=TWO)
    options = ("-p", "xdist", "-n", "2", "--unidev-backend", "numpy", "--unidev-simulate", "2")
    run(*options).assert_outcomes(passed=1)


# -- unidev_gpus -----------------------------------------------------------------------------------


def test_too_few_gpus_skip_the_test_and_name_the_option(pytester, run) -> None:
    pytester.makepyfile(test_own=TWO)
    result = run("--unidev-backend", "numpy")
    result.assert_outcomes(skipped=1)
    assert (
        "test_own.py:4: needs 2 GPUs, and numpy has none: run pytest with --unidev-simulate 2"
        in (said(result))
    )
    result = run("--unidev-backend", "numpy", "--unidev-simulate", "1")
    result.assert_outcomes(skipped=1)
    assert "needs 2 GPUs, and numpy has 1 simulated: run pytest with --unidev-simulate 2" in (
        said(result)
    )


def test_a_backend_without_a_simulator_says_so(pytester, run, add_backend) -> None:
    add_backend("own", simulates=False)
    pytester.makepyfile(test_own=TWO)
    result = run("--unidev-backend", "own")
    assert "own has none; none can be simulated: the backend has no simulator" in said(result)


def test_more_gpus_than_can_be_simulated_need_a_machine(pytester, run) -> None:
    pytester.makepyfile(test_own="def test_x(unidev_gpus): unidev_gpus(65)")
    result = run("--unidev-simulate", "2", UNIDEV_BACKEND="numpy")
    assert "needs 65 GPUs, and numpy has 2 simulated: run it on a machine" in said(result)


@pytest.mark.parametrize("count", ["0", "-1", "True", "'2'", "None"])
def test_a_number_of_gpus_that_is_none_is_refused(pytester, run, count) -> None:
    pytester.makepyfile(test_own=f"def test_x(unidev_gpus): unidev_gpus({count})")
    result = run(UNIDEV_BACKEND="numpy")
    result.assert_outcomes(failed=1)
    assert f"unidev_gpus takes a positive integer, such as unidev_gpus(2), not {count}." in (
        said(result)
    )


def test_gpus_belong_to_the_backend_whichever_fixture_comes_first(
    pytester, run, add_backend
) -> None:
    add_backend("own")
    pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.fixture
        def gpu(unidev_gpus):
            return unidev_gpus(1)[0]

        def test_x(gpu, unidev_backend):
            assert gpu.backend == unidev_backend.name == "own"
        """
    )
    options = ("--unidev-backend", "own", "--unidev-simulate", "1")
    run(*options, UNIDEV_BACKEND="numpy").assert_outcomes(passed=1)


# -- other people's tests --------------------------------------------------------------------------

UNRELATED = """
    import sys, unittest, pytest

    def test_plain(): pass

    @pytest.mark.parametrize("x", [1, 2])
    def test_parametrized(x): pass

    class TestCase(unittest.TestCase):
        def test_method(self): pass
"""


@pytest.mark.parametrize("options", [[], ["--unidev-simulate", "2"], ["--unidev-backend", "numpy"]])
def test_tests_that_know_nothing_of_unidev_all_run(pytester, run, options) -> None:
    pytester.makepyfile(test_unrelated=UNRELATED)
    result = run(*options)
    result.assert_outcomes(passed=4)
    result.stdout.no_fnmatch_line("*deselected*")


@pytest.mark.parametrize("options", [[], ["--unidev-simulate", "2"]])
def test_nothing_of_unidev_is_imported_for_them(pytester, run, options) -> None:
    pytester.makepyfile(
        test_unrelated="""
        import sys

        def test_modules():
            names = {name.partition(".")[0] for name in sys.modules}
            assert not names & {"unidev", "numpy", "torch", "pluggy_", "optree"}
            assert "unidev_pytest" in names
        """
    )
    run(*options).assert_outcomes(passed=1)


def test_the_suite_runs_alone(pytester, run) -> None:
    pytester.makepyfile(test_own="def test_x(): pass")
    result = run("--pyargs", "unidev.conformance", "test_own.py", "--unidev-backend", "numpy")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "the conformance suite runs alone: run `pytest test_own.py` separately" in said(result)


def test_the_entry_point_has_the_name_of_its_module() -> None:
    """Else `-p unidev_pytest` where it is installed would register it a second time."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    entries = project.partition("[project.entry-points.pytest11]\n")[2].partition("\n\n")[0]
    assert entries.startswith('unidev_pytest = "unidev_pytest"')
    assert "\n" not in entries


def test_the_limits_are_those_of_unidev() -> None:
    """The plugin has them a second time, since it imports nothing of unidev."""
    from unidev.registry import simulation
    from unidev_pytest import devices

    assert (devices._VARIABLE, devices._MOST) == (simulation.VARIABLE, simulation.MOST)
    assert sys.modules["unidev"] is unidev
