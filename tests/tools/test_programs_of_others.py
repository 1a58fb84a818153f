"""Other people's suites: what the list of them says, and what the tool refuses."""

from __future__ import annotations

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
