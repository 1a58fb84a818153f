"""Ctrl-C at drawn moments: nothing is torn, nothing is left behind, nothing hangs.

    python tests/fuzz/interruptions.py torch --seconds 240 [--seed 0] [--simulate 2]

Each attack starts a program in a session of its own, waits for a drawn part of the time that it
takes undisturbed, and presses Ctrl-C: once, or several times. The program says itself whether what
it did is whole. Allowed are an end within ``ENDS_WITHIN_S`` and a program that says ``whole``.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDS_WITHIN_S = 120.0
STARTS_WITHIN_S = 300.0
LEAVES_NOTHING_WITHIN_S = 20.0
_MARK = "UNIDEV_ATTACK"

_PLACE = """
import sys, unidev
from unidev import nn
with unidev.cpu():
    net = nn.sequential(*(nn.dense(16, 16) for _ in range(20)))
before = [unidev.to_numpy(x).tobytes() for x in unidev.parameters(net).values()]
def check():
    now = list(unidev.parameters(net).values())
    devices = {str(unidev.device_of(x)) for x in now}
    same = [unidev.to_numpy(x).tobytes() for x in now] == before
    print("whole" if len(devices) == 1 and same else f"torn: on {devices}, same values: {same}")
print("begins", flush=True)
try:
    for _ in range(300):
        unidev.place(net, "gpu:0"), unidev.place(net, "gpu:1")
finally:
    check()
"""
_PREFETCH = """
import threading, time, unidev
unidev.ones(1, device="gpu:0")
print("begins", flush=True)
def batches():
    for number in range(400):
        yield unidev.to_numpy(unidev.full((64,), number))
try:
    for number, x in enumerate(unidev.prefetch(batches(), "gpu:0")):
        assert unidev.to_numpy(x)[0] == number
finally:
    until = time.monotonic() + 30
    while threading.active_count() > 1 and time.monotonic() < until:
        time.sleep(0.01)
    print("whole" if threading.active_count() == 1 else f"left: {threading.enumerate()}")
"""
_RUN = """
import time, unidev
def work():
    import unidev
    for _ in range(5):
        unidev.group().all_reduce(unidev.ones(3), op="sum")
    return unidev.group().rank
if __name__ == "__main__":
    print("begins", flush=True)
    assert unidev.run(work, workers=2, gpus_per_worker=0) == [0, 1]
    print("whole")
"""
_LAUNCHED = """
import unidev
for _ in range(5):
    unidev.group().all_reduce(unidev.ones(3), op="sum")
