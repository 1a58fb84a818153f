"""The launcher ``ray``: a Ray of the run's own, and a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import run_samples
from marked_processes import LIMIT_S, all_gone, marked
from needed import need

import unidev

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@pytest.fixture
def _ray() -> None:
    need("ray", "ray", install="pip install . './plugins/unidev-ray[framework]'")


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A variable that all processes of the test inherit; none with it is left afterwards.

    The sessions of a Ray stand in a folder of the test's own, since every start of a Ray, also in
    another test at the same time, deletes those whose owner is gone.
    """
    value = uuid.uuid4().hex
    monkeypatch.setenv("RUN_MARK", value)
    # Not tmp_path: Ray has sockets there, whose paths are limited to 107 characters.
    with tempfile.TemporaryDirectory(prefix="ur-", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield value
        assert all_gone(value), marked(value)


def in_a_process(
    program: str, environment: Mapping[str, str] = os.environ, **options: Any
) -> subprocess.Popen[str]:
    """A program of its own: Ray takes over signals, threads and the end of its process."""
    environment = {**environment, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    return subprocess.Popen(
        [sys.executable, "-u", "-c", program],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options,
    )  # fmt: skip


def sessions() -> list[Path]:
    return list(Path(os.environ["TMPDIR"]).glob("unidev-run-*"))


@pytest.mark.usefixtures("_ray")
def test_a_ray_of_its_own_gives_the_same_and_is_gone_afterwards(mark: str) -> None:
    program = """
import os, run_samples, unidev
before = dict(os.environ)
found = unidev.run(run_samples.everything, backend="numpy", launcher="ray")
same = unidev.run(run_samples.everything, backend="numpy")
print(str(found) == str(same), before == dict(os.environ))
"""
    process = in_a_process(program)
    out, err = process.communicate(timeout=LIMIT_S)
    assert out == "True True\n", err
    assert not [each for each in sessions() if f"-{process.pid}-" in each.name]


@pytest.mark.usefixtures("_ray")
def test_each_worker_sees_its_own_gpus(mark: str) -> None:
    program = """
import json, os, run_samples, unidev
os.environ["UNIDEV_SIMULATE"] = "2"
print(json.dumps(unidev.run(run_samples.seen_gpus, backend="numpy", launcher="ray")))
"""
    out, err = in_a_process(program).communicate(timeout=LIMIT_S)
    assert out, err
    found = json.loads(out)
    assert [own["devices"] for own in found] == [["gpu:0"]] * 2
    assert [own["variables"]["UNIDEV_SIMULATE_FIRST"] for own in found] == ["0", "1"]
    assert "This is worker 1 of 2" in found[1]["beyond"]


@pytest.fixture(params=["numpy", "torch"])
def backend(request: pytest.FixtureRequest, _ray: None) -> str:
    name: str = request.param
    need("libraries", name, install=f"pip install './plugins/unidev-{name}[framework]'")
    return name


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raises", "worker 1 on 127.0.0.1 raised KeyError"),
        ("killed", "worker 1 on 127.0.0.1 was killed by SIGKILL"),
        ("stopped", "waits, within 10 s: it is stopped (SIGSTOP)"),
        ("early", "worker 1 on 127.0.0.1 returned after 3 collectives"),
    ],
)
def test_the_worker_that_failed_first_is_named(
    how: str, words: str, backend: str, mark: str
) -> None:
    program = f"""
import run_samples, unidev
try:
    unidev.run(run_samples.failing, {how!r}, 1, backend={backend!r}, launcher="ray", timeout=10)
except unidev.WorkerFailedError as error:
    print(error.rank, error)
"""
    process = in_a_process(program)
    out, err = process.communicate(timeout=LIMIT_S)
    lines = [line for line in out.splitlines() if not line.startswith("[")]
    assert lines, err
    assert lines[0].startswith("1 ")
    assert words in lines[0]
    assert all_gone(mark), marked(mark)  # and so is all that they listened on
    assert sessions() == []


