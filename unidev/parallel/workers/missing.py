"""Files and modules that a worker's machine lacks, unlike the machine that called ``run``."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unidev.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAIN = "init_main_from_path"


def check_file(path: str) -> None:
    """Raise InvalidDataError if a program is not on this machine."""
    if not os.path.isfile(path):
        raise _missing(f"there is no file {path}")


@contextmanager
def modules_named() -> Iterator[None]:
    """A block in which a module that is not installed is an error with the machine's name.

    Raises:
        InvalidDataError: a module is not there.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise _missing(str(error)) from error


def as_it_is_here(preparation: dict[str, Any]) -> dict[str, Any]:
    """For ``multiprocessing.spawn.prepare``, without folders that are not on this machine.

    Raises:
        InvalidDataError: the script is not there.
    """
    theirs = [each for each in preparation["sys_path"] if os.path.exists(each)]
    own = [each for each in sys.path if each]  # without "", the folder in which the worker starts
    found = {**preparation, "sys_path": list(dict.fromkeys([*theirs, *own]))}
    if not os.path.isdir(found.get("dir") or "."):
        del found["dir"]
    if _MAIN in found:
        check_file(os.path.join(found.get("orig_dir") or "", found[_MAIN]))
    return found


def _missing(what: str) -> InvalidDataError:
    return InvalidDataError(
        f"{what}, on {socket.gethostname()}, where this worker is: install on each machine what "
        "the workers import, or ship the program's folder to them, if the launcher can."
    )
