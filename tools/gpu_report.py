"""Report on unidev on this machine's GPUs: ``python tools/gpu_report.py OUT``.

Needs unidev's dependencies, pytest, hypothesis and one framework; neither an installed unidev nor a
network. Each step is a program that users run, too, in a process with a limit: the suite's
profiles, ``doctor``, ``bench``, the examples and benchmarks. OUT gets ``gpu-report.json`` and
``gpu-report.md`` after each step, beside what the steps printed and wrote, and the next run with
the same OUT continues where this one stopped. Exit code 0: every step passed, or gave the reason
why it did not run; 1: a step failed; 2: wrong usage; 3: steps are left; 130: interrupted.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_steps import HARDWARE, ROOT, STEPS, ReportError, chosen, planned, read_list, visible

sys.path.insert(0, str(ROOT))

from unidev.system.atomic_file import write_whole
from unidev.system.child_processes import ChildProcess, describe_exit, noticing_interruption
from unidev.system.version import __version__
from unidev.system.wording import count_text, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpu_steps import Step

    from unidev.system.child_processes import Interruption

PASS, FAIL, NOT_RUN = "pass", "fail", "not run"
EXIT_CODES = {PASS: 0, FAIL: 1, "incomplete": 3}
JSON_NAME, MARKDOWN_NAME = "gpu-report.json", "gpu-report.md"
_IDENTITY = ("version", "backend", "short", "simulated", "stand_in", "commit", "dirty", "planned")
"""A report is continued only where these are the same."""
_MOST_LINES = 60


# -- the report ------------------------------------------------------------------------------------


def new_report(options: argparse.Namespace) -> dict[str, Any]:
    """A report without results."""
    commit, dirty = options.commit, None
    try:
        commit = _git("rev-parse", "HEAD").strip()
        dirty = bool(_git("status", "--porcelain").strip())
    except (OSError, subprocess.CalledProcessError):  # no git, or not a checkout
        pass
    return {
        "format": "unidev-gpu-report", "version": 3, "unidev": __version__,
        "backend": options.backend, "short": options.short, "simulated": options.simulate,
        "stand_in": options.stand_in is not None, "commit": commit, "dirty": dirty,
        "started": _now(), "verdict": "incomplete", "planned": planned(is_short=options.short),
        "results": {},
    }  # fmt: skip


def resumed(new: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The report in ``folder``, if there is one, else ``new``.

    Raises:
        ReportError: it is the report of something else, such as another commit.
    """
    file = folder / JSON_NAME
    if not file.exists():
        return new
    try:
        old: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        differing = [name for name in _IDENTITY if old[name] != new[name]]
    except (ValueError, LookupError, TypeError) as error:
        raise ReportError(f"{file} is not a report: {error}") from error
    if differing:
        raise ReportError(
            f"{file} was begun with other {', '.join(differing)}: name an empty folder, or pass "
            "--fresh to discard it"
        )
    return old


def verdict(report: Mapping[str, Any]) -> str:
    """``incomplete`` until each step has a result; then ``fail`` if one fails or none passes."""
    found = {each["verdict"] for each in report["results"].values()}
    if report["results"].keys() != set(report["planned"]):
        return "incomplete"
    return PASS if PASS in found and FAIL not in found else FAIL


def counted(report: Mapping[str, Any]) -> str:
    """``12 pass, 1 fail, 2 not run, 3 left``."""
    found = Counter(each["verdict"] for each in report["results"].values())
    found["left"] = len(report["planned"]) - found.total()
    return ", ".join(
        f"{found[name]} {name}" for name in (PASS, FAIL, NOT_RUN, "left") if found[name]
    )


def to_markdown(report: Mapping[str, Any]) -> str:
    """The report for people: a line for each step, and what those that fail have printed."""
    results = report["results"]
    devices = {device for each in results.values() for device in each["devices"]}
    nothing = "Made without hardware: it shows nothing about any.\n\n"
    lines = [
        f"# {report['backend']} on a GPU: {report['verdict']}{', short form' * report['short']}\n",
        (nothing if report["stand_in"] or report["simulated"] else "")
        + f"{counted(report)}. unidev {report['unidev']}, commit {report['commit'] or 'unknown'}"
        f"{', with changes' if report['dirty'] else ''}; begun {report['started']}. "
        f"Devices: {', '.join(sorted(devices)) or 'none'}.\n",
        "| step | verdict | seconds | reason |\n|---|---|---|---|",
    ]
    for name in report["planned"]:
        each = results.get(name, {"verdict": "left", "seconds": "", "reason": None})
        reason = one_line(each["reason"] or "", 1000).replace("|", "\\|")
        lines.append(f"| {name} | {each['verdict']} | {each['seconds']} | {reason} |")
    for name, each in results.items():
        if each["verdict"] == FAIL:
            lines.append(
                f"\n## {name}\n\n```text\n{each['output'].replace('```', chr(39) * 3)}\n```"
            )
    return "\n".join(lines) + "\n"


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- running ---------------------------------------------------------------------------------------

