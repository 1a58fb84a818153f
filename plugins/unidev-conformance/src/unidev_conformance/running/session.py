"""One run of the checks in one configuration: how pytest is controlled, and what it reports."""

from __future__ import annotations

import datetime
import gc
import os
import tempfile
import time
import traceback
import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from unidev.backends.versions import framework_version
from unidev.contract.optional import Unsupported
from unidev.tracing.call_site import passing_over
from unidev_conformance import HARDWARE
from unidev_conformance.events import (
    Alive,
    End,
    Event,
    EventWriter,
    Finish,
    Problem,
    Refused,
    Start,
)
from unidev_conformance.judging.expectations import (
    Configuration,
    ExpectationError,
    expected_failures,
    load_expectations,
    problems_of,
)
from unidev_conformance.judging.outcomes import Outcome, outcome_of
from unidev_conformance.kit.current import check_unchanged, defaults
from unidev_conformance.kit.differences import of_assertion
from unidev_conformance.kit.subject import Refusal, described, load_subject
from unidev_conformance.kit.workbench import Workbench, need_probe
from unidev_conformance.running.catalog import GROUPS, PROFILES, all_checks, check_of, every_check

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from unidev.contract.backend import Backend
    from unidev_conformance.judging.check import Check
    from unidev_conformance.judging.expectations import Expectation

_NOTES = "HYPOTHESIS_STORAGE_DIRECTORY"

_LIFE_S = 1.0
"""The least time between two signs of life, which are files' lines."""
_BENCH = pytest.StashKey[Workbench]()
_OUTCOME = pytest.StashKey[Outcome]()
_MOST_PRINTED = 10
_LETTERS = {"unsupported": "u", "not-applicable": "n", "xfail": "x", "xpass": "X"}
"""Results that pytest has no word for."""


