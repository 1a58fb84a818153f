from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from unidev.backends import discovery as plugins
from unidev.backends import numpy_backend as numpy_plugin
from unidev.contract.backend import unsupported
from unidev.system import child_processes
from unidev_conformance.judging.verdict import judge
from unidev_conformance.running import child
from unidev_conformance.running.runner import BackendMissingError, Plan, UsageError, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract import SimulatedGpus
    from unidev_conformance.judging.report import Report
    from unidev_conformance.running.configuration_run import Progress

    RunFake = Callable[..., Report]

FAKE = Path(__file__).with_name("fake_conformance_child.py")


def fake_command(order: child.Order, *, events: Path, **_places: Path) -> list[str]:
    only = ["--unidev-only", ",".join(order.only)] if order.only else []
    exclude = ["--unidev-exclude", ",".join(order.exclude)] if order.exclude else []
    return [sys.executable, str(FAKE), "--unidev-events", str(events), *only, *exclude]


@pytest.fixture
def run_fake(monkeypatch: pytest.MonkeyPatch) -> RunFake:
    monkeypatch.setattr(child, "command", fake_command)

    def go(checks: dict[str, str], *, timeout_s: float = 30, simulate: int = 0, **plan) -> Report:
        monkeypatch.setenv("FAKE_CHECKS", json.dumps(checks))
        seen: list[Progress] = []
        made = Plan(backend="numpy", command="here", simulate=simulate, timeout_s=timeout_s, **plan)
        return run(made, on_progress=seen.append, stop=child_processes.Interruption())

    return go


def results(report: Report) -> dict[str, str]:
    return {each.check: each.result for each in report.results}


def test_checks_that_all_pass_conform(run_fake) -> None:
    report = run_fake({"a.one": "pass", "a.two": "pass"}, simulate=2)
    assert [each.name for each in report.header.configurations] == ["host", "simulate-2"]
    assert len(report.results) == 4
    assert judge(report).exit_code == 0


def test_by_default_the_host_one_and_four_devices_are_judged(run_fake) -> None:
    report = run_fake({"a.one": "pass"}, simulate=None)
    names = [each.name for each in report.header.configurations]
    assert names == ["host", "simulate-1", "simulate-4"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("segv", "killed by SIGSEGV"),
        ("abort", "killed by SIGABRT"),
        ("exit", "exit code 7"),
        ("half a line", "exit code 1"),
    ],
)
def test_a_check_that_ends_the_process_is_a_crash_and_the_rest_goes_on(run_fake, how, said) -> None:
    report = run_fake({"a.one": how, "a.two": "pass", "b.one": how, "b.two": "pass"})
    assert results(report) == {"a.one": "crash", "a.two": "pass", "b.one": "crash", "b.two": "pass"}
    assert said in report.results[0].message
    assert judge(report).exit_code == 3


def test_a_crash_shows_the_last_words_without_control_characters(run_fake) -> None:
    message = run_fake({"a.one": "exit"}).results[0].message
    assert "red" in message
    assert "last words" in message
    assert "\x1b" not in message


@pytest.mark.slow
def test_a_check_that_goes_on_may_take_longer_than_the_time_limit(run_fake) -> None:
    report = run_fake({"a.one": "works for 12", "a.two": "pass"}, timeout_s=8)
    assert results(report) == {"a.one": "pass", "a.two": "pass"}


@pytest.mark.slow
def test_a_check_that_hangs_is_a_timeout_and_says_where(run_fake) -> None:
    report = run_fake({"a.one": "hang", "a.two": "pass"}, timeout_s=8)
    assert results(report) == {"a.one": "timeout", "a.two": "pass"}
    assert "no sign of life for 8 s" in report.results[0].message
    assert "in misbehave" in report.results[0].message
    assert judge(report).exit_code == 3


def test_what_failed_has_failed_whatever_else_crashed(run_fake) -> None:
    report = run_fake({"a.one": "fail", "a.two": "segv"})
    assert judge(report).exit_code == 1
    assert len(judge(report).reasons) == 2


@pytest.mark.parametrize(("how", "exit_code"), [("fail", 1), ("segv", 3)])
def test_fail_fast_ends_at_the_first_failure_and_says_so(run_fake, how, exit_code) -> None:
    checks = {"a.one": "pass", "a.two": how, "b.one": "hang"}  # which would take the whole limit
    report = run_fake(checks, simulate=2, fail_fast=True)
    ended = {"fail": "fail", "segv": "crash"}[how]
    host = [each.result for each in report.results if each.configuration == "host"]
    assert host == ["pass", ended, "not-run"]
    assert [each.result for each in report.results[3:]] == ["not-run"] * 3
    assert "--fail-fast" in report.results[-1].message
    assert judge(report).exit_code == exit_code


def test_fail_fast_changes_nothing_for_what_passes(run_fake) -> None:
    report = run_fake({"a.one": "pass", "a.two": "pass"}, simulate=2, fail_fast=True)
    assert [each.result for each in report.results] == ["pass"] * 4