_ASK = """
import json, os, sys
import unidev
from unidev.system.machine import read_machine
unidev.set_backend(sys.argv[1])
gpus = [each for each in unidev.list_devices() if each.kind == "gpu"]
print(json.dumps({
    "devices": [f"{each} ({each.name}, {each.native_name})" for each in gpus],
    "uuids": [x.uuid for x in read_machine(os.environ).gpus if x.uuid and not x.mig_uuids],
}))
"""
"""The framework's GPUs, and the UUIDs of the undivided cards. Builds the simulated ones."""


@dataclass(frozen=True)
class Runner:
    """Runs steps one after the other, and writes both files after each."""

    report: dict[str, Any]
    folder: Path
    left_out: Mapping[str, str]
    """Steps that cannot run here, and the reasons."""
    end: float
    """On the clock of ``time.monotonic``; no step starts or continues after it."""
    stop: Interruption
    say: Callable[[str], None]

    def run(self, names: Sequence[str]) -> None:
        """Run these steps."""
        machine = self._machine()
        for name in names:
            if self.stop or time.monotonic() > self.end:
                return
            step, began = STEPS[name], time.monotonic()
            reason = self.left_out.get(name) or self._unable(step, machine)
            output, found = "", NOT_RUN
            if reason is None:
                ended = self._ended(step, machine)
                if ended is None:
                    self.say(f"{name}: cut short; it runs again next time")
                    return
                reason, output = ended
                found = PASS if reason is None else FAIL
            self.say(f"{name}: {found}" + (f": {reason}" if reason else ""))
            self.report["results"][name] = {
                "verdict": found, "reason": reason, "output": output,
                "seconds": round(time.monotonic() - began), "devices": machine["devices"],
            }  # fmt: skip
            self.report["verdict"] = verdict(self.report)
            text = json.dumps(self.report, indent=1, ensure_ascii=False)
            write_whole(self.folder / JSON_NAME, text + "\n")
            write_whole(self.folder / MARKDOWN_NAME, to_markdown(self.report))

    def _machine(self) -> dict[str, list[str]]:
        """The GPUs; none where the framework does not come so far, which ``doctor`` explains."""
        command = [sys.executable, "-c", _ASK, self.report["backend"]]
        with tempfile.TemporaryDirectory() as folder:
            code, out, err = self._child(command, 660.0, Path(folder), None)
        if code != 0:
            self.say(f"the framework's GPUs cannot be listed: {err.strip()[-500:]}")
            return {"devices": [], "uuids": []}
        found: dict[str, list[str]] = json.loads(out.splitlines()[-1])
        return found

    def _unable(self, step: Step, machine: Mapping[str, Sequence[str]]) -> str | None:
        """Why the step cannot run here, if it cannot."""
        if missing := [each for each in step.needs if find_spec(each) is None]:
            return f"needs {' '.join(missing)}, which {Path(sys.executable).name} does not have"
        if len(machine["devices"]) < step.least:
            there = ", ".join(machine["devices"]) or "none"
            return (
                f"needs {count_text(step.least, 'GPU')} of {self.report['backend']}; there: {there}"
            )
        if self.report["simulated"] and not step.is_simulated_too:
            return HARDWARE
        if step.visible is not None and os.environ.get("CUDA_VISIBLE_DEVICES"):
            return "CUDA_VISIBLE_DEVICES is set already"
        has_none = step.visible is not None and visible(step.visible, machine) is None
        return "the driver gives no UUID of an undivided GPU" if has_none else None

    def _ended(
        self, step: Step, machine: Mapping[str, Sequence[str]]
    ) -> tuple[str | None, str] | None:
        """Why the step fails, if it does, and its last lines; None: the whole run's end cut it."""
        rest_s = self.end - time.monotonic()
        shown = visible(step.visible, machine) if step.visible else None
        named = {"backend": self.report["backend"], "out": str(self.folder / step.name)}
        words = [*step.words, *(step.short or ()) * self.report["short"]]
        command = [sys.executable, "-X", "faulthandler", *(word.format(**named) for word in words)]
        with tempfile.TemporaryDirectory() as folder:
            code, out, err = self._child(command, min(step.limit_s, rest_s), Path(folder), shown)
        if code is None and (self.stop or rest_s < step.limit_s):
            return None
        (self.folder / f"{step.name}.txt").write_text(without_paths(f"{out}\n{err}"))
        said = without_paths("\n".join((err.strip() or out.strip()).splitlines()[-_MOST_LINES:]))
        if code != 0:
            how = "no result in time" if code is None else describe_exit(code)
            return f"{how}: {said.splitlines()[-1].strip() if said else 'no output'}", said
        return wrong(step, out, len(machine["devices"]), shown, self.folder), said

    def _child(
        self, command: Sequence[str], limit_s: float, folder: Path, shown: tuple[str, int] | None
    ) -> tuple[int | None, str, str]:
        """The exit code, None if it was ended, and both outputs."""
        variables = environment(self.report["backend"], self.report["simulated"])
        if shown is not None:
            variables["CUDA_VISIBLE_DEVICES"] = shown[0]
        with ChildProcess(command, folder, environment={**os.environ, **variables}) as child:
            has_ended = child.wait(limit_s, self.stop)
            if not has_ended and not self.stop:
                child.ask_for_traceback()
        return (child.exit_code if has_ended else None), child.out, child.err


