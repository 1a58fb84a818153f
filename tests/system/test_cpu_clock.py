"""The CPU's clock, from files as Linux has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from unidev.system.machine import cpu_mhz

if TYPE_CHECKING:
    from pathlib import Path

INFO = "processor\t: 0\ncpu MHz\t\t: 2599.998\nprocessor\t: 1\ncpu MHz\t\t: 3100.4\n"


@pytest.mark.parametrize(
    ("most", "info", "found"),
    [("3700000\n", INFO, 3700), ("", INFO, 3100), ("", "processor\t: 0\n", None), ("", "", None)],
)
def test_the_highest_clock_is_read_or_that_of_now(tmp_path: Path, most, info, found) -> None:
    governor = tmp_path / "sys/devices/system/cpu/cpu0/cpufreq"
    governor.mkdir(parents=True)
    (governor / "cpuinfo_max_freq").write_text(most)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(info)
    assert cpu_mhz(tmp_path) == found


def test_a_system_without_these_files_reports_none(tmp_path: Path) -> None:
    assert cpu_mhz(tmp_path) is None