@pytest.mark.parametrize("how", ["segv", "exit", "half a line"])
def test_a_child_that_dies_at_the_start_leaves_no_verdict(run_fake, monkeypatch, how) -> None:
    monkeypatch.setenv("FAKE_START", how)
    report = run_fake({"a.one": "pass"})
    assert report.results == ()
    assert "before the first check" in report.header.configurations[0].interruptions[0]
    assert judge(report).exit_code == 3


def test_a_child_that_hangs_at_the_start_is_ended(run_fake, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_START", "hang")
    report = run_fake({"a.one": "pass"}, timeout_s=1)
    assert "no sign of life" in report.header.configurations[0].interruptions[0]


def test_a_child_that_dies_between_checks_leaves_the_rest_not_run(run_fake) -> None:
    report = run_fake({"a.one": "pass", "a.two": "before:exit", "a.three": "pass"})
    assert results(report) == {"a.one": "pass", "a.two": "not-run", "a.three": "not-run"}
    assert "between two checks" in report.results[1].message
    assert judge(report).exit_code == 3


def test_what_a_child_says_while_it_loads_is_passed_on(monkeypatch) -> None:
    line = "unidev: building the simulator: 4 s"
    says = f"import sys, time; print({line!r}, file=sys.stderr, flush=True); time.sleep(1)"
    monkeypatch.setattr(child, "command", lambda *_a, **_k: [sys.executable, "-c", says])
    seen: list[Progress] = []
    plan = Plan(backend="numpy", command="here", simulate=0)
    run(plan, on_progress=seen.append, stop=child_processes.Interruption())
    assert "building the simulator: 4 s" in [each.loading for each in seen]


def test_garbage_among_the_events_spoils_the_run_and_not_the_results(run_fake) -> None:
    report = run_fake({"a.one": "garbage", "a.two": "pass"})
    assert results(report) == {"a.one": "pass", "a.two": "pass"}
    assert len(report.header.configurations[0].problems) == 2
    assert judge(report).exit_code == 1


def test_a_problem_of_the_run_fails_it(run_fake) -> None:
    report = run_fake({"a.one": "problem", "a.two": "segv"})
    assert report.header.configurations[0].problems == ("an expectation has expired",)
    assert judge(report).exit_code == 1


@pytest.mark.slow
@pytest.mark.parametrize("how", ["segv", "hang"])
def test_dying_or_hanging_after_the_last_check_changes_no_verdict(
    run_fake, monkeypatch, how
) -> None:
    monkeypatch.setenv("FAKE_END", how)
    report = run_fake({"a.one": "pass"}, timeout_s=8)
    assert results(report) == {"a.one": "pass"}
    assert judge(report).exit_code == 0
    assert "ended badly after its last check" in " ".join(judge(report).limits)


@pytest.mark.parametrize(("ends", "code"), [("pass", 5), ("fail", 1)])
def test_what_was_drawn_is_no_judgement_unless_it_fails(run_fake, ends, code) -> None:
    report = run_fake({"a.one": "pass", "a.two": ends}, only=("a.two",), is_quick=True)
    assert judge(report).exit_code == code


def test_a_selection_that_passes_is_no_conformance(run_fake) -> None:
    report = run_fake({"a.one": "fail", "a.two": "pass"}, only=("a.two",))
    assert results(report) == {"a.two": "pass"}
    assert judge(report).name == "selection-passes"


def test_each_result_says_how_to_run_it_again(run_fake, monkeypatch) -> None:
    monkeypatch.setenv("UNIDEV_PLUGINS", "some.module:Plugin")
    report = run_fake({"a.one": "pass"}, simulate=3)
    assert report.results[1].reproduce == (
        "UNIDEV_PLUGINS=some.module:Plugin python -m unidev conform numpy --only a.one --simulate 3"
    )


def test_a_backend_without_a_simulator_is_judged_on_the_host_alone(run_fake, monkeypatch) -> None:
    spec = numpy_plugin.unidev_register_backend()
    spec = dataclasses.replace(spec, simulator=unsupported("it has none"))
    monkeypatch.setattr(plugins, "backend_spec", lambda _name: spec)
    report = run_fake({"a.one": "pass"}, simulate=4)
    assert [each.name for each in report.header.configurations] == ["host"]
    assert "no simulator (it has none)" in judge(report).limits[0]
    assert judge(report).exit_code == 0


def test_a_simulator_of_few_gpus_is_judged_with_as_many_as_it_has(run_fake, monkeypatch) -> None:
    class OfTwo(numpy_plugin.NumpySimulator):
        def refusal(self, gpus: SimulatedGpus) -> str | None:
            return "there are two" if gpus.count > 2 else None

    spec = dataclasses.replace(numpy_plugin.unidev_register_backend(), simulator=OfTwo)
    monkeypatch.setattr(plugins, "backend_spec", lambda _name: spec)
    report = run_fake({"a.one": "pass"}, simulate=None)
    names = [each.name for each in report.header.configurations]
    assert names == ["host", "simulate-1", "simulate-2"]


@pytest.mark.parametrize(
    ("refusal", "error"), [("backend", BackendMissingError), ("usage", UsageError)]
)
def test_a_refusal_of_the_child_is_an_error_of_its_kind(
    run_fake, monkeypatch, refusal, error
) -> None:
    monkeypatch.setenv("FAKE_START", f"refuse:{refusal}")
    with pytest.raises(error, match="no such thing"):
        run_fake({"a.one": "pass"})


def test_devices_that_cannot_be_simulated_leave_no_verdict(run_fake, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_START", "refuse:simulator")
    report = run_fake({"a.one": "pass"})
    assert "no simulated devices available: no such thing" in judge(report).reasons[0]
    assert judge(report).exit_code == 3


def test_a_backend_that_is_not_there_is_missing() -> None:
    with pytest.raises(BackendMissingError, match="there is no backend"):
        run(
            Plan(backend="nope", command=""), on_progress=print, stop=child_processes.Interruption()
        )


def test_the_environment_of_a_child_is_neutral(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    given = {
        "PYTEST_ADDOPTS": "-k x", "PYTEST_PLUGINS": "evil", "PYTHONOPTIMIZE": "2",
        "UNIDEV_BACKEND": "torch", "UNIDEV_SIMULATE": "9", "PYTHONPATH": "rel", "HOME": "/home",
    }  # fmt: skip
    kept = child.environment(2, given, tmp_path)
    assert {name for name in kept if name.startswith(("PYTEST_", "UNIDEV_"))} == {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
        "UNIDEV_SIMULATE",
    }
    assert kept["UNIDEV_SIMULATE"] == "2"
    assert "PYTHONOPTIMIZE" not in kept
    assert kept["HOME"] == "/home"
    assert kept["HYPOTHESIS_STORAGE_DIRECTORY"] == str(tmp_path / "notes")
    assert kept["PYTHONPATH"] == "rel"  # made absolute as the child starts


@pytest.mark.parametrize("chosen", [None, "0.3"])
def test_children_share_a_gpu_as_the_backend_says_or_the_user(
    chosen: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Started(Exception):
        pass

    def start(*_: object, environment: dict[str, str], **_logs: object) -> None:
        raise Started(environment.get("FRAMEWORK_FRACTION"))

    spec = dataclasses.replace(
        numpy_plugin.unidev_register_backend(), sharing={"FRAMEWORK_FRACTION": "0.1"}
    )
    monkeypatch.setattr(plugins, "backend_spec", lambda _name: spec)
    monkeypatch.setattr(child_processes, "ChildProcess", start)
    if chosen:
        monkeypatch.setenv("FRAMEWORK_FRACTION", chosen)
    order = child.Order(backend="numpy", profile="tensor", simulated=0)
    with pytest.raises(Started, match=(chosen or "0.1")):
        child.Child(order, tmp_path)


@pytest.mark.parametrize(("has_finished", "is_late"), [(True, True), (False, False)])
def test_a_child_whose_checks_are_done_is_not_waited_for_as_a_check_is(
    has_finished: bool, is_late: bool
) -> None:
    waiting: Any = object.__new__(child.Child)
    waiting._timeout_s = 10 * child.EXIT_LIMIT_S
    waiting._has_begun, waiting._has_finished = True, has_finished
    waiting._heard = time.monotonic() - 2 * child.EXIT_LIMIT_S
    assert waiting._is_late() is is_late


def test_specs_can_be_told_apart_as_keys() -> None:
    spec = numpy_plugin.unidev_register_backend()
    assert hash(spec) == hash(dataclasses.replace(spec, sharing={"A": "1"}))
    assert child.sharing("there is no such backend") == {}


PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
from test_conformance_runner import fake_command
from unidev_conformance.running import child
child.command = fake_command
from unidev.cli import main
main(["conform", "numpy", "--only", "smoke.probe_calibrated", "--report", "report.json"])
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_leaves_no_process_behind_and_a_report(tmp_path, number, code) -> None:
    pids = tmp_path / "pids"
    environment = {
        **os.environ,
        "FAKE_CHECKS": json.dumps({"smoke.probe_calibrated": "hang"}),
        "FAKE_PIDS": str(pids),
    }
    program = PROGRAM.format(tests=str(FAKE.parent))
    parent = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, stdout=subprocess.PIPE
    )
    wait_for(pids.exists)
    os.kill(parent.pid, number)
    out, _ = parent.communicate(timeout=300)
    assert parent.returncode == code
    assert b"interrupted" in out
    for pid in map(int, pids.read_text().split()):
        wait_for(lambda pid=pid: not is_alive(pid))
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["footer"]["verdict"] == "incomplete"


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE  # init may not have reaped it
    except psutil.NoSuchProcess:
        return False
