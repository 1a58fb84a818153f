"""Late devices lose every race, and only races; and the report names both lines of each."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
_PROGRAMS = (HERE / "late_races.py").read_text()
_MARKED = re.findall(r'@race\("(.*)"\)\ndef (\w+)', _PROGRAMS)
RACES = [f"{name}, {thread}" for thread, name in _MARKED]
NO_RACES = re.findall(r"@no_race\ndef (\w+)", _PROGRAMS)
FAULTS = re.findall(r'^    "(.*)": \(', (HERE / "late_child.py").read_text(), re.MULTILINE)


def run(*words: str, late: str = "1", name: str | None = "cuda") -> Any:
    environment = {**os.environ, "UNIDEV_SIMULATE": "2", "UNIDEV_SIMULATE_LATE": late}
    environment.pop("UNIDEV_SIMULATE_AS", None)
    if name is not None:
        environment["UNIDEV_SIMULATE_AS"] = name
    command = [sys.executable, "-W", "ignore", *words]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@cache
def outcomes(late: str, name: str | None = "cuda", *fault: str) -> dict[str, Any]:
    done = run(str(HERE / "late_child.py"), *fault, late=late, name=name)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", ["cuda", None])
@pytest.mark.parametrize("program", RACES)
def test_a_race_is_lost_every_time_and_its_mended_form_never(
    program: str, name: str | None
) -> None:
    found = outcomes("1", name)[program]
    assert (found["broken"]["right"], found["broken"]["times"]) == (0, 50)
    assert (found["mended"]["right"], found["mended"]["races"]) == (50, [])


@pytest.mark.parametrize("program", RACES)
def test_a_race_is_reported_by_its_two_lines(program: str) -> None:
    broken, mended = outcomes("report")[program].values()
    assert (broken["right"], mended["right"], mended["races"]) == (1, 1, [])
    first, second = broken["marked"]
    assert broken["lines"]
    for line in broken["lines"]:
        assert line[0] in first
        assert line[1] in second


@pytest.mark.parametrize("late", ["1", "report"])
@pytest.mark.parametrize("program", NO_RACES)
def test_what_only_looks_like_a_race_is_none(program: str, late: str) -> None:
    found = outcomes(late)[program]["mended"]
    assert (found["right"], found["races"]) == (found["times"], [])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_devices_is_found(fault: str) -> None:
    found = outcomes("1", "cuda", fault)
    assert any(
        each.get("broken", {"right": 0})["right"] or each["mended"]["right"] < 50
        for each in found.values()
    )


def simulate(late: str, program: str, folder: Path) -> Any:
    (folder / "train.py").write_text(program)
    words = ("simulate", "--as", "cuda", "--gpus", "2", f"--late={late}", "--", sys.executable)
    left_out = ("UNIDEV_", "PYTHONUNBUFFERED")
    return subprocess.run(
        [sys.executable, "-m", "unidev", *words, "train.py"],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
        env={name: x for name, x in os.environ.items() if not name.startswith(left_out)},
    )  # fmt: skip


_PAGE = (HERE.parents[2] / "docs" / "races.md").read_text()
BROKEN, MENDED = re.findall(r"```python\n(.*?)```", _PAGE, re.DOTALL)
(REPORT,) = re.findall(r"```text\n(.*?)```", _PAGE, re.DOTALL)


def test_the_page_goes_from_a_race_to_its_repair(tmp_path: Path) -> None:
    late = simulate("1", BROKEN, tmp_path)
    assert (late.stdout, late.returncode) == ("mean loss: nan\n", 0)
    reported = simulate("report", BROKEN, tmp_path)
    assert (reported.stdout, reported.returncode) == ("mean loss: 4.0\n", 66)
    said = re.sub(r"process \d+", "process 4711", reported.stderr).replace(f"{tmp_path}/", "")
    assert said == REPORT
    mended = simulate("report", MENDED, tmp_path)
    assert (mended.stdout, mended.stderr, mended.returncode) == ("mean loss: 4.0\n", "", 0)


@pytest.mark.parametrize(("late", "is_poison"), [("1", True), ("report", False)])
def test_memory_that_nothing_has_written_is_poison_but_not_in_a_report(
    late: str, is_poison: bool, tmp_path: Path
) -> None:
    # As in `copy_tensor_to_devices` of Accelerate 1.15, which takes it for zeros.
    program = "import torch\nprint((torch.empty(1 << 20, device='cuda').int() != 0).any().item())"
    assert simulate(late, program, tmp_path).stdout == f"{is_poison}\n"


@pytest.mark.parametrize(("end", "status"), [("int('own')", 1), ("raise SystemExit(3)", 3)])
def test_a_program_that_fails_has_its_races_and_its_own_status(
    end: str, status: int, tmp_path: Path
) -> None:
    done = simulate("races.jsonl", f"{BROKEN}{end}\n", tmp_path)
    assert (done.returncode, "ValueError" in done.stderr) == (status, status == 1)
    (line,) = (tmp_path / "races.jsonl").read_text().splitlines()
    assert json.loads(line)["second"].endswith("train.py:5 (mean)")


def test_the_ranks_of_a_run_give_one_report(tmp_path: Path) -> None:
    program, file = tmp_path / "train.py", tmp_path / "races.jsonl"
    program.write_text(f"import unidev\n{BROKEN}")
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(run, str(program), late=str(file)) for _ in range(2)]
    assert [each.result().returncode for each in both] == [66, 66]
    (line,) = file.read_text().splitlines()
    found = json.loads(line)
    assert (found["count"], len({*found["processes"]})) == (2, 2)


def test_a_report_that_cannot_be_written_is_no_success(tmp_path: Path) -> None:
    done = simulate("there/is/none.jsonl", BROKEN, tmp_path)
    assert done.returncode == 1
    assert "there/is/none.jsonl cannot be written to: No such file" in done.stderr
    (tmp_path / "own.jsonl").write_text("notes")
    said = simulate("own.jsonl", BROKEN, tmp_path).stderr
    assert "own.jsonl is there and no report of races: name another file" in said
    nobody = f"import os\nread, write = os.pipe()\nos.close(read)\nos.dup2(write, 2)\n{BROKEN}"
    assert simulate("report", nobody, tmp_path).returncode == 66


def test_a_race_can_be_accepted_by_its_line(tmp_path: Path) -> None:
    accepted = BROKEN.replace("non_blocking=True)", "non_blocking=True)  # unidev: race accepted")
    done = simulate("report", accepted, tmp_path)
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_wrong_value_is_one_line(tmp_path: Path) -> None:
    done = simulate("soon", BROKEN, tmp_path)
    assert done.returncode == 2
    assert "--late: expected 1, report, or a file that ends in .jsonl, not 'soon'" in done.stderr
    assert "Before a command: --late -- env …" in simulate("env", BROKEN, tmp_path).stderr


def test_a_new_operator_for_which_the_host_may_wait_is_seen() -> None:
    """Without a kernel that knows its result's shape, and without a tag of torch's."""
    import torch
    import torch._meta_registrations

    has = torch._C._dispatch_has_kernel_for_dispatch_key
    waiting = (HERE.parent / "src" / "unidev_torch_simulator" / "cpp" / "waiting.h").read_text()
    looked_at = {
        *re.findall(r'"aten::(\w+)"', waiting),
        *(HERE / "not_waiting.txt").read_text().split(),
    }
    found = {
        name.partition(".")[0].removeprefix("aten::")
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::") and has(name, "CPU") and not has(name, "Meta")
        and not has(name, "CompositeImplicitAutograd")
        and not has(name, "CompositeExplicitAutograd") and not _is_tagged(torch.ops.aten, name)
    }  # fmt: skip
    assert found - looked_at == set()


def test_late_devices_wait_where_a_card_is_assumed_to() -> None:
    words = ("-m", "unidev", "simulate", "--gpus", "2", "--", sys.executable)
    done = run(*words, str(HERE.parents[2] / "tools" / "orders_of_streams.py"))
    assert done.returncode == 0, done.stdout


def _is_tagged(aten: Any, name: str) -> bool:
    base, _, overload = name.removeprefix("aten::").partition(".")
    tags = {str(tag) for tag in getattr(getattr(aten, base), overload or "default").tags}
    return bool(tags & {"Tag.dynamic_output_shape", "Tag.data_dependent_output"})


def test_a_trace_has_the_races(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BROKEN)
    file = tmp_path / "trace.json"
    done = run("-m", "unidev", "trace", "--json", str(file), f"{tmp_path}/train.py", late="report")
    assert done.returncode == 66
    assert "1 race that simulated GPUs have lost:" in done.stderr
    (found,) = json.loads(file.read_text())["races"]
    assert found["second"].endswith("train.py:5 (mean)")


def test_a_test_with_a_race_fails_with_its_lines(tmp_path: Path) -> None:
    body = BROKEN.replace("\n", "\n    ")
    (tmp_path / "test_own.py").write_text(f"def test_a():\n    {body}\n\ndef test_b(): pass\n")
    done = run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "--unidev-simulate", "2",
        "--unidev-simulate-as", "cuda", "--unidev-late", str(tmp_path), late="",
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert "test_own.py:6 (mean), the host" in done.stdout
    assert "race(s) in process" not in done.stderr


def test_ten_thousand_steps_without_a_wait_stay_flat() -> None:
    done = run("-c", _FLAT, late="1")
    assert done.returncode == 0, done.stderr


_FLAT = """
import ctypes, resource
import unidev, torch
from unidev_torch_simulator.building import built_library

torch.set_num_threads(1)
side, x = torch.cuda.Stream(), torch.ones(8, device="cuda")
pinned = torch.ones(1 << 18).pin_memory()

def steps(count):
    for _ in range(count):
        x.mul_(1.0).add_(x)
        pinned.to("cuda", non_blocking=True)
        with torch.cuda.stream(side):
            side.wait_stream(torch.cuda.default_stream())
            y = x + 1
        y.record_stream(torch.cuda.default_stream())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

before = steps(400)  # more than 256 MiB of copies
assert steps(10_000) - before < 64, "MiB"

marked = ctypes.c_int64.in_dll(ctypes.CDLL(str(built_library(as_cuda=True))), "unidev_late_marked")
table = torch.zeros(1024, 1024, device="cuda")
torch.cuda.synchronize()
for i in range(100):
    table[:, i].add_(1)  # as gradcheck writes a Jacobian
with torch.cuda.stream(side):
    assert table[:, 99].sum().item() == 0, "more bytes are saved than a column has"
assert marked.value == 0, "columns are compared byte by byte"
"""
