"""What a maintainer reads and what GitHub runs: the same names, addresses and versions."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def jobs_of(workflow: Path) -> list[str]:
    jobs = workflow.read_text(encoding="utf-8").partition("\njobs:\n")[2]
    return re.findall(r"^  ([a-z-]+):$", jobs, re.MULTILINE)


def test_the_page_lists_each_job_of_each_workflow() -> None:
    table = text_of("docs/releasing.md").partition("## The workflows")[2]
    rows = re.findall(r"^\| (?:`([a-z]+)` )?\| `([a-z-]+)` \|", table, re.MULTILINE)
    listed: dict[str, list[str]] = {}
    workflow = ""
    for name, job in rows:
        workflow = name or workflow
        listed.setdefault(workflow, []).append(job)
    assert listed == {path.stem: jobs_of(path) for path in WORKFLOWS.glob("*.yml")}
    assert all(listed.values())


def test_each_session_that_a_workflow_runs_is_there() -> None:
    sessions = set(re.findall(r"^def ([a-z_]+)\(session", text_of("noxfile.py"), re.MULTILINE))
    named = {
        name
        for path in WORKFLOWS.glob("*.yml")
        for name in re.findall(r"nox -s ([a-z_]+)", path.read_text(encoding="utf-8"))
    }
    assert named
    assert named <= sessions


def test_the_tests_workflow_runs_every_plugin() -> None:
    (line,) = re.findall(r"session: \[(.*)\]", text_of(".github/workflows/tests.yml"))
    settings = ROOT.glob("plugins/unidev-*/pyproject.toml")
    folders = [x.parent.name for x in settings if "[project.entry-points.unidev]" in x.read_text()]
    assert len(folders) == 7
    sessions = {each.removeprefix("unidev-").replace("-", "_") for each in folders}
    assert sessions <= set(line.split(", "))


def test_the_address_is_the_same_wherever_it_stands() -> None:
    (source,) = re.findall(r'^Repository = "(.*)"', text_of("pyproject.toml"), re.MULTILINE)
    others = re.findall(r'^(?:Changelog|Issues) = "(.*)"', text_of("pyproject.toml"), re.MULTILINE)
    assert [each.startswith(f"{source}/") for each in others] == [True, True]
    (cited,) = re.findall(r"^repository-code: (.*)", text_of("CITATION.cff"), re.MULTILINE)
    assert cited == source
    assert source in text_of("docs/releasing.md")


def test_the_page_names_each_distribution() -> None:
    page = text_of("docs/releasing.md").partition("## Once: the address")[0]
    names = {"unidev-core", *(path.name for path in ROOT.glob("plugins/unidev-*"))}
    assert names <= set(re.findall(r"`([a-z-]+)`", page))


def test_the_changelog_begins_with_what_is_unreleased() -> None:
    headings = re.findall(r"^## (.*)", text_of("CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    released = r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d"
    assert [each for each in headings[1:] if not re.fullmatch(released, each)] == []
    kinds = set(re.findall(r"^### (.*)", text_of("CHANGELOG.md"), re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert kinds
