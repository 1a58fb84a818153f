"""Other people's suites: how their JUnit files are counted, and what the tool refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from programs_of_others.counting import judge, read_junit
from programs_of_others.environment import Environment
from programs_of_others.results import Results
from programs_of_others.running import Refusal, Run, run_in_group
from programs_of_others.suites import Reason, Suite, read_suites

TOOL = Path(__file__).parents[2] / "tools" / "programs_of_others"
SUITE = Suite(
    "some", "some tests", (), ("tests",),
    failing=(Reason("*test_far*", "network", "asks a server"), Reason("*test_odd*", "limit", "x")),
)  # fmt: skip


def _run(folder: Path, name: str, *, exit_code: int = 1, **kinds: str) -> Run:
    """A run whose file has a test of each name, with the element of its kind."""
    cases = "".join(
        f'<testcase classname="m" name="{test}">'
        + (f'<{kind.partition(":")[0]} message="{kind.partition(":")[2]}"/>' if kind else "")
        + "</testcase>"
        for test, kind in kinds.items()
    )
    path = folder / f"{name}.xml"
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return Run(exit_code, path, folder / f"{name}.log")


def test_a_run_with_reasons_for_its_failures_is_good(tmp_path: Path) -> None:
    found = _run(tmp_path, "with", test_a="", test_b="", test_far="failure:x", test_odd="error:x")
    without = _run(
        tmp_path, "without", test_a="", test_b="skipped", test_far="", test_odd="skipped"
    )
    verdict = judge(SUITE, found, without)
    assert verdict.is_good, verdict.complaints
    assert (verdict.with_gpus.passed, verdict.without.passed, verdict.without.skipped) == (2, 2, 2)
    assert verdict.share == pytest.approx(2 / 3)  # what needs the network does not count


@pytest.mark.parametrize(
    ("exit_code", "kinds", "complaint"),
    [
        (0, {"test_a": ""}, "collected 1 tests, 2 without simulation"),
        (-signal.SIGSEGV, {"test_a": "", "test_b": ""}, "ended by SIGSEGV"),
        (128 + signal.SIGABRT, {"test_a": "", "test_b": ""}, "ended by SIGABRT"),
        (1, {"test_a": "", "test_b": "failure:no"}, "test_b: no reason"),
        (1, {"test_a": "", "test_odd": "failure:exit code: -11"}, "test_odd: a process ended"),
        (0, {"test_a": "", "test_b": "", "test_odd": "failure:died with SIGSEGV"}, "by a signal"),
        (1, {"test_a": "", "test_odd": "failure:Expected exit code 0 but got -6"}, "by a signal"),
        (0, {}, "collected no tests"),
    ],
)
def test_what_makes_a_run_bad(
    exit_code: int, kinds: dict[str, str], complaint: str, tmp_path: Path
) -> None:
    without = _run(tmp_path, "without", exit_code=0, test_a="", test_b="skipped")
    verdict = judge(SUITE, _run(tmp_path, "with", exit_code=exit_code, **kinds), without)
    assert not verdict.is_good
    assert complaint in "\n".join(verdict.complaints)


@pytest.mark.parametrize("text", [None, "", "<testsuites><testsuite><testcase"])
def test_a_missing_or_cut_junit_file_is_a_failure(text: str | None, tmp_path: Path) -> None:
    lost = Run(0, tmp_path / "lost.xml", tmp_path / "lost.log")
    if text is not None:
        lost.junit.write_text(text)
    verdict = judge(SUITE, lost, _run(tmp_path, "without", test_a="skipped"))
    assert "left no JUnit file" in verdict.complaints[0]


def test_a_test_with_an_error_in_its_teardown_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "twice.xml"
    path.write_text(
        '<testsuites><testsuite><testcase classname="m" name="t"/>'
        '<testcase classname="m" name="t"><error message="e"/></testcase></testsuite></testsuites>'
    )
    counts = read_junit(path)
    assert counts is not None
    assert (counts.passed, len(counts.failed), counts.collected) == (0, 1, 1)


def test_results_become_a_table(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    found = _run(tmp_path, "with", test_a="", test_far="failure:x")
    verdict = judge(SUITE, found, _run(tmp_path, "without", test_a="", test_far="skipped"))
    results.keep(SUITE, verdict, {"torch": "2.13.0"})
    table = results.as_markdown()
    assert "| 1 | 1 | 0 | 1 passed, 0 failed, 1 skipped | 100 |" in table
    assert "- some, 1 failed, network: asks a server" in table


def test_skips_are_counted_by_their_message(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    skipped = {
        "test_a": "skipped:requires XPU", "test_b": "skipped:requires NPU",
        "test_c": "skipped:requires\n XPU", "test_d": "",
    }  # fmt: skip
    found = _run(tmp_path, "with", exit_code=0, **skipped)
    verdict = judge(SUITE, found, _run(tmp_path, "without", exit_code=0, **skipped))
    results.keep(SUITE, verdict, {"torch": "2.13.0"})
    expected = "- some, 3 skipped, in its words: requires XPU (2); requires NPU (1)\n"
    assert expected in results.as_markdown() + "\n"


def test_each_reason_in_the_list_says_whose_and_why() -> None:
    suites = read_suites(TOOL / "suites.toml")
    reasons = [each for suite in suites.values() for each in suite.left_out + suite.failing]
    assert reasons
    assert all(each.why and each.tests != "*" for each in reasons)


def test_a_suite_like_another_takes_its_environment_and_none_of_its_reasons(tmp_path: Path) -> None:
    path = tmp_path / "suites.toml"
    path.write_text(
        '[one]\nabout = "1"\nrequires = ["a"]\ntests = ["t"]\n'
        'failing = [{ tests = "t", whose = "limit", why = "w" }]\n'
        '[two]\nlike = "one"\nabout = "2"\n'
        '[three]\nlike = "two"\nabout = "3"\ntests = ["u"]\n'
    )
    suites = read_suites(path)
    assert [(each.requires, each.tests, each.like) for each in suites.values()] == [
        (("a",), ("t",), ""), (("a",), ("t",), "one"), (("a",), ("u",), "one"),
    ]  # fmt: skip
    assert [len(each.failing) for each in suites.values()] == [1, 0, 0]
    commands = [Environment(each, tmp_path, None).command for each in suites.values()]
    assert len({command(simulated=False)[0] for command in commands}) == 1


IN_ONE_PROCESS = """
import os
import pytest

