"""unidev_pytest's options, as a user's tests meet them: each run is a pytest of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from named_gpus import write_plugin

import unidev
from unidev.system.settings import MOST_SIMULATED, SIMULATE

pytest_plugins = ("pytester",)
ROOT = Path(__file__).parents[2]


# -- simulated GPUs --------------------------------------------------------------------------------


def said(result: pytest.RunResult) -> str:
    return " ".join([*result.outlines, *result.errlines])


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


@pytest.mark.parametrize(
    ("options", "settings", "source"),
    [
        (["--unidev-simulate-as", "cuda"], "", "--unidev-simulate-as"),
        (["--unidev-simulate-as", "cuda"], "unidev_simulate_as = rocm", "--unidev-simulate-as"),
        ([], "unidev_simulate_as = cuda", "the setting unidev_simulate_as in "),
    ],
)
def test_a_framework_of_a_conftest_has_them_by_name(
    pytester, run, options, settings, source
) -> None:
    write_plugin(pytester.path)
    pytester.makeini(f"[pytest]\n{settings}\n")
    pytester.makeconftest("import fakeframework")
    pytester.makepyfile(
        test_own="""
        from fakeplugin import FakeSimulator

        def test_x():
            assert (FakeSimulator.prepared.count, FakeSimulator.prepared.name) == (2, "cuda")
        """
    )
    result = run("--unidev-simulate", "2", *options)
    result.assert_outcomes(passed=1)
    assert (
        f"unidev: UNIDEV_SIMULATE=2 by --unidev-simulate, UNIDEV_SIMULATE_AS=cuda by {source}"
        in (said(result))
    )


@pytest.mark.parametrize(
    ("options", "variables", "reason"),
    [
        (["--unidev-simulate-as", "cuda"], {}, "and none are simulated: add --unidev-simulate N"),
        (["--unidev-simulate", "2", "--unidev-simulate-as", "rocm"], {}, "can only be called cuda"),
        (["--unidev-simulate", "2"], {"UNIDEV_SIMULATE_AS": "rocm"}, "can only be called cuda"),
    ],
)
def test_a_name_that_cannot_be_had_is_wrong_usage(
    pytester, run, options, variables, reason
) -> None:
    write_plugin(pytester.path)
    pytester.makepyfile(test_own="def test_x(): pass")
    result = run(*options, **variables)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert reason in result.stderr.str()


def test_a_name_is_too_late_once_the_framework_is_imported(pytester, run) -> None:
    write_plugin(pytester.path)
    pytester.makepyfile(early="import fakeframework", test_own="def test_x(): pass")
    result = run("-p", "early", "--unidev-simulate", "2", "--unidev-simulate-as", "cuda")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--unidev-simulate-as: too late: import unidev before fakeframework" in (
        result.stderr.str()
    )


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


@pytest.mark.parametrize("file", ["conftest", "test_other"])
@pytest.mark.parametrize(
    "line", ["import unidev; unidev.simulate(3)", "import os; os.environ['UNIDEV_SIMULATE'] = '3'"]
)
def test_a_number_that_a_file_of_the_tests_changes_is_refused(pytester, run, file, line) -> None:
    pytester.makepyfile(**{file: line, "test_own": "def test_x(): pass"})
    result = run("--unidev-simulate", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--unidev-simulate is 2, but UNIDEV_SIMULATE has become 3 since" in said(result)
    run("--unidev-simulate", "3").assert_outcomes(passed=1)


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


@pytest.mark.parametrize(
    ("named", "has_suite", "is_refused"),
    [
        ("unidev.conformance", True, True),
        ("unidev.conformance.checks.tensor::test_zero_d", False, True),
        ("unidev-conformance", True, True),
        ("unidev/conformance/checks", True, True),
        ("unidev_conformance", False, True),
        ("unidev_conformance", True, True),
        ("unidev_conformance_of_mine", False, False),
    ],
)
def test_the_suites_former_name_and_what_is_missing_are_one_line(
    pytester, run, named, has_suite, is_refused
) -> None:
    suite = "" if has_suite else "import sys; sys.modules['unidev_conformance'] = None"
    pytester.makepyfile(as_installed=suite, unidev_conformance="", unidev_conformance_of_mine="")
    result = run("-p", "as_installed", "--pyargs", named, "--unidev-profile", "train")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.errlines if line]
    install = " after `pip install ./plugins/unidev-conformance` in unidev's repository"
    expected = (
        "ERROR: the conformance suite is the distribution unidev-conformance: run `pytest "
        f"--pyargs unidev_conformance --unidev-backend NAME`{'' if has_suite else install}"
    )
    if named == "unidev_conformance" and has_suite:
        expected = (
            "ERROR: the conformance suite needs its plugin: add `-p "
            "unidev_conformance.pytest_plugin`"
        )
    assert (lines == [expected]) == is_refused
    assert ("unrecognized arguments: --unidev-profile" in said(result)) != is_refused


def test_the_entry_point_has_the_name_of_its_module() -> None:
    """Else `-p unidev_pytest` where it is installed would register it a second time."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    entries = project.partition("[project.entry-points.pytest11]\n")[2].partition("\n\n")[0]
    assert entries.startswith('unidev_pytest = "unidev_pytest"')
    assert "\n" not in entries


def test_the_limits_are_those_of_unidev() -> None:
    """The plugin has them a second time, since it imports nothing of unidev."""
    from unidev_pytest import devices

    assert (devices._VARIABLE, devices._MOST) == (SIMULATE, MOST_SIMULATED)
    assert sys.modules["unidev"] is unidev
