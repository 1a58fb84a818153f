"""What each distribution says of itself, and what its README links to on a package index."""

from __future__ import annotations

import email
import re
import subprocess
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from build_distributions import ROOT, build_all, project_folders
from markdown_it import MarkdownIt

import unidev

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import Message
    from pathlib import Path

    from markdown_it.token import Token

SOURCE = "https://github.com/unidev-core/unidev"
PROJECTS = [
    pytest.param(number, id=path.name if number else "core")
    for number, path in enumerate(project_folders())
]


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_string(archive.read(name).decode())


def tokens_of(text: str) -> Iterator[Token]:
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        yield token
        yield from token.children or ()


def addresses(text: str) -> list[str]:
    """Where the links and pictures of ``text`` lead, as a Markdown parser reads it."""
    found = [token.attrGet("href") or token.attrGet("src") for token in tokens_of(text)]
    html = "".join(token.content for token in tokens_of(text) if token.type.startswith("html"))
    return [str(each) for each in found if each] + re.findall(r"(?:href|src)=\"([^\"]*)", html)


def code(text: str) -> list[str]:
    """What stands in ``text`` as code, in lines or in a sentence."""
    kinds = ("fence", "code_block", "code_inline")
    return [token.content for token in tokens_of(text) if token.type in kinds]


def test_each_project_is_built() -> None:
    plugins = {path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml")}
    assert {path.name for path in project_folders()[1:]} == plugins


def test_a_plugin_folder_that_does_not_build_is_an_error(tmp_path: Path) -> None:
    plugin = tmp_path / "plugins" / "unidev-new"
    plugin.mkdir(parents=True)
    head = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    (tmp_path / "pyproject.toml").write_text(
        f'{head}[project]\nname = "core"\nversion = "1"\n'
        "[tool.hatch.build.targets.wheel]\nbypass-selection = true\n"
    )
    with pytest.raises(FileNotFoundError, match=r"unidev-new has no pyproject\.toml"):
        build_all(tmp_path / "dist", tmp_path)
    has_no_version = f'{head}[project]\nname = "unidev-new"\n'
    (plugin / "pyproject.toml").write_text(has_no_version)
    with pytest.raises(subprocess.CalledProcessError):
        build_all(tmp_path / "dist", tmp_path)
    names = {path.name for path in (tmp_path / "dist").iterdir()}
    assert names == {"core-1.tar.gz", "core-1-py2.py3-none-any.whl"}


@pytest.mark.parametrize("number", PROJECTS)
def test_the_license_is_in_both(distributions: list[tuple[Path, Path]], number: int) -> None:
    sdist, wheel = distributions[number]
    text = (ROOT / "LICENSE").read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("licenses/LICENSE")]
        assert archive.read(name) == text
    with tarfile.open(sdist) as packed:
        member = packed.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/LICENSE")
        assert member is not None
        assert member.read() == text


@pytest.mark.parametrize("number", PROJECTS)
def test_the_metadata_is_complete(distributions: list[tuple[Path, Path]], number: int) -> None:
    metadata = metadata_of(distributions[number][1])
    assert metadata["Version"] == unidev.__version__
    assert metadata["Author"] == "The unidev authors"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Keywords"]
    assert metadata["Summary"]
    urls = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))
    assert urls["Repository"] == SOURCE
    assert {"Changelog", "Issues"} <= set(urls)
    needed = metadata.get_all("Requires-Dist", [])
    pinned = f"unidev-core=={unidev.__version__}"
    assert (pinned in needed) == (number > 0)


def test_the_extra_simulator_is_the_one_of_the_same_version(
    distributions: list[tuple[Path, Path]],
) -> None:
    names = [folder.name for folder in project_folders()]
    torch, simulator = (
        metadata_of(distributions[names.index(name)][1])
        for name in ("unidev-torch", "unidev-torch-simulator")
    )
    extra = f"{simulator['Name']}=={simulator['Version']}; extra == 'simulator'"
    assert extra in torch.get_all("Requires-Dist", [])
    assert simulator.get_all("Requires-Dist") == [f"unidev-core=={unidev.__version__}"]