os.environ["SEEN"] = os.environ.get("SEEN", "") + "x"


def test_passes():
    assert os.environ["SEEN"] == "xx"  # its process was started by another


@pytest.mark.skipif(True, reason="by a mark")
def test_is_skipped():
    assert False


def test_skips():
    pytest.skip("inside")


@pytest.mark.parametrize("value", [1])
def test_fails(value):
    assert value == 2


def test_dies():
    os.abort()
"""


@pytest.mark.skipif(os.name == "nt", reason="groups of processes")
def test_each_test_can_have_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(IN_ONE_PROCESS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    junit = tmp_path / "counts.xml"
    variables = {**os.environ, "PYTHONPATH": str(TOOL.parent)}
    variables.pop("SEEN", None)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "programs_of_others.alone", "-q",
         "--junitxml", str(junit), str(tmp_path)],
        cwd=tmp_path, env=variables, capture_output=True, timeout=300,
    )  # fmt: skip
    counts = read_junit(junit)
    assert counts is not None
    assert (counts.passed, counts.skips) == (1, ("by a mark", "inside"))
    (fails, why), (dies, how) = counts.failed
    assert fails.endswith("test_fails[1]")
    assert "assert 1 == 2" in why
    assert dies.endswith("test_dies")
    assert "exit code -6" in how


def test_wrong_words_are_refused(tmp_path: Path) -> None:
    suite = Suite("some", "", (), ("tests",), checkout="tests", checkout_of="some/project")
    empty = tmp_path / "empty"
    empty.mkdir()
    other = tmp_path / "other"
    (other / "docs").mkdir(parents=True)
    for checkout, words in (
        (None, "--checkout FOLDER"), (empty, "is empty"), (other, "has no tests"),
        (tmp_path / "nowhere", "is not a folder"),
    ):  # fmt: skip
        with pytest.raises(Refusal, match=words):
            Environment(suite, tmp_path, checkout)
    done = subprocess.run([sys.executable, TOOL, "nothing"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "invalid choice: 'nothing'" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="groups of processes")
def test_a_group_ends_with_its_leader(tmp_path: Path) -> None:
    number = tmp_path / "number"
    script = f"sleep 60 & echo $! > {number}"
    assert run_in_group(["sh", "-c", script], log=tmp_path / "log", about="a test", limit=30) == 0
    child = int(number.read_text())
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and _is_alive(child):
        time.sleep(0.05)
    assert not _is_alive(child)


def _is_alive(number: int) -> bool:
    # One that has ended stays a zombie where nothing waits for it, as in a container.
    stat = Path(f"/proc/{number}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
