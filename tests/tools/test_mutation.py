"""The score of the suite: which faults are drawn, how one is judged, and what is counted."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from mutation.equivalent import Equivalents
from mutation.faults import Fault, sample
from mutation.frozen import Frozen
from mutation.judging import Judge, Verdict
from mutation.modules import CORE, modules, source_folder
from mutation.promises import promise_of
from mutation.record import Record
from mutation.score import score

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROFILES = tuple(CORE)
MODULE = """
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    Numbers = list[int | float]
def kept(x: int | None = None, *, y: int | None = None) -> int | None:
    "Keep what is given."
    table.clear()
    return total(x, weight=2 + 3) if x is not None else None
"""


def made(diff: str, *, module: str = "m.py", function: str = "f") -> Fault:
    return Fault(module, "core/AddNot", 0, 1, function, diff, "")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "m.py").write_text(MODULE)
    return tmp_path


def test_faults_are_in_what_runs_and_not_in_annotations(root: Path) -> None:
    found = sample(root, [Path("m.py")], 100, 1)
    removed = {fault.diff.partition("\n")[0] for fault in found}
    assert removed == {"-    table.clear()", f"-{MODULE.splitlines()[-1]}"}
    assert {fault.function for fault in found} == {"kept"}
    assert {"own/RemoveStatement", "own/RemoveOption"} <= {fault.operator for fault in found}


def test_an_edit_elsewhere_leaves_the_sample_as_it_was(root: Path) -> None:
    before = sample(root, [Path("m.py")], 3, 1)
    (root / "m.py").write_text("import math\n\n\n" + MODULE)
    after = sample(root, [Path("m.py")], 3, 1)
    assert [fault.key for fault in after] == [fault.key for fault in before]
    assert [fault.key for fault in sample(root, [Path("m.py")], 3, 2)] != [f.key for f in before]


def test_a_listed_sample_is_found_again_where_its_functions_have_moved(root: Path) -> None:
    drawn = sample(root, [Path("m.py")], 100, 1)
    frozen = Frozen(root / "faults.jsonl")
    frozen.add("numpy-tensor-1", drawn)
    assert frozen.faults(root, "numpy-tensor-1", 100) == (
        [dataclasses.replace(fault, occurrence=0) for fault in drawn], []
    )  # fmt: skip
    (root / "unidev" / "tensors").mkdir(parents=True)
    (root / "m.py").rename(root / "unidev/tensors/moved.py")
    (root / "unidev/other.py").write_text(MODULE.replace("kept", "another"))
    moved, gone = Frozen(root / "faults.jsonl").faults(root, "numpy-tensor-1", 100)
    assert {fault.module for fault in moved} == {"unidev/tensors/moved.py"}
    assert [fault.code for fault in moved] == [fault.code for fault in drawn]
    assert not gone


def test_a_listed_fault_whose_lines_are_gone_or_in_two_places_is_named_and_left_out(
    root: Path,
) -> None:
    frozen = Frozen(root / "faults.jsonl")
    frozen.add("numpy-tensor-1", sample(root, [Path("m.py")], 100, 1))
    (root / "m.py").unlink()
    (root / "unidev").mkdir()
    (root / "unidev/first.py").write_text(MODULE.replace("table.clear()", "pass"))
    (root / "unidev/second.py").write_text(MODULE)
    found, gone = frozen.faults(root, "numpy-tensor-1", 100)
    assert {fault.module for fault in found} == {"unidev/second.py"}
    assert all("table.clear" in fault.diff for fault in found)
    assert len(found) + len(gone) == frozen.count("numpy-tensor-1")
    assert gone
    with pytest.raises(ValueError, match="its scores would change"):
        frozen.add("numpy-tensor-1", found)


def test_the_lists_of_published_scores_are_found_in_the_code() -> None:
    frozen = Frozen()
    for name, count in (("numpy-tensor-1", 100), ("torch-tensor-1", 100), ("torch-train-1", 30)):
        found, gone = frozen.faults(ROOT, name, count)
        assert len({(each.module, each.code) for each in found}) + len(gone) == count
        assert len(gone) <= count / 10, "draw the sample anew, and the score with it"


@pytest.mark.parametrize("backend", ["numpy", "torch", "tensorflow", "paddle", "mxnet"])
def test_each_module_is_about_one_profile_or_named_as_left_out(backend: str) -> None:
    found = [path for profile in PROFILES for path in modules(ROOT, backend, profile)]
    assert len(set(found)) == len(found)
    own = Path(source_folder(backend))
    left_out = {path.relative_to(ROOT) for path in (ROOT / own).rglob("*.py")} - set(found)
    rooms = {path.relative_to(own).with_suffix("").parts[0] for path in left_out}
    allowed = {"probe", "simulator", "installation", "importing", "deep_copy"}
    assert rooms <= allowed
    assert not [path for path in found if "probe" in path.relative_to(path.parts[0]).parts]


def test_the_contracts_promise_comes_before_a_plugins_own_words() -> None:
    path = ROOT / "unidev/backends/numpy_backend/backend.py"
    lines = path.read_text().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if "def copy_to" in text)
    fault = Fault(str(path.relative_to(ROOT)), "", 0, line, "NumpyBackend.copy_to", "", "")
    assert promise_of(ROOT, fault).startswith("A copy of ``x`` in newly allocated memory")


ENTRY = """
[[equivalent]]
module = "m.py"
function = "f"
removed = "x = 1"
added = "x = 2"
reason = "the cache alone is larger"
"""


def test_a_listed_fault_is_left_out_and_too_many_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "list.toml").write_text(ENTRY)
    listed = Equivalents(tmp_path / "list.toml")
    record = Record(tmp_path / "r.jsonl")
    faults = [made("-    x = 1\n+    x = 2"), made("-y\n+z"), made("-v\n+w")]
    for fault, how in zip(faults, ("survived", "survived", "fail"), strict=True):
        record.add(fault, Verdict(how, "", 1.0))
    found = score(faults, record, listed)
    assert (found.caught, found.judged, found.survivors) == (1, 2, (faults[1],))
    twice = [faults[0], faults[0], *faults[1:]]
    with pytest.raises(ValueError, match="2 of 4 faults are listed as equivalent"):
        score(twice, record, listed)


def test_a_fault_is_judged_on_a_copy_and_undone(tmp_path: Path) -> None:
    judge = Judge(ROOT, tmp_path / "copy", "numpy", "interop")
    module = "unidev/backends/numpy_backend/interop.py"
    sound = (ROOT / module).read_text()
    broken = Fault(module, "", 0, 1, "", "", sound.replace("def ", "def not_", 1))
    harmless = Fault(module, "", 0, 1, "", "", sound + "\n# the same program\n")
    calibration = judge.calibrate([broken, harmless])
    assert (tmp_path / "copy" / module).read_text() == sound
    assert judge.judge(broken, calibration).is_caught
    assert (tmp_path / "copy" / module).read_text() == sound
    assert judge.judge(harmless, calibration).how == "survived"
