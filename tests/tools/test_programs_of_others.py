"""Other people's suites: what the list of them says, and what the tool refuses."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "programs_of_others"


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = spec_from_file_location("programs_of_others_main", TOOL / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_suite_has_tests_and_reasons_for_what_is_left_out(tool: Any, tmp_path: Path) -> None:
    for suite in tool.SUITES.values():
        assert suite["about"]
        assert all((TOOL / each).is_file() for each in suite.get("ours", []))
        assert suite.get("ours") or suite.get("sdist") or suite.get("checkout")
        assert all(suite.get("left_out", {}).values())
    options = tool.pytest_options(tool.SUITES["torch_distributed"], tmp_path)
    assert options[0] == str(TOOL / "test_distributed.py")
    assert "and not (test_send_recv_nccl_ and profiler)" in options[-1]


def test_what_is_left_out_is_an_expression_of_pytest(tool: Any, tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        "def test_send_recv_nccl_torch_profiler(): assert 0\ndef test_send_recv_nccl_(): pass\n"
    )
    suite = {**tool.SUITES["torch_distributed"], "ours": [], "tests": ["test_x.py"]}
    options = tool.pytest_options(suite, tmp_path)
    words = [sys.executable, "-m", "pytest", "-q", *options]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert "1 passed, 1 deselected" in done.stdout


def test_wrong_words_are_refused(tmp_path: Path) -> None:
    for words, said in (
        (["mars"], "invalid choice: 'mars'"),
        (["fabric"], "--checkout a folder that has tests/tests_fabric"),
        (["examples", "--checkout", str(tmp_path)], "distributed/FSDP2/example.py"),
    ):
        done = subprocess.run([sys.executable, TOOL, *words], capture_output=True, text=True)
        assert done.returncode == 2
        assert said in done.stderr
