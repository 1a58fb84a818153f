"""Two hosts on this machine: namespaces with a link between them, as Debian sets up its hosts.

Each host's name resolves to 127.0.1.1, and an interface that leads nowhere comes first.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_HOLD = """
mount --make-rprivate / && mount --bind {hosts} /etc/hosts && hostname {name} &&
ip link set lo up && ip link add a0 type veth peer a1 && ip link set a0 up &&
ip address add 198.51.100.{number}/24 dev a0 && echo ready && exec cat
"""
LINK = "link0"


class Host:
    """One of the two; it is there as long as the process that holds its namespaces."""

    def __init__(self, number: int, prefix: Sequence[str]) -> None:
        self.address = f"10.77.0.{number}"
        self._prefix = prefix

    def command(self, *words: str) -> list[str]:
        """The command that runs ``words`` there, in the same folder."""
        return [*self._prefix, f"--wd={os.getcwd()}", "--", *words]

    def run(self, *words: str) -> None:
        """Run it, and fail if it does."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"


@contextmanager
def two_hosts(folder: Path) -> Iterator[tuple[Host, Host]]:
    """Two hosts, as root, or in a user namespace; an error where neither is allowed."""
    with ExitStack() as scope:
        outer: list[str] = []
        if os.geteuid():
            root = _held(scope, ["unshare", "--user", "--map-root-user"], "echo ready && exec cat")
            outer = ["nsenter", f"--target={root}", "--user", "--preserve-credentials"]
        pids = []
        for number, name in enumerate(("first", "second"), 1):
            hosts = folder / f"{name}-hosts"
            hosts.write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
            new = [*outer, "unshare", "--net", "--uts", "--mount"]
            pids.append(_held(scope, new, _HOLD.format(hosts=hosts, name=name, number=number)))
        first, second = (
            Host(number, [*outer, "nsenter", f"--target={pid}", "--net", "--uts", "--mount"])
            for number, pid in enumerate(pids, 1)
        )
        first.run("ip", "link", "add", LINK, "type", "veth", "peer", LINK, "netns", str(pids[1]))
        for host in (first, second):
            host.run("ip", "address", "add", f"{host.address}/24", "dev", LINK)
            host.run("ip", "link", "set", LINK, "up")
        yield first, second


def _held(scope: ExitStack, new: Sequence[str], program: str) -> int:
    """The process that holds new namespaces once ``program`` has set them up."""
    process = scope.enter_context(
        subprocess.Popen(
            [*new, "sh", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )
    )  # fmt: skip
    scope.callback(process.kill)
    assert process.stdout is not None
    line = process.stdout.readline()
    said = line if line == "ready\n" else line + process.stdout.read()
    assert said == "ready\n", f"no namespaces here ({' '.join(new)}): {said}"
    return process.pid
