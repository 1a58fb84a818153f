"""The conformance suite on the real GPUs, beside simulated ones, and as variables arrange them."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from hardware_report import children
from hardware_report.outcome import Findings, NotRunError, Outcome
from hardware_report.setting import need
from unidev.hardware.machine import read_machine
from unidev.support.wording import count_text

if TYPE_CHECKING:
    from hardware_report.setting import Setting

    Report = dict[str, Any]

LIMIT_S = 1750.0
_NEEDED = ("pytest", "hypothesis", "click", "rich")
_BAD = ("fail", "error", "crash", "timeout", "xpass", "not-run")
_SHORT = "devices,smoke"
"""Groups that show which devices there are."""


def real(setting: Setting, profile: str) -> Outcome:
    """A profile on the machine's own devices."""
    setting.real_gpus()
    return _conform(setting, profile, simulated=0)


def simulated(setting: Setting, profile: str) -> Outcome:
    """The same profile on two simulated GPUs, to compare with."""
    return _conform(setting, profile, simulated=2)


def arranged(setting: Setting, how: str) -> Outcome:
    """The devices that ``CUDA_VISIBLE_DEVICES`` leaves, and the checks of those."""
    return _conform(
        setting,
        "tensor",
        simulated=0,
        only=_SHORT if setting.is_short else None,
        visible=_visible(setting, how),
    )


def _visible(setting: Setting, how: str) -> tuple[str, int]:
    """The variable's value, and how many GPUs it shows."""
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        raise NotRunError("CUDA_VISIBLE_DEVICES is set already")
    count = len(setting.real_gpus(least=2 if how == "reordered" else 1))
    if how == "empty":
        return "", 0
    if how == "index":
        return str(count - 1), 1
    if how == "reordered":
        return ",".join(map(str, reversed(range(count)))), count
    gpus = read_machine(os.environ).driver("cuda").gpus
    uuid = next((gpu.uuid for gpu in gpus if gpu.uuid and not gpu.mig_uuids), None)
    if uuid is None:
        raise NotRunError("the driver gives no UUID of an undivided GPU")
    return uuid, 1


def _conform(
    setting: Setting,
    profile: str,
    *,
    simulated: int,
    only: str | None = None,
    visible: tuple[str, int] | None = None,
) -> Outcome:
    """Judge; ``visible`` is a value of ``CUDA_VISIBLE_DEVICES``, and how many GPUs it shows."""
    need(*_NEEDED)
    file = setting.folder / "report.json"
    file.unlink(missing_ok=True)
    ended = children.run(
        [
            sys.executable, "-m", "unidev", "conform", setting.name, "--profile", profile,
            "--simulate", str(simulated), "--report", str(file),
            *(["--only", only] if only else []),
        ],
        LIMIT_S,
        setting.folder,
        environment={"CUDA_VISIBLE_DEVICES": visible[0]} if visible else None,
    )  # fmt: skip
    found = Findings()
    if not file.exists():
        found.expect(False, f"unidev conform wrote no report: {ended.briefly}")
        return found.outcome()
    found.expect(ended.code == 0, f"unidev conform: {ended.how}")
    report = json.loads(file.read_text(encoding="utf-8"))
    if visible is not None:
        value, count = visible
        found.remark(f"with CUDA_VISIBLE_DEVICES={value!r}")
        there = [each for each in _devices(report) if each.startswith("gpu")]
        found.expect(
            len(there) == count, f"{count_text(count, 'GPU')} should be visible; judged: {there}"
        )
    _show(found, report)
    return found.outcome()


def _show(found: Findings, report: Report) -> None:
    footer = report["footer"]
    for each in report["header"]["configurations"]:
        devices = ", ".join(f"{d['device']} ({d['name']})" for d in each["devices"])
        counts = footer["counts_by_configuration"][each["name"]]
        said = ", ".join(f"{number} {kind}" for kind, number in counts.items())
        found.remark(f"{each['name']}: {devices}: {said}")
    bad = [each for each in report["results"] if each["result"] in _BAD]
    if bad:
        found.table(
            "Checks that do not pass",
            ("check", "devices", "result", "required", "message"),
            [
                (r["check"], ", ".join(r["devices"]), r["result"], r["required"], r["message"])
                for r in bad
            ],
        )
    found.keep(
        suite_version=report["header"]["suite_version"],
        seconds=round(report["header"]["seconds"], 1),
        counts=footer["counts"],
    )


def _devices(report: Report) -> list[str]:
    configurations = report["header"]["configurations"]
    return [each["device"] for one in configurations for each in one["devices"]]