class ConformanceSession:
    """The plugin that is registered when a backend is named."""

    backend: Backend

    def __init__(self, config: pytest.Config) -> None:
        path = config.getoption("unidev_events")
        self._writer = EventWriter(path) if path else None
        self._profile: str = config.getoption("unidev_profile")
        self._only = _ids(config.getoption("unidev_only"))
        self._exclude = _ids(config.getoption("unidev_exclude"))
        self._expected: dict[str, Expectation] = {}
        self._problems: list[str] = []
        self._outcomes: dict[str, Outcome] = {}
        self._name: str = config.getoption("unidev_backend")
        self._scope = ExitStack()
        config.add_cleanup(self._scope.close)
        self._scope.enter_context(passing_over("unidev_conformance"))
        self._shown_life_at = 0.0
        if _NOTES not in os.environ:  # Hypothesis would write to the current folder: the author's
            notes = tempfile.TemporaryDirectory(prefix="unidev-conformance-")
            os.environ[_NOTES] = self._scope.enter_context(notes)

    # -- before the checks ------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Load the backend, or refuse."""
        if not __debug__:
            self._refuse("usage", "the checks are assertions: run Python without -O")
        if self._profile not in PROFILES:
            self._refuse(
                "usage", f"there is no profile {self._profile!r}; there are: {', '.join(PROFILES)}"
            )
        try:
            with warnings.catch_warnings():
                # Warnings of a framework's import are not under judgement.
                warnings.simplefilter("default")
                self.backend = load_subject(self._name)
                need_probe(self.backend)
        except Refusal as refusal:
            self._refuse(refusal.kind, str(refusal))

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out files of checks none of which is requested: there may be many such runs."""
        wanted = {check.partition(".")[0] for check in self._only}
        unwanted = {f"test_{group}.py" for group in GROUPS if group not in wanted}
        return True if wanted and collection_path.name in unwanted else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Sort the checks, leave out those not requested, and report what is judged."""
        catalogue = all_checks(self._profile)
        known = {each.id: each for each in catalogue}
        unknown = sorted((self._only | self._exclude) - set(known))
        if unknown:
            self._refuse("usage", f"not checks of the profile: {', '.join(unknown)}")
        kept: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        for item in items:
            each = _check(item)
            # Other profiles' checks; a function that is not a check is another project's test.
            is_ours = each is not None and each.id in known and self._is_asked(each.id)
            (kept if is_ours else left_out).append(item)
        order = list(known)
        kept.sort(key=lambda item: order.index(_id(item)))
        for item in kept:
            # Last, so it precedes any ini file: a framework's warnings fail no check.
            item.add_marker(pytest.mark.filterwarnings("default"))
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
        self._begin(catalogue)
        # A framework's import leaves up to 400,000 objects, and checks of memory collect garbage
        # hundreds of times: that took most of a run's time. What checks make is collected as ever.
        gc.freeze()

    def _is_asked(self, check: str) -> bool:
        return check not in self._exclude and (not self._only or check in self._only)

    def _begin(self, catalogue: list[Check]) -> None:
        backend, today = self.backend, datetime.datetime.now(tz=datetime.timezone.utc).date()
        self._send(described(backend, self._profile, catalogue))
        checks = {each.id: each for each in catalogue}
        here = Configuration(backend.simulated_count, framework_version(backend))
        try:
            expectations = load_expectations(backend)
            # The file covers all profiles: a check of another one is not unknown.
            self._problems = problems_of(expectations, every_check(), today)
            self._expected = expected_failures(expectations, checks, today, here)
        except ExpectationError as error:
            self._problems = [str(error)]
        for problem in self._problems:
            self._send(Problem(message=problem))

    def _refuse(self, kind: str, message: str) -> None:
        self._send(Refused(refusal=kind, message=message))
        raise pytest.UsageError(message)

    # -- a check ----------------------------------------------------------------------------------

    @pytest.fixture
    def bench(self, request: pytest.FixtureRequest) -> Workbench:
        """The check's ``Workbench``, new for each check."""
        made = Workbench(self.backend, self._show_life)
        request.node.stash[_BENCH] = made
        return made

    def _show_life(self) -> None:
        now = time.monotonic()
        if now - self._shown_life_at >= _LIFE_S:
            self._shown_life_at = now
            self._send(Alive())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Report that it begins, and how it ended."""
        self._send(Start(check=_id(item)))
        began = time.perf_counter()
        result = yield
        outcome = item.stash.get(_OUTCOME, Outcome("error", "pytest ended it without a result"))
        bench = item.stash.get(_BENCH, None)
        self._send(
            End(
                check=_id(item),
                result=outcome.result,
                seconds=round(time.perf_counter() - began, 4),
                message=outcome.message,
                evidence=bench.evidence.as_dict() if bench else {},
                devices=bench.evidence.devices if bench else (),
            )
        )
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
        """Before a check, whether the backend declines what it needs; after it, the defaults."""
        each, bench = _check(pyfuncitem), pyfuncitem.stash.get(_BENCH, None)
        if each is None or bench is None:
            return (yield)
        for ability in each.needs:
            bench.require(ability)
        if isinstance(bench.probe, Unsupported) or each.profile == HARDWARE:
            return (yield)
        before = defaults(bench)
        result = yield
        check_unchanged(bench, before, f"{each.id}, which passes otherwise,")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Make pytest's report agree with the suite's outcome."""
        report = yield
        before = item.stash.get(_OUTCOME, None)
        if call.when != "call" and call.excinfo is None:
            return report
        each = _check(item)
        assert each is not None  # nothing else was kept
        error = call.excinfo.value if call.excinfo else None
        outcome = outcome_of(each, error, call.when, self._expected.get(each.id))
        outcome = _heard(_located(outcome, error, self.backend.spec.plugin), report.capstderr)
        if before is None or before.is_good:  # an error during teardown does not hide a failure
            item.stash[_OUTCOME] = outcome
        self._outcomes[report.nodeid] = item.stash[_OUTCOME]
        _adjust(report, outcome)
        return report

    # -- after the checks -------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(
        self, session: pytest.Session, exitstatus: int
    ) -> Generator[None, None, None]:
        """A problem with the expectations fails the run; a run that was cut short has no finish."""
        yield
        if self._problems and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        codes = pytest.ExitCode
        ended = (codes.OK, codes.TESTS_FAILED, codes.NO_TESTS_COLLECTED)
        if exitstatus in ended and not session.shouldstop:
            self._send(Finish())
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Count the suite's results by their names."""
        outcome = self._outcomes.get(report.nodeid)
        if outcome is None or outcome.result not in _LETTERS or report.when != "call":
            return None
        return outcome.result, _LETTERS[outcome.result], outcome.result.upper()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name problems, and results other than pass and failure: nothing is skipped silently."""
        for nodeid, outcome in self._outcomes.items():
            if outcome.result in _LETTERS:
                name = nodeid.rpartition("::")[2]
                terminalreporter.write_line(f"{outcome.result}: {name}: {outcome.message}")
        for problem in self._problems:
            terminalreporter.write_line(f"problem: {problem}", red=True)

    def _send(self, event: Event) -> None:
        if self._writer is not None:
            self._writer.write(event)


def _heard(outcome: Outcome, printed: str) -> Outcome:
    """The outcome; for a failure, with what the framework, or what it started, said of it."""
    lines = [line for line in printed.splitlines() if line.strip()][-_MOST_PRINTED:]
    if outcome.result not in ("fail", "error") or not lines:
        return outcome
    said = "\n".join(("it printed to stderr:", *lines))
    return Outcome(outcome.result, f"{outcome.message}\n{said}")


def _located(outcome: Outcome, error: BaseException | None, plugin: str) -> Outcome:
    """The outcome; for an error, with where it was raised, and the plugin's own line before that.

    For a comparison that fails, with both of its sides.
    """
    if outcome.result == "fail" and error is not None and (said := of_assertion(error)):
        return Outcome("fail", f"{outcome.message}\n{said}")
    if outcome.result != "error" or error is None or error.__traceback__ is None:
        return outcome
    while error.__cause__ is not None and error.__cause__.__traceback__ is not None:
        error = error.__cause__  # unidev's own errors are raised from the framework's
    places = [
        (f"{frame.f_code.co_filename}:{line}, in {frame.f_code.co_name}", frame)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    where = f"raised at {places[-1][0]}"
    roots = [(at, str(frame.f_globals.get("__name__")).partition(".")[0]) for at, frame in places]
    own = [at for at, root in roots if root == plugin]
    if own and own[-1] != places[-1][0]:
        where += f"\ncalled at {own[-1]}"
    return Outcome("error", f"{outcome.message}\n{where}")


def _adjust(report: pytest.TestReport, outcome: Outcome) -> None:
    if outcome.result in ("unsupported", "not-applicable", "xfail"):
        # The one outcome of pytest that is neither; its status is ours, above.
        report.outcome = "skipped"
        report.longrepr = (report.location[0], report.location[1] or 0, outcome.message)
    elif not outcome.is_good and report.passed:
        report.outcome = "failed"
        report.longrepr = outcome.message


def _check(item: pytest.Item) -> Check | None:
    return check_of(item.function) if isinstance(item, pytest.Function) else None


def _id(item: pytest.Item) -> str:
    each = _check(item)
    assert each is not None, f"{item} is not a check"
    return each.id


def _ids(option: str) -> frozenset[str]:
    return frozenset(part.strip() for part in option.split(",") if part.strip())
