"""What docs/doctor.md shows is what the doctor prints; run as a program, this writes it there."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from doctor_cases import (
    FOR_CUDA,
    FOR_THE_CPU,
    FULL,
    WORKING,
    case,
    gpu,
    tensorflow,
    torch,
    with_gpus,
)
from rich.console import Console

from unidev.contract.installation import Wheel
from unidev.doctor.brief import in_short
from unidev.doctor.diagnosis import RANKING, diagnose
from unidev.doctor.text import print_diagnosis
from unidev.system.facts import NO_LIBRARY, Driver
from unidev.system.machine import VARIABLES

if TYPE_CHECKING:
    from unidev.doctor.facts import Case

PAGE = Path(__file__).parents[2] / "docs/doctor.md"
_TENSORFLOW = replace(
    FOR_THE_CPU,
    wheels=(Wheel("cuda", "12", "pip install 'tensorflow[and-cuda]'"),),
    page="https://www.tensorflow.org/install/pip",
)
CASES = {
    "container": case(
        replace(
            WORKING,
            container="/.dockerenv",
            device_files=(),
            drivers=(Driver("cuda", NO_LIBRARY, "NVML Shared Library Not Found"),),
        ),
        torch(0),
    ),
    "taken": case(
        with_gpus(FULL, gpu(1)), tensorflow(0, _TENSORFLOW, version="2.21.0"), torch(2, FOR_CUDA)
    ),
}


def printed(given: Case) -> str:
    file = io.StringIO()
    console = Console(
        file=file, width=10_000, highlight=False, emoji=False, soft_wrap=True, no_color=True
    )
    print_diagnosis(given, diagnose(given), console)
    return file.getvalue()


def block(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- doctor: {name} -->\n```text\n)(.*?)(```\n)", re.DOTALL)


@pytest.mark.parametrize("name", CASES)
def test_the_page_shows_what_the_doctor_prints_of_a_machine_that_is_made_up(name) -> None:
    found = block(name).search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    assert found[2] == printed(CASES[name])


def test_the_page_shows_what_the_error_of_gpu_says() -> None:
    hidden = replace(WORKING, environment={"CUDA_VISIBLE_DEVICES": ""})
    said = in_short(diagnose(case(hidden, torch(0)))[0])
    assert said in " ".join(PAGE.read_text(encoding="utf-8").split())


def test_the_page_explains_every_cause_in_the_order_of_the_ranking() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Causes")[2].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == RANKING


def test_the_page_names_every_variable_that_is_looked_at() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in VARIABLES if f"`{name}`" not in text] == []


def test_the_page_names_every_field_of_the_json() -> None:
    import json

    schema = json.loads((PAGE.parent / "doctor.schema.json").read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8").partition("## JSON")[2]
    parts = [schema, *schema["$defs"].values()]
    names = {name for part in parts for name in part.get("properties", {})}
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    for name, given in CASES.items():
        page = block(name).sub(
            lambda found, given=given: found[1] + printed(given) + found[3], page
        )
    PAGE.write_text(page, encoding="utf-8")
