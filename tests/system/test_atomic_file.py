"""Replacing a file whole, or not at all."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import IO

import pytest

from unidev.system import atomic_file
from unidev.system.atomic_file import SUFFIX, check_writable, replacing, write_whole

POSIX = pytest.mark.skipif(os.name != "posix", reason="permissions, links and devices are POSIX's")


def write(path: Path, content: bytes) -> None:
    with replacing(str(path)) as file:
        file.write(content)


def fail(file: IO[bytes], error: type[BaseException]) -> None:
    file.write(b"half")
    raise error


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, b"old")
    with replacing(str(path)) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
        (part,) = set(os.listdir(tmp_path)) - {"file"}
        assert part.startswith(".file.")
        assert part.endswith(SUFFIX)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_it_is_on_the_disk_before_it_gets_the_name_and_the_name_then(
    tmp_path: Path, monkeypatch
) -> None:
    done = []
    for name in ("fsync", "replace"):
        call = getattr(os, name)

        def noted(*given: object, name: str = name, call=call) -> object:
            is_folder = name == "fsync" and stat.S_ISDIR(os.fstat(given[0]).st_mode)  # type: ignore[call-overload]
            done.append("folder" if is_folder else name)
            return call(*given)

        monkeypatch.setattr(os, name, noted)
    write(tmp_path / "file", b"new")
    assert done == ["fsync", "replace", "folder"][: 3 if hasattr(os, "O_DIRECTORY") else 2]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_fails_or_is_interrupted_leaves_the_old_file_alone(tmp_path: Path, error) -> None:
    path = tmp_path / "file"
    for before in ([], ["file"]):
        with pytest.raises(error), replacing(str(path)) as file:
            fail(file, error)
        assert os.listdir(tmp_path) == before
        write(path, b"old")
    assert path.read_bytes() == b"old"


def test_a_rename_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch) -> None:
    def fails(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="no"):
        write(tmp_path / "file", b"new")
    assert os.listdir(tmp_path) == []


@POSIX
def test_permissions_are_those_that_open_would_give(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "new", b"")
        (tmp_path / "opened").write_bytes(b"")
        assert mode(tmp_path / "new") == mode(tmp_path / "opened") == 0o640
        (tmp_path / "private").write_bytes(b"old")
        (tmp_path / "private").chmod(0o600)
        write(tmp_path / "private", b"new")
        assert mode(tmp_path / "private") == 0o600
    finally:
        os.umask(before)


@POSIX
def test_what_replaces_a_private_file_is_made_private(tmp_path: Path, monkeypatch) -> None:
    made, permit = [], atomic_file._permit

    def noted(part: int, replaced: os.stat_result) -> None:
        made.append(stat.S_IMODE(os.fstat(part).st_mode))
        permit(part, replaced)

    monkeypatch.setattr(atomic_file, "_permit", noted)
    path = tmp_path / "file"
    write(path, b"old")
    before = os.umask(0)
    try:
        write(path, b"new")
    finally:
        os.umask(before)
    assert made == [0o600]  # who opens it before it gets its permissions could read it later


@POSIX
def test_what_replaces_a_private_file_is_private_from_the_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "file"
    before = os.umask(0)
    try:
        for permitted in (0o600, 0o640, 0o666):
            write(path, b"old")
            path.chmod(permitted)
            with replacing(path):
                (part,) = set(tmp_path.iterdir()) - {path}
                assert mode(part) == permitted
            assert mode(path) == permitted
    finally:
        os.umask(before)


@POSIX
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid(), reason="only root may give away")
def test_the_group_that_may_read_it_stays_or_no_group_may(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "file"
    write(path, b"old")
    os.chown(path, -1, 12345)
    path.chmod(0o640)
    write(path, b"new")
    assert (path.stat().st_gid, mode(path)) == (12345, 0o640)

    def refuses(*_: object) -> None:  # as for a user who is not in that group
        raise PermissionError

    monkeypatch.setattr(os, "chown", refuses)
    write(path, b"new")
    assert (path.stat().st_gid, mode(path)) == (os.getegid(), 0o600)


@POSIX
def test_a_full_disk_is_an_error_about_the_path_that_was_given(tmp_path: Path) -> None:
    import resource

    path = tmp_path / "file"
    write(path, b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match="too large") as caught:
            write(path, b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux alone has a full device")
def test_a_full_device_is_an_error_about_it() -> None:
    with pytest.raises(OSError, match="No space") as caught:
        write_whole("/dev/full", "text")
    assert caught.value.filename == "/dev/full"


@POSIX
def test_what_is_written_whole_replaces_files_and_is_written_to_pipes(tmp_path: Path) -> None:
    path, pipe = tmp_path / "file", tmp_path / "pipe"
    write_whole(path, "é\n")
    assert path.read_bytes() == b"\xc3\xa9\n"
    os.mkfifo(pipe)
    read = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"text")
    assert os.read(read, 100) == b"text"
    os.close(read)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@POSIX
def test_a_symbolic_link_stays_and_what_it_points_at_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    link.symlink_to(target)
    for content in (b"first", b"second"):
        write(link, content)
        assert link.is_symlink()
        assert not target.is_symlink()
        assert target.read_bytes() == content
    assert os.listdir(tmp_path / "folder") == ["target"]
    round_and_round = tmp_path / "loop"
    round_and_round.symlink_to(round_and_round)
    with pytest.raises(OSError, match="symbolic link"):
        write(round_and_round, b"")
    assert round_and_round.is_symlink()


def test_a_folder_that_is_missing_or_in_the_way_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "missing" / "file", b"")
    with pytest.raises(IsADirectoryError):
        write(tmp_path, b"")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError if os.name == "posix" else OSError):
        write(tmp_path / "file" / "file", b"")


@POSIX
def test_a_device_or_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(OSError, match="cannot be replaced"):
            write(path, b"")
    assert os.listdir(tmp_path) == ["pipe"]


@POSIX
def test_what_may_not_be_written_is_refused_and_stays(tmp_path: Path, monkeypatch) -> None:
    protected = tmp_path / "protected"
    protected.write_bytes(b"old")
    opened = os.open

    def as_a_user(path: str, flags: int, *more: int) -> int:  # root may write to anything
        if flags & os.O_WRONLY and path == str(protected):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, flags, *more)

    monkeypatch.setattr(os, "open", as_a_user)
    with pytest.raises(PermissionError):
        write(protected, b"new")
    assert protected.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["protected"]


@POSIX
@pytest.mark.skipif(sys.platform == "darwin", reason="its names are counted in characters")
def test_a_name_may_be_as_long_as_the_folder_takes(tmp_path: Path) -> None:
    for name in ("x" * 255, "名" * 85):
        write(tmp_path / name, b"new")
        assert (tmp_path / name).read_bytes() == b"new"


def test_a_folder_that_is_not_there_is_an_error_about_the_path_that_was_given(
    tmp_path: Path,
) -> None:
    path = tmp_path / "nowhere" / "file"
    with pytest.raises(FileNotFoundError, match="nowhere does not exist") as caught:
        write(path, b"new")
    assert caught.value.__cause__ is None
    assert caught.value.filename == os.path.realpath(path)
    assert SUFFIX not in str(caught.value)


def test_a_file_is_tried_and_stays_as_it_is(tmp_path: Path) -> None:
    write(tmp_path / "file", b"old")
    check_writable(tmp_path / "file")
    check_writable(tmp_path / "new")
    check_writable(os.devnull)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]
    with pytest.raises(FileNotFoundError):
        check_writable(tmp_path / "no" / "file")
