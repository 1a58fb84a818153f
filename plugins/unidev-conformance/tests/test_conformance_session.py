"""What one run of the checks makes of how they end, and of what its author expects."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from unidev_conformance.events import End, EventReader, Finish, Problem, Refused
from unidev_conformance.judging.check import Check
from unidev_conformance.judging.expectations import Expectation
from unidev_conformance.judging.outcomes import (
    InconclusiveError,
    NotApplicableError,
    NotSupportedError,
    outcome_of,
)
from unidev_conformance.running.catalog import all_checks

if TYPE_CHECKING:
    from unidev_conformance.events import Event

REQUIRED = Check("copy.one", "It proves.", "tensor", True, ())
NEEDING = Check("copy.two", "It proves.", "tensor", True, ("probe.write",))
OPTIONAL = Check("copy.three", "It proves.", "tensor", False, ())
EXPECTED = Expectation(
    check="copy.three", condition="always", reason="it is so", link="https://example.org",
    expires=datetime.date(2030, 1, 1),
)  # fmt: skip


@pytest.mark.parametrize(
    ("check", "error", "when", "expected", "result"),
    [
        (REQUIRED, None, "call", None, "pass"),
        (REQUIRED, AssertionError("1 is not 2"), "call", None, "fail"),
        (REQUIRED, AssertionError("in a fixture"), "setup", None, "error"),
        (REQUIRED, RuntimeError("framework"), "call", None, "error"),
        (REQUIRED, InconclusiveError("null address"), "call", None, "error"),
        (REQUIRED, NotApplicableError("one device"), "call", None, "not-applicable"),
        (REQUIRED, NotSupportedError("no autograd"), "call", None, "fail"),
        (NEEDING, NotSupportedError("immutable"), "call", None, "unsupported"),
        (OPTIONAL, NotSupportedError("none"), "call", None, "unsupported"),
        (OPTIONAL, AssertionError("known"), "call", EXPECTED, "xfail"),
        (OPTIONAL, RuntimeError("known"), "call", EXPECTED, "xfail"),
        (OPTIONAL, None, "call", EXPECTED, "xpass"),
        (OPTIONAL, NotApplicableError("one device"), "call", EXPECTED, "not-applicable"),
    ],
)
def test_each_ending_has_its_verdict(check, error, when, expected, result) -> None:
    verdict = outcome_of(check, error, when, expected)
    assert verdict.result == result
    assert bool(verdict.message) is (result != "pass")


def test_every_check_has_an_id_of_its_own_and_a_summary() -> None:
    checks = all_checks()
    assert len({each.id for each in checks}) == len(checks) > 70
    assert [each.id for each in checks if not each.summary.endswith(".")] == []
    assert checks[0].id == "smoke.probe_calibrated"


PLUGIN = """
    from unidev import BackendSpec, hookimpl
    from unidev.backends.numpy_backend import NumpySimulator

    def load():
        from author.backend import AuthorBackend

        return AuthorBackend

    @hookimpl
    def unidev_register_backend():
        return BackendSpec(
            name="author", contract_version=3, framework="numpy", install="pip install numpy",
            load=load, simulator=NumpySimulator, namespaces=("unidev",),
        )
"""
BACKEND = """
    from unidev.backends.numpy_backend.backend import NumpyBackend

    class AuthorBackend(NumpyBackend):
        def to_numpy(self, x):
            if x.shape == ():
                raise ValueError("no zero-d arrays today")
            return super().to_numpy(x)
"""
KNOWN = """
    [[expected]]
    check = "{check}"
    condition = "{condition}"
    reason = "no zero-d arrays today"
    link = "https://example.org/1"
    expires = {expires}
"""


@pytest.fixture
def author(tmp_path: Path) -> Path:
    """A backend of somebody's, of which one optional check fails, ``create.zero_d``."""
    package = tmp_path / "author"
    package.mkdir()
    (package / "__init__.py").write_text(textwrap.dedent(PLUGIN))
    (package / "backend.py").write_text(textwrap.dedent(BACKEND))
    return package


def run(
    folder: Path, only: str, *, backend: str = "author", python: tuple[str, ...] = ()
) -> tuple[int, list[Event]]:
    events = folder / "events.jsonl"
    done = subprocess.run(
        [
            sys.executable, *python, "-m", "pytest", "-q", "-p", "no:cacheprovider",
            "--rootdir", str(folder), "--pyargs", "unidev_conformance", "--unidev-backend", backend,
            "--unidev-only", only, "--unidev-events", str(events),
        ],
        cwd=folder, check=False, timeout=300, capture_output=True,
        env={
            **os.environ, "UNIDEV_PLUGINS": "author", "UNIDEV_DISABLED_PLUGINS": "numpy",
            "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
        },
    )  # fmt: skip
    return done.returncode, EventReader(events).read()


def result_of(events: list[Event], check: str) -> str:
    return next(event.result for event in events if isinstance(event, End) and event.check == check)


def expect(author: Path, **fields: str) -> None:
    given = {"check": "create.zero_d", "condition": "always", "expires": "2999-01-01", **fields}
    (author / "expectations.toml").write_text(textwrap.dedent(KNOWN.format(**given)))


