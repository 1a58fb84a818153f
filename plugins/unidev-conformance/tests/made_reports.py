"""Reports of the suite, made without running it."""

from __future__ import annotations

import dataclasses

from unidev.backends.description import Capability, DeviceEntry
from unidev_conformance.events import CheckEntry
from unidev_conformance.judging.report import Configuration, Header, Report, Result

NASTY = "<script>alert('1')</script> | `x` *y* ~~~~ \x00 \ud800 & [z](javascript:alert)"

CHECKS = (
    CheckEntry(check="smoke.probe_calibrated", profile="tensor", required=True, summary="One."),
    CheckEntry(
        check="copy.gradient", profile="tensor", required=True, needs=("probe.gradient",)
    ),
    CheckEntry(check="copy.optional", profile="tensor", required=False, summary="Three."),
)  # fmt: skip


EVIDENCE = {"extents": [[1, 2]], "nan": "NaN"}


def result(check: CheckEntry, configuration: str, kind: str, message: str = "") -> Result:
    return Result(
        check=check.check, configuration=configuration, profile="tensor", required=check.required,
        result=kind, seconds=0.25, devices=("cpu:0",), message=message,
        evidence=EVIDENCE, reproduce="unidev conform numpy",
    )  # fmt: skip


def report(kinds: str = "pass unsupported pass", message: str = "", **header) -> Report:
    _, second, _ = kinds.split()
    configurations = tuple(
        Configuration(
            name=name,
            simulated=simulated,
            devices=(DeviceEntry(device="cpu:0", native="cpu", name="host", simulated=False),),
            capabilities={
                "simulator": Capability(supported=True),
                "probe.gradient": Capability(
                    supported=second != "unsupported", reason="none", link="javascript:alert(1)"
                ),
            },
        )
        for name, simulated in (("host", 0), ("simulate-2", 2))
    )
    made = Header(
        suite_version="1", unidev_version="0.1.0", backend="numpy", framework="numpy",
        framework_version="2", python="3.11", platform="Linux", profile="tensor", selection=None,
        command="unidev conform numpy --simulate 2", started="2026-01-01T00:00:00+00:00",
        seconds=1.5, timeout_s=120.0, notes=(), checks=CHECKS, configurations=configurations,
    )  # fmt: skip
    results = tuple(
        result(check, each.name, kind, "" if kind == "pass" else message)
        for each in configurations
        for check, kind in zip(CHECKS, kinds.split(), strict=True)
    )
    return Report(header=dataclasses.replace(made, **header), results=results)
