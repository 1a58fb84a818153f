"""Workers that are forked from one process are as those that are new processes."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

import odd_workers
import pytest

import unidev
from unidev.backends import numpy_backend
from unidev.contract import Arrangement, Forks
from unidev.parallel.running import run

if TYPE_CHECKING:
    from core_fixtures import AddPlugin, RunPython

PLUGIN = """
    import dataclasses, unidev
    from unidev.backends import numpy_backend
    @unidev.hookimpl
    def unidev_register_backend():
        spec = numpy_backend.unidev_register_backend()
        return dataclasses.replace(
            spec, name="mine", framework="json", forks=unidev.contract.Forks(modules=("later",))
        )
"""


def test_a_forked_worker_finds_what_a_new_process_finds() -> None:
    forked, new = (
        unidev.run(odd_workers.surroundings, workers=3, backend="numpy", start=start)
        for start in ("fork", "spawn")
    )
    assert forked == new


def test_forked_workers_have_one_parent_and_each_draws_other_numbers() -> None:
    found = unidev.run(odd_workers.drawn, workers=3, backend="numpy")
    assert [len({*each}) for each in zip(*found, strict=True)] == [3, 3, 3, 1]
    assert unidev.run(os.getppid, workers=1, backend="numpy") == [os.getpid()]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_exit_handlers_print(start: str, capsys: pytest.CaptureFixture[str]) -> None:
    unidev.run(odd_workers.printing_at_exit, backend="numpy", start=start)
    printed = sorted(capsys.readouterr().out.splitlines())
    assert printed == ["[0] at exit", "[0] now", "[1] at exit", "[1] now"]


@pytest.mark.usefixtures("mark")
def test_the_end_of_the_process_from_which_workers_are_forked_is_the_reason() -> None:
    with pytest.raises(unidev.WorkerFailedError, match="was forked from has ended: killed by SIGK"):
        unidev.run(odd_workers.killing_the_parent, backend="numpy")


@pytest.mark.parametrize(
    ("later", "lines"),
    [
        ("print(('x' * 999 + '\\n') * 200)", 200),  # more than a pipe holds, and once
        ("import threading, time; threading.Thread(target=time.sleep, args=(1,)).start()", 0),
        ("import os; os._exit(3)", 0),
        ("raise SystemExit", 0),
    ],
)
def test_workers_start_whatever_an_import_before_the_fork_does(
    add_plugin: AddPlugin, run_python: RunPython, later: str, lines: int
) -> None:
    add_plugin("my_plugin", PLUGIN, entry_point="mine")
    add_plugin("later", later)
    *said, parents = run_python("""
        import os, unidev
        found = unidev.run(os.getppid, workers=2, backend="mine")
        print(found == [os.getpid()] * 2)
    """).splitlines()
    assert said.count(f"[0] {'x' * 999}") == lines
    assert parents == str(not lines)  # without the fork, they are children of this process


@pytest.mark.parametrize(
    ("options", "variables", "gpus", "words"),
    [
        ({"forks": unidev.contract.unsupported("it hangs")}, {}, 0, "it hangs"),
        ({}, {}, 1, "a driver need not survive a fork"),
        ({"forks": Forks()}, {"UNIDEV_SIMULATE": "2"}, 1, "are set up before the framework"),
        ({"forks": Forks(reads=("MY_",))}, {}, 0, "MY_OWN, which is read when the framework is"),
    ],
)
def test_why_workers_are_not_forked(
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Forks],
    variables: dict[str, str],
    gpus: int,
    words: str,
) -> None:
    spec = dataclasses.replace(numpy_backend.unidev_register_backend(), **options)
    monkeypatch.setattr(run, "backend_spec", lambda _: spec)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    arranged = Arrangement(({"MY_OWN": "1", "RANK": "0"}, {"MY_OWN": "2", "RANK": "1"}))
    assert words in (run._why_not_forked(gpus, "numpy", arranged) or "")
    if gpus == 0 and "forks" in options:
        assert run._template("spawn", gpus, "numpy", arranged, {}) == ""
        with pytest.raises(unidev.UnsupportedOperation, match=words):
            run._template("fork", gpus, "numpy", arranged, {})
