from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import filelock
import pytest

import unidev
from unidev.system.build_cache import build_once, cache_folder, checked_file
from unidev.system.child_processes import ChildProcess

POSIX = pytest.mark.skipif(os.name != "posix", reason="users and permissions are POSIX's")

BUILD = """
    import sys, time
    from pathlib import Path
    from unidev.system.build_cache import build_once

    def build(path):
        with open("builds", "a") as builds:
            builds.write("x")
        path.write_text("half")
        print("building", flush=True)
        time.sleep(float(sys.argv[1]))
        path.write_text("whole")

    print(build_once("test", "key", "file", build).read_text())
"""


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("UNIDEV_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def writes(text: str, built: list[Path]):
    def build(path: Path) -> None:
        built.append(path)
        path.write_text(text)

    return build


def start(folder: Path, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(BUILD), str(seconds)],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_file_is_built_once_and_kept_for_its_key(cache: Path) -> None:
    built: list[Path] = []
    first = build_once("test", "one", "file", writes("first", built))
    assert build_once("test", "one", "file", writes("again", built)) == first
    assert first.read_text() == "first"
    assert build_once("test", "two", "file", writes("second", built)).read_text() == "second"
    assert len(built) == 2
    assert first.is_relative_to(cache)


def test_the_file_is_alone_in_its_folder_and_nothing_is_left_over(cache: Path) -> None:
    path = build_once("test", "key", "file", writes("text", []))
    assert list(path.parent.iterdir()) == [path]
    assert not list(cache.glob("*part*"))


@pytest.mark.parametrize("damage", [lambda p: p.write_text("trunc"), lambda p: p.unlink()])
def test_a_file_that_was_damaged_is_noticed_and_built_again(cache: Path, damage) -> None:
    path = build_once("test", "key", "file", writes("truncated later", []))
    damage(path)
    assert build_once("test", "key", "file", writes("new", [])) == path
    assert path.read_text() == "new"


def test_a_build_that_fails_leaves_nothing_and_is_tried_again(cache: Path) -> None:
    def fails(path: Path) -> None:
        path.write_text("half")
        raise unidev.SimulationError("no compiler")

    with pytest.raises(unidev.SimulationError, match="no compiler"):
        build_once("test", "key", "file", fails)
    assert not list(cache.rglob("file"))
    assert build_once("test", "key", "file", writes("whole", [])).read_text() == "whole"


def test_a_build_that_makes_nothing_is_an_error(cache: Path) -> None:
    with pytest.raises(unidev.SimulationError, match="ended without creating the file"):
        build_once("test", "key", "file", lambda path: None)


def test_a_cache_that_cannot_be_written_to_is_an_error_that_names_the_remedy(cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    with pytest.raises(unidev.SimulationError, match="set UNIDEV_CACHE to a writable folder"):
        build_once("test", "key", "file", writes("text", []))


@POSIX
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_what_is_built_is_private_under_any_umask(tmp_path: Path, monkeypatch, umask: int) -> None:
    monkeypatch.setenv("UNIDEV_CACHE", str(tmp_path / "new" / "cache"))
    before = os.umask(umask)
    try:
        path = build_once("test", "key", "file", writes("text", []))
    finally:
        os.umask(before)
    made = [tmp_path / "new", *tmp_path.rglob("new/**/*")]
    assert path in made
    assert [each for each in made if each.stat().st_mode & 0o022] == []
    assert stat.S_IMODE(cache_folder().stat().st_mode) == 0o700


@POSIX
def test_a_cache_that_others_could_only_read_becomes_private(cache: Path) -> None:
    cache.mkdir(mode=0o755)
    cache.chmod(0o755)
    build_once("test", "key", "file", writes("text", []))
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


@POSIX
@pytest.mark.parametrize("permitted", [0o777, 0o770, 0o1777])
def test_a_cache_that_others_may_write_to_is_refused(cache: Path, permitted: int) -> None:
    planted = build_once("test", "key", "file", writes("planted", []))
    cache.chmod(permitted)
    built: list[Path] = []
    with pytest.raises(unidev.SimulationError, match=r"may write to .*cache.*chmod 700") as caught:
        build_once("test", "key", "file", writes("ours", built))
    assert "set UNIDEV_CACHE to a new folder in your home folder" in str(caught.value)
    assert planted.read_text() == "planted"
    assert not built


@POSIX
def test_a_cache_below_a_folder_that_others_may_write_to_is_refused_unless_it_is_like_tmp(
    cache: Path,
) -> None:
    build_once("test", "key", "file", writes("text", []))
    for mode in (0o777, 0o775, 0o757):
        cache.parent.chmod(mode)
        with pytest.raises(unidev.SimulationError, match=f"write to {cache.parent}.*chmod go-w"):
            build_once("test", "key", "file", writes("text", []))
    cache.parent.chmod(0o1777)
    build_once("test", "key", "file", writes("text", []))


@POSIX
def test_a_cache_of_another_user_is_refused(cache: Path, monkeypatch) -> None:
    build_once("test", "key", "file", writes("planted", []))
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(unidev.SimulationError, match="belongs to another user"):
        build_once("test", "key", "file", writes("ours", []))


@POSIX
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid(), reason="only root may give away")
@pytest.mark.parametrize("what", ["object", "checksum", "cache"])
def test_what_belongs_to_another_user_is_not_loaded(cache: Path, what: str) -> None:
    path = build_once("test", "key", "file", writes("planted", []))
    checksum = path.parent.with_name(f"{path.parent.name}.sha256")
    os.chown({"object": path, "checksum": checksum, "cache": cache}[what], 12345, -1)
    if what == "cache":
        with pytest.raises(unidev.SimulationError, match=r"another user \(12345\): set [^;]*$"):
            build_once("test", "key", "file", writes("ours", []))
    else:
        assert build_once("test", "key", "file", writes("ours", [])).read_text() == "ours"


@POSIX
@pytest.mark.parametrize("what", ["object", "checksum"])
def test_what_others_may_write_to_is_built_again(cache: Path, what: str) -> None:
    path = build_once("test", "key", "file", writes("planted", []))
    checksum = path.parent.with_name(f"{path.parent.name}.sha256")
    (path if what == "object" else checksum).chmod(0o666)
    assert build_once("test", "key", "file", writes("ours", [])).read_text() == "ours"


@POSIX
@pytest.mark.parametrize("what", ["object", "checksum", "folder"])
def test_links_are_neither_read_nor_written_through(cache: Path, tmp_path: Path, what: str) -> None:
    path = build_once("test", "key", "file", writes("planted", []))
    checksum = path.parent.with_name(f"{path.parent.name}.sha256")
    link = {"object": path, "checksum": checksum, "folder": path.parent}[what]
    target = link.rename(tmp_path / "elsewhere")
    link.symlink_to(target)
    before = (target / "file" if what == "folder" else target).read_text()
    assert build_once("test", "key", "file", writes("ours", [])).read_text() == "ours"
    assert not link.is_symlink()
    assert (target / "file" if what == "folder" else target).read_text() == before


@POSIX
def test_a_cache_may_be_reached_by_a_link(cache: Path, tmp_path: Path) -> None:
    cache.symlink_to(tmp_path / "elsewhere")
    path = build_once("test", "key", "file", writes("text", []))
    assert path.is_relative_to(tmp_path / "elsewhere")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="Linux names open files")