def wrong(
    step: Step, out: str, gpus: int, shown: tuple[str, int] | None, folder: Path
) -> str | None:
    """What is wrong with what a program has left that ended with exit code 0."""
    subject, _, name = step.name.partition(".")
    expected = ROOT / "examples" / f"{name}.expected"  # recorded with two GPUs
    if subject == "examples" and gpus == 2 and expected.exists():  # noqa: SIM102
        if out != expected.read_text(encoding="utf-8"):
            return f"{name}.py printed something else than {expected.name}"
    if subject == "benchmarks" and "\n|---" not in out:
        return "it printed no table"
    if shown is not None:
        header = json.loads((folder / f"{step.name}.json").read_text(encoding="utf-8"))["header"]
        judged = [each["device"] for one in header["configurations"] for each in one["devices"]]
        there = [each for each in judged if each.startswith("gpu")]
        if len(there) != shown[1]:
            return (
                f"{count_text(shown[1], 'GPU')} should be visible ({shown[0]!r}); judged: {there}"
            )
    return None


def without_paths(text: str) -> str:
    """``text`` without where this checkout, this Python and this user's files are."""
    places = {
        ROOT: "unidev", Path(sys.prefix): "python", Path(sys.base_prefix): "python",
        Path(tempfile.gettempdir()): "temporary", Path.home(): "home",
    }  # fmt: skip
    for path, name in places.items():
        if len(path.parts) > 1:  # not the root folder
            text = text.replace(f"{path}{os.sep}", f"{name}{os.sep}")
    return text


def environment(backend: str, simulated: int) -> dict[str, str]:
    """Variables for children: this checkout with its plugins, and the requested devices."""
    sources = [
        ROOT / "plugins" / f"unidev-{name}" / "src"
        for name in ("conformance", backend, f"{backend}-simulator")
    ]
    present = [str(each) for each in sources if each.is_dir()]
    places = [str(ROOT), *present, os.environ.get("PYTHONPATH", "")]
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, places)), "UNIDEV_BACKEND": backend,
        "UNIDEV_SIMULATE": str(simulated), "MPLBACKEND": "Agg",
    }  # fmt: skip
    installed = {point.name for point in entry_points(group="unidev")}
    if sources[1].is_dir() and backend not in installed:
        named = [os.environ.get("UNIDEV_PLUGINS", ""), f"unidev_{backend}"]
        variables["UNIDEV_PLUGINS"] = ",".join(filter(None, named))
    return variables


# -- the command -----------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="gpu_report.py", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    made.add_argument("out", nargs="?", type=Path, metavar="OUT", help="the folder for the report")
    made.add_argument("--backend", default="torch", help="the framework to use (default: torch)")
    made.add_argument("--short", action="store_true", help="a few minutes instead of an hour")
    made.add_argument(
        "--only", action="append", default=[], metavar="STEP",
        help="run only this step, or a subject such as examples; again, if it has a result",
    )  # fmt: skip
    made.add_argument("--fresh", action="store_true", help="discard the results in OUT")
    made.add_argument(
        "--seconds", type=float, default=math.inf, metavar="S",
        help="stop after this many seconds; run again to continue",
    )  # fmt: skip
    made.add_argument("--commit", help="the commit of these sources, where there is no git to ask")
    made.add_argument(
        "--stand-in", type=Path, metavar="LIST",
        help="this machine has a stand-in for a GPU; LIST names steps that it cannot run, and why",
    )  # fmt: skip
    made.add_argument(
        "--simulate", type=int, default=0, metavar="N",
        help="use N simulated GPUs, to try the report itself: it shows nothing about hardware",
    )  # fmt: skip
    made.add_argument("--list", action="store_true", help="list the steps, and run nothing")
    return made


def main(words: list[str] | None = None) -> int:
    """Run the command."""
    began, options = time.monotonic(), parser().parse_args(words)
    if options.list:
        for step in STEPS.values():
            print(f"{step.name:32}{'' if step.short is not None else '(not in --short)'}".rstrip())
        return 0
    if options.out is None:
        parser().error("name the folder for the report")
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    new = new_report(options)
    try:
        left_out = {} if options.stand_in is None else read_list(options.stand_in)
        report = new if options.fresh else resumed(new, out)
        names = chosen(options.only, report["planned"])
    except (ReportError, OSError) as error:
        parser().error(str(error))
    names = [each for each in names if options.only or each not in report["results"]]
    with noticing_interruption() as stop:
        Runner(report, out, left_out, began + options.seconds, stop, _say).run(names)
    if stop:
        return stop.exit_code
    _say(f"{verdict(report)}: {counted(report)}; {out / MARKDOWN_NAME}")
    return EXIT_CODES[verdict(report)]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
