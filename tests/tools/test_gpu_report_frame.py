"""``tools/gpu_report.py``: its steps' processes, limits, verdicts, resuming; with steps made up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hardware_report import children, document, running
from hardware_report.document import FAIL, NOT_RUN, PASS, ROOT, Outcome, judged
from hardware_report.plan import STEPS, Step

from unidev.support.child_processes import Interruption

if TYPE_CHECKING:
    from hardware_report.reading import Left

pytestmark = pytest.mark.slow

PASSES = "answer('pass')"
FAILS = "answer('fail', 'it is wrong')"
ABSENT = "answer('not run', 'needs a GPU')"
STARTS_ANOTHER = (
    "import subprocess; child = subprocess.Popen([sys.executable, '-c', 'import time; "
    "time.sleep(600)']); open(PIDS, 'w').write(str(child.pid)); import time; time.sleep(600)"
)
PROGRAM = """
import json, sys, os
PIDS = {pids!r}
def answer(verdict, reason=None, **facts):
    told = dict(verdict=verdict, reason=reason, remarks=[], tables=[], facts=facts)
    with open("outcome.json", "w") as file:
        json.dump(told, file)
with open({log!r}, "a") as file:
    file.write({name!r} + " ")
{body}
"""
MACHINE = {
    "python": "3.12.3", "platform": "Linux", "cores": 16, "framework": "torch",
    "framework_version": "2.11.0", "built_for": "cuda 13.0", "driver": "580.159",
    "cuda_version": "13.0", "devices": ["gpu:0 (NVIDIA H200, cuda:0)"], "environment": {},
    "distributions": {}, "settings": {},
    "gpus": [{
        "index": 0, "name": "NVIDIA H200", "uuid": "GPU-1", "architecture": "sm_90",
        "total_bytes": 2**37, "mig_uuids": [], "state": {"sm_mhz": 345, "ecc": "on"},
    }],
}  # fmt: skip


@dataclass
class Frame:
    """Runs steps whose bodies are given, and records which ran."""

    folder: Path
    bodies: dict[str, str]
    limit_s: float = 60.0
    said: list[str] = field(default_factory=list)

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def new(self) -> Any:
        self.out.mkdir(exist_ok=True)
        return document.new_report(
            "torch", list(self.bodies), is_short=True, is_stand_in=False, commit=None
        )

    def run(self, report: Any, *, seconds: float = 300.0, **given: Any) -> list[str]:
        """The steps that ran."""
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        orders = running.Orders(
            self.out, given.get("chosen", set(self.bodies)), given.get("left_out", {}),
            time.monotonic() + seconds, given.get("stop", Interruption()),
        )  # fmt: skip
        running.run(report, orders, self.said.append)
        return log.read_text().split() if log.exists() else []

    def step(self, name: str) -> Step:
        program = PROGRAM.format(
            log=str(self.folder / "log"), name=name, pids=str(self.folder / "pids"),
            body=self.bodies[name],
        )  # fmt: skip
        file = self.folder / f"{name}.py"
        file.write_text(program)
        return Step(name, f"About {name}", (str(file),), outcome_in, self.limit_s)


def outcome_in(left: Left) -> Outcome:
    """What the program has answered."""
    answer = left.folder / "outcome.json"
    if not answer.exists():
        return judged([f"its process gave no answer: {left.ended.how}"])
    return Outcome(**json.loads(answer.read_text()))


@pytest.fixture
def frame(tmp_path, monkeypatch):
    def make(**bodies: str) -> Frame:
        facts = f"answer('pass', **{MACHINE!r})"
        made = Frame(tmp_path, {running.FACTS: facts, **bodies})
        monkeypatch.setattr(running, "step_named", made.step)
        return made

    return make


def results(report: Any) -> dict[str, tuple[str, str | None]]:
    return {each["step"]: (each["verdict"], each["reason"]) for each in report["results"]}


def test_each_step_has_a_verdict_and_both_files_are_written(frame) -> None:
    given = frame(a=PASSES, b=ABSENT)
    report = given.new()
    assert given.run(report) == [running.FACTS, "a", "b"]
    assert results(report) == {
        running.FACTS: (PASS, None), "a": (PASS, None), "b": (NOT_RUN, "needs a GPU"),
    }  # fmt: skip
    assert report["verdict"] == PASS
    assert document.read(given.out / "gpu-report.json") == report
    text = (given.out / "gpu-report.md").read_text()
    assert "| b | not run | 0 | needs a GPU |" in text
    assert "NVIDIA H200" in text
    assert "About a: pass" not in text
    assert given.said[-1] == "b: not run: needs a GPU"


def test_a_step_that_fails_fails_the_report_and_the_others_still_run(frame) -> None:
    given = frame(a=FAILS, b=PASSES)
    report = given.new()
    given.run(report)
    assert results(report)["a"] == (FAIL, "it is wrong")
    assert results(report)["b"] == (PASS, None)
    assert report["verdict"] == FAIL
    assert "| a | **FAIL** |" in (given.out / "gpu-report.md").read_text()


def test_a_report_in_which_nothing_passes_does_not_pass(frame) -> None:
    given = frame(a=ABSENT)
    given.bodies[running.FACTS] = ABSENT
    report = given.new()
    given.run(report)
    assert results(report)["a"] == (NOT_RUN, "needs 1 GPU of torch; there: none")
    assert report["verdict"] == FAIL


@pytest.mark.parametrize(
    ("body", "reason", "output"),
    [
        ("raise ValueError('no good')", "exit code 1", "ValueError: no good"),
        ("os.abort()", "killed by SIGABRT", "Fatal Python error: Aborted"),
        ("pass", "exit code 0", ""),
    ],
)
def test_a_step_that_gives_no_answer_fails_with_its_output(frame, body, reason, output) -> None:
    given = frame(a=body)
    report = given.new()
    given.run(report)
    assert results(report)["a"] == (FAIL, f"its process gave no answer: {reason}")
    assert output in report["results"][1]["output"]


def test_a_step_that_hangs_is_ended_at_its_limit_with_all_that_it_started(frame) -> None:
    given = frame(a=STARTS_ANOTHER, b=PASSES)
    given.limit_s = 3.0
    report = given.new()
    given.run(report)
    assert results(report)["a"] == (FAIL, "its process gave no answer: no result within 3 s")
    assert results(report)["b"] == (PASS, None)
    pid = int((given.folder / "pids").read_text())
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_run_that_ends_early_continues_with_what_is_left(frame) -> None:
    given = frame(a=PASSES, b="import time; time.sleep(600)", c=PASSES)
    report = given.new()
    assert given.run(report, seconds=6.0) == [running.FACTS, "a", "b"]
    assert list(results(report)) == [running.FACTS, "a"]  # b was cut short by the whole's limit
    assert report["verdict"] == document.INCOMPLETE
    given.bodies["b"] = PASSES
    again = document.resumed(given.new(), given.out)
    assert given.run(again) == [running.FACTS, "b", "c"]
    assert list(results(again)) == [running.FACTS, "a", "b", "c"]
    assert again["verdict"] == PASS


def test_an_interruption_stops_between_steps_and_keeps_what_is_done(frame) -> None:
    given, stop = frame(a=PASSES, b=PASSES), Interruption()
    given.said = Stopping(stop, after="a: pass")
    report = given.new()
    assert given.run(report, stop=stop) == [running.FACTS, "a"]
    assert document.left(document.read(given.out / "gpu-report.json")) == ["b"]


class Stopping(list):
    """Interrupts when a line is said."""

    def __init__(self, stop: Interruption, after: str) -> None:
        super().__init__()
        self.stop, self.after = stop, after

    def append(self, line: str) -> None:
        super().append(line)
        if line == self.after:
            self.stop.signal = signal.SIGINT


def test_steps_that_cannot_run_here_are_not_started(frame) -> None:
    given = frame(a=FAILS)
    report = given.new()
    assert given.run(report, left_out={"a": "needs kernels"}) == [running.FACTS]
    assert results(report)["a"] == (NOT_RUN, "needs kernels")


def test_steps_that_are_not_chosen_are_left_for_another_time(frame) -> None:
    given = frame(a=PASSES, b=PASSES)
    report = given.new()
    given.run(report, chosen={"b"})
    assert document.left(report) == ["a"]
    assert report["verdict"] == document.INCOMPLETE


def test_results_name_the_machine_that_they_come_from(frame) -> None:
    given = frame(a=PASSES, b=PASSES)
    report = given.new()
    given.run(report, chosen={"a"})
    other = {**MACHINE, "gpus": [{**MACHINE["gpus"][0], "uuid": "GPU-2"}]}
    given.bodies[running.FACTS] = f"answer('pass', **{other!r})"
    given.run(report)
    machines = {each["step"]: each["machine"] for each in report["results"]}
    assert machines["a"].startswith("GPU-1; driver 580.159")
    assert machines["b"].startswith("GPU-2; driver 580.159")
    assert len(report["machines"]) == 2


@pytest.mark.parametrize("name", ["backend", "commit", "sources", "short", "stand_in", "planned"])
def test_the_report_of_something_else_is_not_continued(frame, name) -> None:
    given = frame(a=PASSES)
    report = given.new()
    given.run(report)
    changed = {
        "backend": "paddle", "commit": "0" * 40, "sources": "0" * 64, "short": False,
        "stand_in": True, "planned": ["a"],
    }  # fmt: skip
    with pytest.raises(document.ReportError, match=f"was begun with other {name}: name an empty"):
        document.resumed({**given.new(), name: changed[name]}, given.out)


def test_a_file_that_is_not_a_report_is_refused(tmp_path) -> None:
    file = tmp_path / "gpu-report.json"
    for text in ("{", "{}", '{"format": "unidev-gpu-report", "version": 1}'):
        file.write_text(text)
        with pytest.raises(document.ReportError, match="is not a report of this version"):
            document.read(file)


def test_all_but_a_pass_have_a_reason() -> None:
    for verdict, reason in ((FAIL, None), (NOT_RUN, None), (PASS, "it is wrong")):
        with pytest.raises(ValueError, match="have a reason"):
            Outcome(verdict, reason)


def test_the_digest_of_the_sources_changes_with_any_of_them(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(document, "ROOT", tmp_path)
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("1")
    two.write_text("2")
    digests = {document.digest([one]), document.digest([one, two])}
    two.write_text("3")
    digests.add(document.digest([two, one]))
    two.rename(tmp_path / "three.py")
    digests.add(document.digest([one, tmp_path / "three.py"]))
    assert len(digests) == 4


def test_output_names_no_place_of_this_machine(tmp_path) -> None:
    code = f"raise OSError({str(ROOT / 'unidev')!r}, {str(Path.home() / 'x')!r}, sys.executable)"
    ended = children.run([sys.executable, "-c", f"import sys; {code}"], 60.0, tmp_path / "work")
    assert ended.code == 1
    assert "unidev/unidev" in ended.said
    assert "home/x" in ended.said
    assert str(ROOT) not in ended.said


def test_a_step_fails_for_its_first_problem_and_names_the_others() -> None:
    assert judged([]) == Outcome(PASS)
    found = judged(["one is wrong", "two is", "three is"])
    assert (found.verdict, found.reason) == (FAIL, "one is wrong (and 2 more)")
    assert found.remarks == ["two is", "three is"]


def test_a_step_that_cannot_run_here_says_why(frame, monkeypatch) -> None:
    given = frame(a=PASSES)
    report = given.new()
    given.run(report)
    orders = running.Orders(given.out, set(), {}, 0.0, Interruption(), simulated=2)

    def why(**changes: Any) -> str | None:
        step = Step("a", "About a", ("-c", "pass"), outcome_in, **changes)
        return running._unable(step, report, orders)

    assert why(is_simulated_too=True) is None
    assert why() == "simulated devices cannot show it"
    assert (why(least=8) or "").startswith("needs 8 GPUs of torch; there: gpu:0 (NVIDIA H200")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert (why(needs=("sklearn", "click")) or "").startswith("needs scikit-learn click, which")
    assert why(visible="uuid", is_simulated_too=True) is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert why(visible="uuid", is_simulated_too=True) == "CUDA_VISIBLE_DEVICES is set already"


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def command(tmp_path):
    """Runs the real command in a folder of its own, with NumPy, which has no GPU."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(ROOT / "tools/gpu_report.py"), *words],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True,
            timeout=300,
        )  # fmt: skip

    return run


def test_the_command_runs_where_unidev_is_not_installed(command, tmp_path) -> None:
    words = ("out", "--backend", "numpy", "--short", "--only", "doctor.healthy")
    done = command(*words, "--commit", "0" * 40)
    assert done.returncode == 3, done.stderr
    report = json.loads((tmp_path / "out/gpu-report.json").read_text())
    reason = "needs 1 GPU of numpy; there: none"
    assert results(report) == {
        "facts.machine": (NOT_RUN, reason),
        "doctor.healthy": (NOT_RUN, reason),
    }
    assert done.stderr.splitlines()[-1].startswith("incomplete: 2 not run, ")
    assert command("out", "--backend", "torch", "--short").returncode == 2
    assert "other backend" in command("out", "--backend", "torch", "--short").stderr


def test_the_command_lists_its_steps_and_refuses_other_words(command) -> None:
    listing = command("--list").stdout
    assert all(step.name in listing for step in STEPS)
    assert command().returncode == 2
    assert "no step is called" in command("out", "--only", "mars").stderr
