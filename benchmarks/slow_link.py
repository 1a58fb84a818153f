"""A step of ``DataParallel`` over a link of 1 Gbit/s, against DDP: two hosts in namespaces.

8 M parameters twice: in two layers with a batch so small that a step is little but their 32 MiB,
and in eight with one that takes as long to compute as they take on the link.

On Linux, as root or where user namespaces are allowed; needs ``ip`` and ``tc``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import own_distributed
from measure import Row, sized
from program import ended_by, main

import unidev

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/helpers"))
from two_hosts import LINK, two_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator

RATE = ("rate", "1gbit", "burst", "128kb", "latency", "50ms")
MODELS = {"8 M parameters": 1.05, "8 M parameters in 8 layers": 0.8}
"""With the limit of each ratio."""


def rows_of(backend: str, _: str) -> Iterator[Row | str]:
    """What two workers measure, one on each host."""
    if backend != "torch":
        yield "only PyTorch's DDP is compared"
        return
    if missing := [each for each in ("ip", "tc", "unshare", "nsenter") if not shutil.which(each)]:
        yield f"this machine lacks {', '.join(missing)}"
        return
    with tempfile.TemporaryDirectory() as folder, ExitStack() as scope:
        try:
            hosts = scope.enter_context(two_hosts(Path(folder)))
            for host in hosts:
                host.run("tc", "qdisc", "add", "dev", LINK, "root", "tbf", *RATE)
        except AssertionError as error:
            yield str(error)
            return
        workers = []
        for rank, host in enumerate(hosts):
            settings = {
                "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                "TORCHELASTIC_RUN_ID": "slow-link", "MASTER_ADDR": hosts[0].address,
                "MASTER_PORT": "29531", "GLOO_SOCKET_IFNAME": LINK, "OMP_NUM_THREADS": "1",
            }  # fmt: skip
            command = host.command(sys.executable, __file__, "worker")
            worker = subprocess.Popen(
                command, env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True
            )
            scope.callback(worker.wait)
            scope.callback(worker.kill)
            workers.append(worker)
        printed = [worker.communicate()[0] for worker in workers]
        assert not any(worker.returncode for worker in workers)
        yield from (Row(*json.loads(line)) for line in printed[0].splitlines())


def work() -> int:
    """Both sides interleaved, in each of the two processes."""
    unidev.group()
    for model, at_most in list(MODELS.items())[: sized(2, 1)]:
        times = own_distributed.steps(model)[model]
        what = f"a step, {model}, 1 Gbit/s"
        print(json.dumps(Row("torch", what, "DDP", *times, at_most)), flush=True)
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        ended_by(work)
    main(__doc__ or "", rows_of)