def test_a_failure_that_nobody_expects_fails_the_run(author: Path) -> None:
    code, events = run(author.parent, "create.zero_d,create.zero_size")
    assert code == 1
    assert result_of(events, "create.zero_d") == "error"
    assert result_of(events, "create.zero_size") == "pass"
    assert isinstance(events[-1], Finish)


def test_a_failure_that_is_expected_does_not_fail_the_run(author: Path) -> None:
    expect(author, condition="hardware and python_version >= 3.10")
    code, events = run(author.parent, "create.zero_d")
    assert (code, result_of(events, "create.zero_d")) == (0, "xfail")


def test_an_expectation_of_another_configuration_does_not_count(author: Path) -> None:
    expect(author, condition="simulated")
    code, events = run(author.parent, "create.zero_d")
    assert (code, result_of(events, "create.zero_d")) == (1, "error")


def test_a_check_that_passes_against_expectation_fails_the_run(author: Path) -> None:
    expect(author, check="create.zero_size")
    code, events = run(author.parent, "create.zero_size")
    assert (code, result_of(events, "create.zero_size")) == (1, "xpass")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"expires": "2020-01-01"}, "expired on 2020-01-01"),
        ({"check": "create.nothing"}, "is not a check"),
        ({"check": "copy.zero_d"}, "which the profile requires"),
        ({"condition": "on tuesdays"}, "on tuesdays"),
    ],
)
def test_a_wrong_expectation_fails_a_run_in_which_all_passes(author: Path, fields, said) -> None:
    expect(author, **fields)
    code, events = run(author.parent, "create.zero_size,copy.zero_size")
    problems = [event.message for event in events if isinstance(event, Problem)]
    assert code == 1
    assert len(problems) == 1
    assert said in problems[0]
    assert result_of(events, "create.zero_size") == "pass"


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"backend": "nobody"}, "backend"),
        ({"only": "copy.nothing"}, "usage"),
        ({"python": ("-O",)}, "usage"),
    ],
)
def test_a_run_that_cannot_begin_says_so(author: Path, options, refusal) -> None:
    code, events = run(author.parent, **{"only": "copy.zero_d", **options})
    assert code == 4
    assert [type(event) for event in events] == [Refused]
    assert events[0].refusal == refusal


def test_an_authors_own_settings_neither_fail_checks_nor_get_litter(author: Path) -> None:
    settings = "[pytest]\naddopts = --doctest-modules\nfilterwarnings = error\n"
    (author.parent / "pytest.ini").write_text(settings)
    code, _ = run(author.parent, "containers.dict_list_tuple,copy.values_bit_exact")
    assert code == 0
    left = {path.name for path in author.parent.iterdir()}
    assert left <= {"author", "pytest.ini", "events.jsonl", "__pycache__"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--pyargs", "unidev_conformance"], 4, "judges one backend: pass --unidev-backend NAME"),
        (
            ["--pyargs", "unidev_conformance", "test_own.py", "--unidev-backend", "numpy"],
            4,
            "the conformance suite runs alone: run `pytest test_own.py` separately",
        ),
        (
            ["-p", "no:unidev_pytest", "--pyargs", "unidev_conformance"],
            4,
            "the suite needs unidev's plugin for pytest: add `-p unidev_pytest`",
        ),
        (
            ["-n", "2", "--pyargs", "unidev_conformance", "--unidev-backend", "numpy"],
            4,
            "the conformance suite runs in one process: add `-n 0`",
        ),
        (["-p", "unidev_conformance.pytest_plugin"], 0, "1 passed"),  # not registered twice
    ],
)
def test_the_suite_is_passed_by_unless_it_is_named_alone_with_a_backend(
    tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    done = subprocess.run(
        command, cwd=tmp_path, check=False, timeout=300, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout
    assert said in done.stdout + done.stderr


CALLER = """\
import unidev
from unidev_conformance.kit.verbs import verbs
from unidev_conformance.kit.workbench import Workbench

bench = Workbench(unidev.active_backend(), print)
verbs(bench, unidev.cpu(), unidev.gpu(0))["copy_to"]()
"""


@pytest.mark.parametrize("is_judging", [False, True])
def test_a_trace_passes_over_the_suite_while_it_judges(tmp_path: Path, is_judging: bool) -> None:
    (tmp_path / "caller.py").write_text(CALLER)
    words = ["-m", "pytest", "-p", "no:cacheprovider", "--pyargs", "unidev_conformance"]
    words += ["--unidev-backend", "numpy", "--unidev-only", "copy.zero_d"]
    words = words if is_judging else ["caller.py"]
    subprocess.run(
        [sys.executable, "-m", "unidev", "trace", "--json", "trace.json", *words], cwd=tmp_path,
        env={**os.environ, "UNIDEV_SIMULATE": "1", "UNIDEV_BACKEND": "numpy"}, check=True,
    )  # fmt: skip
    lines = json.loads((tmp_path / "trace.json").read_text())["lines"]
    files = {Path(each["line"]["file"]).parent.name for each in lines}
    assert files
    assert ({"kit", "tensor"} & files == set()) == is_judging