def test_every_difference_is_an_error_on_every_worker(backend: str, mark: str) -> None:
    program = f"""
import json, run_samples, unidev
found = unidev.run(run_samples.all_differences, workers=3, backend={backend!r}, launcher="ray")
print(json.dumps(found))
"""
    out, err = in_a_process(program).communicate(timeout=LIMIT_S)
    assert out, err
    first, *others = json.loads(out.splitlines()[-1])
    assert [*first] == [*run_samples.DIFFERENCES]
    assert all("worker 0" in words and "but worker 1" in words for words in first.values()), first
    assert all(other == first for other in others)
    assert all_gone(mark), marked(mark)


@pytest.mark.usefixtures("_ray")
def test_the_end_of_the_parent_ends_all_and_its_session_is_swept(mark: str) -> None:
    wait = (
        "import run_samples, unidev; "
        "unidev.run(run_samples.children_and_wait, backend='numpy', launcher='ray')"
    )
    parent = in_a_process(wait)
    assert parent.stdout is not None
    assert "all there" in parent.stdout.readline()
    assert listening_beyond_loopback(mark) == []
    parent.send_signal(signal.SIGKILL)
    parent.communicate(timeout=LIMIT_S)
    assert all_gone(mark), marked(mark)
    assert [each for each in sessions() if f"-{parent.pid}-" in each.name]
    again = (
        "import run_samples, unidev; unidev.run(run_samples.ranks, backend='numpy', launcher='ray')"
    )
    process = in_a_process(again)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    assert not [each for each in sessions() if f"-{parent.pid}-" in each.name]


def of_test(value: str) -> list[psutil.Process]:
    """The other processes with that mark."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("RUN_MARK") == value and process.pid != os.getpid():
                found.append(process)
    return found


def listening_beyond_loopback(value: str) -> list[Any]:
    """What marked processes listen on that other machines can reach."""
    found = []
    for process in of_test(value):
        with suppress(psutil.Error):
            found += [
                each.laddr
                for each in process.net_connections()
                if each.status == psutil.CONN_LISTEN
                and each.laddr.ip not in ("127.0.0.1", "::1", "::ffff:127.0.0.1")
            ]
    return found


CLUSTER = """
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
print(cluster.address)
input()
cluster.shutdown()
"""


@pytest.fixture
def cluster(mark: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a cluster of two nodes, each with a place for one worker."""
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with in_a_process(CLUSTER, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate("\n", timeout=LIMIT_S)
    for left in of_test(mark):  # Ray's own helpers take their time
        with suppress(psutil.Error):
            left.kill()


@pytest.mark.usefixtures("_ray")
def test_a_cluster_of_two_nodes_has_a_worker_on_each(cluster: str) -> None:
    program = f"""
import run_samples, unidev
found = unidev.run(run_samples.node_and_sum, backend="numpy", address={cluster!r})
print(len({{node for node, _ in found}}), [total for _, total in found])
"""
    out, err = in_a_process(program).communicate(timeout=LIMIT_S)
    assert out == "2 [3.0, 3.0]\n", err


@pytest.mark.usefixtures("_ray")
def test_workers_that_find_no_place_within_the_users_limit_are_an_error(cluster: str) -> None:
    program = f"""
import run_samples, unidev
try:
    unidev.run(run_samples.ranks, backend="numpy", address={cluster!r}, workers=3)
except unidev.InvalidDataError as error:
    print(error)
"""
    environment = {**os.environ, "UNIDEV_RAY_PLACE_TIMEOUT": "3.5"}
    out, err = in_a_process(program, environment=environment).communicate(timeout=LIMIT_S)
    assert "Ray has found no room for 3 workers within 3.5 s: the cluster has 2 CPUs" in out, err


@pytest.mark.usefixtures("_ray")
@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1:1", "nothing answers at address='127.0.0.1:1'"),
        ("somewhere", 'address must be "auto" or "host:port"'),
    ],
)
def test_an_address_without_a_cluster_is_named(address: str, words: str) -> None:
    with pytest.raises(unidev.InvalidDataError) as caught:
        unidev.run(run_samples.ranks, backend="numpy", address=address)
    assert words in str(caught.value)


def test_the_command_that_installs_ray_is_named_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / f"unidev-run-{2**31 - 1}-left"  # a dead owner's, which a start would delete
    left.mkdir()
    with pytest.raises(
        unidev.UnsupportedOperation, match=r"ray is not installed.*/unidev-ray\[framework\]"
    ):
        unidev.run(run_samples.ranks, backend="numpy", launcher="ray")
    assert list(tmp_path.iterdir()) == [left]
