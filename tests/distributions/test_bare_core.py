"""The core without extras: what it can do, and what names the extra that it lacks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from distributions.conftest import Installed

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
INSTALLED = """
import importlib.metadata
print(sorted(each.name.lower() for each in importlib.metadata.distributions()))
"""
VERBS = """
import numpy as np, unidev
from unidev import nn

device = unidev.try_gpu(1)
x = unidev.copy_to({"x": [np.ones((4, 3), np.float32)]}, device)["x"][0]
assert unidev.device_of(x) is device and unidev.as_in_device(x, device) is x
assert unidev.gather(unidev.split_batch(x, unidev.try_all_gpus()), device).shape == (4, 3)
for batch in unidev.prefetch([np.zeros(2)], device):
    assert unidev.device_of(batch) is device
net = unidev.place(nn.dense(3, 2), device)
unidev.save_parameters(net, "net.safetensors")
unidev.load_parameters(net, "net.safetensors")
with unidev.trace_transfers() as trace:
    unidev.to_numpy(x)
print(trace)
try:
    unidev.gpu(7)
except unidev.DeviceNotFoundError as error:
    print(error)
try:
    unidev.empty(2**62, dtype="int8", device=unidev.cpu())
except unidev.OutOfDeviceMemoryError as error:
    print(error)
"""
REFUSED = {"unidev.run(print)": "distributed", 'unidev.try_gpu(free="1KiB")': "hardware"}


def test_it_brings_no_library_of_the_extras(bare: Installed, tmp_path: Path) -> None:
    found = bare.run("-c", INSTALLED, cwd=tmp_path).stdout
    assert "'numpy'" in found
    assert not re.findall("'(click|rich|psutil|nvidia-ml-py|pytest|jinja2|ray)'", found)


def test_its_functions_run(bare: Installed, tmp_path: Path) -> None:
    done = bare.run("-W", "error", "-c", VERBS, cwd=tmp_path, UNIDEV_SIMULATE="2")
    assert "gpu:7 is not available" in done.stdout
    assert "numpy ran out of memory" in done.stdout


@pytest.mark.parametrize("call", REFUSED)
def test_what_needs_more_names_the_extra(call: str, bare: Installed, tmp_path: Path) -> None:
    program = f"import unidev\ntry: {call}\nexcept unidev.UnsupportedOperation as e: print(e)"
    said = bare.run("-c", program, cwd=tmp_path, UNIDEV_SIMULATE="1").stdout
    assert re.search(
        "psutil (is|are) not installed. In unidev's repository, run: pip install", said
    )
    assert f"'.[{REFUSED[call]}]'" in said


@pytest.mark.parametrize("start", ["the program", "the module"])
def test_the_program_names_its_extra(start: str, bare: Installed, tmp_path: Path) -> None:
    words = [bare.python.parent / "unidev"] if start == "the program" else [bare.python]
    words += [] if start == "the program" else ["-m", "unidev"]
    command, *rest = [*words, "info"]
    program = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    done = bare.run("-c", program, command, *rest, cwd=tmp_path, expected=1)
    assert done.stderr == (
        "unidev: the command line cannot run: click, rich and psutil are not installed. In "
        "unidev's repository, run: pip install '.[cli]'\n"
    )


def test_the_page_of_extras_is_that_of_the_project() -> None:
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {"none": project["dependencies"], **project["optional-dependencies"]}
    page = (ROOT / "docs" / "devices.md").read_text("utf-8")
    rows = re.findall(r"^\| (none|`[a-z]+`) \| ([\w, `-]+) \|", page, re.MULTILINE)
    listed = {name.strip("`"): re.findall(r"[\w-]+", brings) for name, brings in rows}
    assert {"none", "hardware", "cli", "bench", "distributed"} == set(listed)
    for name, brings in listed.items():
        names = {re.match(r"[\w-]+(\[\w+\])?", each).group() for each in declared[name]}
        own = {each.removeprefix("unidev-core[").rstrip("]") for each in names} - {"tomli"}
        assert set(brings) - {"and"} == own, name
