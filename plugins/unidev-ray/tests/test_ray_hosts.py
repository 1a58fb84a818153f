"""Workers on two hosts of a Ray cluster: network namespaces with a link that is cut."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from marked_processes import LIMIT_S
from needed import need
from two_hosts import LINK, two_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from two_hosts import Host

PORT = 6399
"""Of each cluster: it is on hosts of its own."""
PROGRAM = """
import sys, run_samples, unidev

def run(function, *arguments):
    options = {"workers": 2, "backend": "numpy", "address": "%s", "timeout": 5}
    try:
        print(unidev.run(getattr(run_samples, function), *arguments, **options))
    except unidev.WorkerFailedError as error:
        print(error.rank, error)

if __name__ == "__main__":
    run(*sys.argv[1:])
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    """Two hosts, each a node of a Ray cluster with a place for one worker."""
    need("ray", "ray", install="pip install . './plugins/unidev-ray[framework]'")
    folder = tmp_path_factory.mktemp("hosts")
    with ExitStack() as scope:
        found = scope.enter_context(two_hosts(folder))
        address = f"{found[0].address}:{PORT}"
        # A socket of Ray's is in its folder, and a socket's path may have 107 characters. A process
        # of Ray's that is still ending may write there.
        short = scope.enter_context(TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True))
        head = [f"--port={PORT}", "--head", "--include-dashboard=false", f"--temp-dir={short}"]
        for host, words in zip(found, (head, [f"--address={address}"]), strict=True):
            node = _node(host, *words, log=folder / f"{host.address}.log")
            scope.callback(_end, node)
            if host is found[0]:
                _wait_for(host, node, folder / f"{host.address}.log")
        yield found


def _node(host: Host, *words: str, log: Path) -> subprocess.Popen[bytes]:
    ray = str(Path(sys.executable).with_name("ray"))
    common = [f"--node-ip-address={host.address}", "--num-cpus=1", "--block"]
    with log.open("wb") as file:
        return subprocess.Popen(
            host.command(ray, "start", *words, *common),
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}, stdin=subprocess.DEVNULL,
            stdout=file, stderr=file, start_new_session=True,
        )  # fmt: skip


def _wait_for(host: Host, node: subprocess.Popen[bytes], log: Path) -> None:
    connect = f"import socket; socket.create_connection(({host.address!r}, {PORT})).close()"
    until = time.monotonic() + LIMIT_S
    words = host.command(sys.executable, "-c", connect)
    while subprocess.run(words, capture_output=True).returncode:
        assert node.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.5)


def _end(node: subprocess.Popen[bytes]) -> None:
    """`ray start --block` ends what it has started; `ray stop` would end other tests' Rays."""
    node.terminate()
    try:
        node.wait(60)
    finally:
        node.kill()


def program(host: Host, folder: Path, *words: str) -> subprocess.Popen[str]:
    address = f"{host.address}:{PORT}"
    path = os.pathsep.join(filter(None, sys.path))
    file = folder / "program_on_hosts.py"
    file.write_text(PROGRAM % address)
    return subprocess.Popen(
        host.command(sys.executable, str(file), *words), env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def test_workers_of_two_hosts_and_a_link_that_is_cut(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    """In this order, on one cluster: starting it takes longer than both."""
    first, second = hosts
    out, _ = program(first, tmp_path, "summed_on", "numpy").communicate(timeout=LIMIT_S)
    assert {name for name in ("first", "second") if f"('{name}', [2.0, 2.0])" in out} == {
        "first", "second"
    }, out  # fmt: skip

    flag = tmp_path / "exchanged"
    running = program(first, tmp_path, "until_the_link_is_cut", str(flag))
    until = time.monotonic() + LIMIT_S
    while not flag.exists():
        assert running.poll() is None, running.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.1)
    second.run("ip", "link", "set", LINK, "down")
    out, _ = running.communicate(timeout=LIMIT_S)
    blamed = out.partition("\n")[0]
    assert f" on {second.address} did not " in blamed, out
    assert "within 5 s: its host does not answer" in blamed
