"""`unidev doctor` with four frameworks in one environment."""

import json
import subprocess
import sys
import time

FRAMEWORKS = ("mxnet", "paddle", "tensorflow", "torch")


def seconds(*words):
    """How long a program takes."""
    began = time.monotonic()
    subprocess.run([sys.executable, *words], capture_output=True, timeout=300)
    return time.monotonic() - began


def test_every_framework_is_asked_and_says_what_it_was_built_for():
    done = subprocess.run(
        [sys.executable, "-m", "unidev", "doctor", "--json"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    document = json.loads(done.stdout)
    told = {each["backend"]: each for each in document["frameworks"]}
    assert sorted(told) == sorted(FRAMEWORKS)
    for each in told.values():
        assert (each["state"], each["problem"]) == ("works", None)
        assert each["build"]["page"].startswith("https://")
        assert each["gpus_seen"] is not None
    assert done.returncode == (0 if document["healthy"] else 1)


def test_it_takes_at_most_twice_as_long_as_the_slowest_import():
    imports = [f"import {name}" for name in ("torch", "tensorflow", "paddle")]
    # The best of two each: what else the machine does meanwhile is nobody's fault here.
    slowest = max(min(seconds("-c", each), seconds("-c", each)) for each in imports)
    doctor = ("-m", "unidev", "doctor")
    assert min(seconds(*doctor), seconds(*doctor)) <= 2 * slowest