"""
PROGRAMS = {"place": _PLACE, "prefetch": _PREFETCH, "run": _RUN, "launch": _LAUNCHED, "doctor": ""}
_SAYS_WHOLE = ("place", "prefetch")


class Finding(NamedTuple):
    """An attack that found something."""

    program: str
    moments: tuple[float, ...]
    """Seconds after the program began, at which Ctrl-C was pressed."""
    outcome: str


def findings(
    backend: str, attacks: int | None = None, *, seconds: float = 0.0, seed: int = 0,
    simulate: int = 2,
) -> Iterator[Finding | None]:  # fmt: skip
    """Attack one program after another; yield what each attack found, or None.

    Ends after ``attacks`` of each program, or else after ``seconds``.
    """
    rng = random.Random(seed)
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="unidev-attacks-") as folder:
        attacked = {name: _Attacked(name, backend, simulate, Path(folder)) for name in PROGRAMS}
        for each in attacked.values():
            yield each.attack(())
        number = 0
        while number < attacks if attacks is not None else time.monotonic() < until:
            number += 1
            for each in attacked.values():
                count = rng.choice((1, 1, 2, 10))
                first = rng.uniform(0, each.takes_s)
                yield each.attack(
                    tuple(first + rng.uniform(0, 0.2) * after for after in range(count))
                )


class _Attacked:
    """One program, and how long it takes undisturbed."""

    def __init__(self, name: str, backend: str, simulate: int, folder: Path) -> None:
        self.name = name
        self.takes_s = 0.0
        file = folder / f"{name}.py"
        file.write_text(PROGRAMS[name], encoding="utf-8")
        words = {
            "launch": ["-m", "unidev", "launch", "--gpus-per-worker", "0", str(file)],
            "doctor": ["-m", "unidev", "doctor"],
        }.get(name, [str(file)])
        self._command = [sys.executable, *words]
        self._environment = {
            **os.environ, "UNIDEV_BACKEND": backend, "UNIDEV_SIMULATE": str(simulate)
        }  # fmt: skip
        self._out = folder / f"{name}.out"

    def attack(self, moments: tuple[float, ...]) -> Finding | None:
        """Press Ctrl-C at these moments; with none, see how long it takes."""
        mark = uuid.uuid4().hex
        with self._out.open("wb") as out:
            child = subprocess.Popen(
                self._command, env={**self._environment, _MARK: mark}, stdout=out,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            try:
                return self._watched(child, moments, mark)
            finally:
                for process in _marked(mark):
                    process.kill()
                child.kill()
                child.wait()

    def _watched(
        self, child: subprocess.Popen[bytes], moments: tuple[float, ...], mark: str
    ) -> Finding | None:
        began = self._begun(child)
        for moment in moments:
            time.sleep(max(0.0, began + moment - time.monotonic()))
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
        try:
            child.wait(ENDS_WITHIN_S if moments else STARTS_WITHIN_S)
        except subprocess.TimeoutExpired:
            return self._finding(moments, f"no end within {ENDS_WITHIN_S:g} s")
        if not moments:
            self.takes_s = time.monotonic() - began
            if child.returncode and self.name != "doctor":  # which finds that there is no GPU
                return self._finding(moments, f"undisturbed, it ended with {child.returncode}")
        until = time.monotonic() + LEAVES_NOTHING_WITHIN_S
        while (left := [process.info["cmdline"] for process in _marked(mark)]) and (
            time.monotonic() < until  # whatever ends a run's processes is one of them itself
        ):
            time.sleep(0.05)
        if left:
            return self._finding(moments, f"left behind: {left}")
        if child.returncode not in (0, 1, 2, 130, -signal.SIGINT):
            return self._finding(moments, f"ended with {child.returncode}")
        said = self._out.read_bytes()
        # Ctrl-C may have come before the program's `try`, or again while it looked; the traceback
        # then has the line that says so.
        verdicts = (line.startswith((b"torn", b"left: ")) for line in said.splitlines())
        if self.name in _SAYS_WHOLE and any(verdicts):
            return self._finding(moments, "it is not whole")
        return None

    def _begun(self, child: subprocess.Popen[bytes]) -> float:
        """When the program began, after its imports; commands begin at once."""
        until = time.monotonic() + STARTS_WITHIN_S
        while self.name not in ("launch", "doctor") and b"begins" not in self._out.read_bytes():
            if child.poll() is not None or time.monotonic() > until:
                break
            time.sleep(0.001)
        return time.monotonic()

    def _finding(self, moments: tuple[float, ...], outcome: str) -> Finding:
        said = self._out.read_text(encoding="utf-8", errors="replace")[-2000:]
        return Finding(self.name, moments, f"{outcome}\n{said}")


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        try:
            is_marked = process.environ().get(_MARK) == mark
        except psutil.Error:  # another user's, or it has ended
            continue
        if is_marked and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def main() -> int:
    """The command at the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backend")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--simulate", type=int, default=2)
    given = parser.parse_args()
    attacks = count = 0
    for found in findings(
        given.backend, seconds=given.seconds, seed=given.seed, simulate=given.simulate
    ):
        attacks += 1
        if found is not None:
            count += 1
            print(f"{found.program}, Ctrl-C at {found.moments}: {found.outcome}", flush=True)
    print(f"{given.backend}: {attacks} attacks, {count} of them found something")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
