"""NVIDIA's driver, queried in a process of its own: it may hang, crash, or end its process."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unidev.system.atomic_file import write_whole
from unidev.system.child_processes import ChildProcess, describe_exit
from unidev.system.facts import FAILS, NO_ANSWER, Driver
from unidev.system.nvml import WAIT_S, ask_in_time, ask_nvml, import_nvml
from unidev.system.processes import describe_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.system.child_processes import Interruption


class DriverProcess:
    """The process that queries the driver, at work while its caller does something else."""

    def __init__(self, child: ChildProcess, file: Path) -> None:
        self._child = child
        self._file = file

    def answer(self, timeout_s: float, stop: Interruption) -> Driver:
        """The driver's report; ``NO_ANSWER`` once ``stop`` is set.

        The process itself waits ``WAIT_S``; ``timeout_s`` is for one that does not even start.
        """
        has_ended = self._child.wait(timeout_s, stop)
        if self._file.exists():
            found: Driver = pickle.loads(self._file.read_bytes())  # noqa: S301  our own process's
            return found
        if not has_ended:
            return Driver("cuda", NO_ANSWER, f"no answer within {timeout_s:g} s")
        how = describe_exit(self._child.exit_code)
        how = f"was {how}" if self._child.exit_code < 0 else f"ended with {how}"
        return Driver("cuda", FAILS, f"the process that queried it {how}")


@contextmanager
def driver_process() -> Iterator[DriverProcess]:
    """A process that has begun to query the driver; has ended after the block."""
    with tempfile.TemporaryDirectory(prefix="unidev-driver-", ignore_cleanup_errors=True) as name:
        file = Path(name) / "answer"
        command = [sys.executable, "-m", __name__, str(file)]
        with ChildProcess(command, Path(name), environment=os.environ) as child:
            yield DriverProcess(child, file)


def main(file: str) -> None:
    """Query the driver, and write the answer to ``file``."""
    driver = ask_in_time(lambda: ask_nvml(import_nvml(), describe_process), WAIT_S)
    write_whole(file, pickle.dumps(driver))
    os._exit(0)  # a driver that hangs may do so at Python's end as well


if __name__ == "__main__":
    main(sys.argv[1])