def test_the_simulators_wheel_and_sdist_have_what_it_builds(
    distributions: list[tuple[Path, Path]],
) -> None:
    folder = ROOT / "plugins" / "unidev-torch-simulator"
    sdist, wheel = distributions[project_folders().index(folder)]
    sources = {path.relative_to(folder / "src").as_posix() for path in folder.rglob("src/*/cpp/*")}
    assert sources
    with zipfile.ZipFile(wheel) as archive:
        assert sources <= set(archive.namelist())
    with tarfile.open(sdist) as packed:
        names = {name.partition("/src/")[2] for name in packed.getnames()}
    assert sources <= names


def test_the_core_names_each_python_from_the_oldest_to_the_newest_that_is_tested(
    distributions: list[tuple[Path, Path]],
) -> None:
    text = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    tested = re.search(r'OLDEST, NEWEST = "3\.(\d+)", "3\.(\d+)"', text)
    assert tested is not None
    metadata = metadata_of(distributions[0][1])
    start = "Programming Language :: Python :: 3."
    named = [
        int(each.removeprefix(start))
        for each in metadata.get_all("Classifier", [])
        if each.startswith(start)
    ]
    assert named == list(range(int(tested[1]), int(tested[2]) + 1))
    assert metadata["Requires-Python"] == f">=3.{tested[1]}"


def test_the_sdist_of_the_core_builds_the_wheel_and_has_the_pages(
    distributions: list[tuple[Path, Path]],
) -> None:
    with tarfile.open(distributions[0][0]) as packed:
        folders = {name.split("/")[1] for name in packed.getnames()}
    assert {"unidev", "unidev_pytest", "docs", "pyproject.toml", "hatch_build.py"} <= folders


@pytest.mark.parametrize("number", PROJECTS)
def test_no_sdist_has_tests_that_lack_what_they_need(
    distributions: list[tuple[Path, Path]], number: int
) -> None:
    with tarfile.open(distributions[number][0]) as packed:
        folders = {name.split("/")[1] for name in packed.getnames()}
    assert "README.md" in folders
    assert not {"tests", "tools"} & folders


@pytest.mark.parametrize("number", PROJECTS)
def test_an_sdist_says_what_its_wheel_says(
    distributions: list[tuple[Path, Path]], number: int
) -> None:
    sdist, wheel = distributions[number]
    with tarfile.open(sdist) as packed:
        member = packed.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert member is not None
        assert email.message_from_bytes(member.read()).items() == metadata_of(wheel).items()


@pytest.mark.parametrize("number", PROJECTS)
def test_every_link_of_a_description_leads_somewhere(
    distributions: list[tuple[Path, Path]], number: int
) -> None:
    description = metadata_of(distributions[number][1]).get_payload()
    assert isinstance(description, str)
    links = addresses(description)
    assert links
    assert [link for link in links if not link.startswith("https://")] == []
    ours = [link.partition("#")[0] for link in links if link.startswith(SOURCE)]
    paths = [ROOT / re.sub(r"^(blob|raw)/v[^/]+/", "", link[len(SOURCE) + 1 :]) for link in ours]
    assert paths
    assert [path for path in paths if not path.exists()] == []


@pytest.mark.parametrize("number", PROJECTS)
def test_a_description_is_the_readme_but_for_its_links(
    distributions: list[tuple[Path, Path]], number: int
) -> None:
    description = metadata_of(distributions[number][1]).get_payload()
    readme = (project_folders()[number] / "README.md").read_text(encoding="utf-8")
    assert isinstance(description, str)
    assert code(description) == code(readme)
    assert code(readme)
    shown = [re.sub(r"\]\([^)]*\)", "]()", text.strip()) for text in (description, readme)]
    assert shown[0] == shown[1]
