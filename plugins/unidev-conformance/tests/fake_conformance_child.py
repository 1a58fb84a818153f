# ruff: noqa: T201  a framework that prints is what this stands for
"""Stands for a child of the suite; each check of FAKE_CHECKS (JSON) behaves as badly as it says."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time

from unidev_conformance.events import (
    Alive,
    CheckEntry,
    DeviceEntry,
    End,
    EventWriter,
    Finish,
    Problem,
    Refused,
    Session,
    Start,
)

HANG = "import time; time.sleep(600)"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--unidev-events")
    parser.add_argument("--unidev-only", default="")
    parser.add_argument("--unidev-exclude", default="")
    options, _rest = parser.parse_known_args()
    writer = EventWriter(options.unidev_events)
    behaviours = json.loads(os.environ["FAKE_CHECKS"])
    misbehave(os.environ.get("FAKE_START", ""), writer, options.unidev_events)
    writer.write(session(behaviours))
    only, exclude = options.unidev_only.split(","), options.unidev_exclude.split(",")
    for check, behaviour in behaviours.items():
        if (not options.unidev_only or check in only) and check not in exclude:
            if behaviour.startswith("before:"):
                misbehave(behaviour.removeprefix("before:"), writer, options.unidev_events)
            writer.write(Start(check=check))
            misbehave(behaviour, writer, options.unidev_events)
            if behaviour.startswith("works for "):
                work(int(behaviour.removeprefix("works for ")), writer)
            result = behaviour if behaviour in ("fail", "error", "xfail") else "pass"
            writer.write(
                End(check=check, result=result, seconds=0.5, message="why" * (result != "pass"))
            )
    writer.write(Finish())
    misbehave(os.environ.get("FAKE_END", ""), writer, options.unidev_events)


def work(seconds: int, writer: EventWriter) -> None:
    for _ in range(2 * seconds):
        time.sleep(0.5)
        writer.write(Alive())


def session(behaviours: dict[str, str]) -> Session:
    simulated = int(os.environ["UNIDEV_SIMULATE"])
    return Session(
        suite_version="1", unidev_version="0", backend="numpy", framework="numpy",
        framework_version="0", python="3", platform="here", profile="tensor", simulated=simulated,
        devices=(DeviceEntry(device="cpu:0", native="cpu", name="host", simulated=False),),
        capabilities={},
        checks=tuple(CheckEntry(check=c, profile="tensor", required=True) for c in behaviours),
    )  # fmt: skip


def misbehave(how: str, writer: EventWriter, events: str) -> None:
    if how == "segv":
        print("about to read what is not there", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    elif how == "abort":
        os.abort()
    elif how == "exit":
        print("\x1b[31mred\x1b[0m last words", file=sys.stderr, flush=True)
        os._exit(7)
    elif how == "hang":
        child = subprocess.Popen([sys.executable, "-c", HANG])
        if "FAKE_PIDS" in os.environ:
            with open(os.environ["FAKE_PIDS"], "a") as file:
                file.write(f"{os.getpid()} {child.pid}\n")
        time.sleep(600)
    elif how == "garbage":
        print("garbage " * 20_000, flush=True)
        print("\x00\xff{}" * 1000, file=sys.stderr, flush=True)
        with open(events, "ab") as file:
            file.write(b'{"event": "nonsense"}\n\xff\xfe\n')
    elif how == "half a line":
        with open(events, "ab") as file:
            file.write(b'{"event": "end", "check": "a.one", "result": "pa')
        os._exit(1)
    elif how == "problem":
        writer.write(Problem(message="an expectation has expired"))
    elif how.startswith("refuse:"):
        writer.write(Refused(refusal=how.removeprefix("refuse:"), message="no such thing"))
        sys.exit(4)


if __name__ == "__main__":
    main()