def test_the_file_that_was_checked_is_loaded_whatever_is_there_by_then(cache: Path) -> None:
    for text in ("built", "kept"):
        path = build_once("test", "key", "file", writes("ours", []))
        path.rename(path.with_name(text))
        path.write_text("planted meanwhile")
        assert Path(checked_file(path)).read_text() == "ours"
        path.with_name(text).rename(path)


def test_two_processes_that_build_at_once_build_once(cache: Path, tmp_path: Path) -> None:
    processes = [start(tmp_path, 0.5) for _ in range(3)]
    outputs = [process.communicate(timeout=300) for process in processes]
    assert [output.splitlines()[-1] for output, _ in outputs] == ["whole"] * 3, outputs
    assert (tmp_path / "builds").read_text() == "x"


def test_a_build_that_was_killed_is_taken_for_nothing_and_cleared_away(
    cache: Path, tmp_path: Path
) -> None:
    process = start(tmp_path, 60)
    assert process.stdout is not None
    assert process.stdout.readline() == "building\n"
    assert len(list(cache.glob("*.part-*"))) == 1
    process.kill()
    process.communicate()
    output, errors = start(tmp_path, 0).communicate(timeout=300)
    assert output.splitlines()[-1] == "whole", errors
    assert not list(cache.glob("*.part-*"))


def test_waiting_for_another_process_and_building_are_reported(
    cache: Path, capsys, monkeypatch
) -> None:
    path = build_once("test", "key", "file", writes("text", []))
    assert capsys.readouterr().err == ""
    path.unlink()
    is_locked = threading.Event()

    def hold() -> None:
        with filelock.FileLock(f"{path.parent}.lock"):
            is_locked.set()
            time.sleep(0.3)

    monkeypatch.setattr("unidev.system.progress.BEAT_S", 0.05)
    monkeypatch.delitem(sys.modules, "unidev_pytest", raising=False)
    threading.Thread(target=hold).start()
    is_locked.wait()

    def build(file: Path) -> None:
        time.sleep(0.3)
        file.write_text("text")

    build_once("test", "key", "file", build)
    said = capsys.readouterr().err
    assert "waiting for another process to build the simulated devices of test: 0 s" in said
    assert f"building the simulated devices of test (once, kept in {path.parent}): 0 s" in said


def test_children_in_another_folder_use_the_same_cache(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = "from unidev.system.build_cache import cache_folder; print(cache_folder())"
    for named in ("relative", "~/cache"):
        monkeypatch.setenv("UNIDEV_CACHE", named)
        command = [sys.executable, "-c", program]
        with ChildProcess(command, tmp_path / "child", environment=os.environ) as child:
            assert child.wait(300)
            assert child.exit_code == 0, child.err
        assert child.out.strip() == str(cache_folder())


def test_the_cache_is_the_platforms_unless_the_variable_says_where(monkeypatch) -> None:
    assert cache_folder().name == "unidev"
    monkeypatch.setenv("UNIDEV_CACHE", "elsewhere")
    assert cache_folder() == Path("elsewhere").absolute()
    monkeypatch.setenv("UNIDEV_CACHE", "~/elsewhere")
    assert cache_folder() == Path.home() / "elsewhere"
