"""`unidev doctor` with PyTorch, TensorFlow, PaddlePaddle and MXNet in one environment."""

import json
import subprocess
import sys

FRAMEWORKS = ("mxnet", "paddle", "tensorflow", "torch")


def test_every_framework_is_asked_and_says_what_it_was_built_for():
    done = subprocess.run(
        [sys.executable, "-m", "unidev", "doctor", "--json", "--timeout", "1000"],
        capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    document = json.loads(done.stdout)
    found = {each["backend"]: each for each in document["frameworks"]}
    assert sorted(found) == sorted(FRAMEWORKS)
    for each in found.values():
        assert (each["state"], each["problem"]) == ("works", None)
        assert each["build"]["page"].startswith("https://")
        assert each["gpus_seen"] is not None
    assert done.returncode == (0 if document["healthy"] else 1)
