"""A step of ``DataParallel`` over a link of 1 Gbit/s, against DDP: two hosts in namespaces.

8 M parameters twice: in two layers with a batch so small that a step is little but their 32 MiB,
and in eight with one that takes as long to compute as they take on the link.

``python benchmarks/slow_link.py`` on Linux, as root or where user namespaces are allowed; needs
``ip`` and ``tc``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/helpers"))

RATE = ("rate", "1gbit", "burst", "128kb", "latency", "50ms")
MODELS = {"8 M parameters": 1.05, "8 M parameters in 8 layers": 0.8}
"""With the limit of each ratio."""


def main() -> int:
    """Print the times and the ratios; 1 if one is above its limit."""
    from two_hosts import LINK, two_hosts

    with tempfile.TemporaryDirectory() as folder, two_hosts(Path(folder)) as hosts:
        for host in hosts:
            host.run("tc", "qdisc", "add", "dev", LINK, "root", "tbf", *RATE)
        workers = [
            subprocess.Popen(
                host.command(sys.executable, __file__, "worker"),
                env={
                    **os.environ,
                    "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0",
                    "LOCAL_WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "slow-link",
                    "MASTER_ADDR": hosts[0].address, "MASTER_PORT": "29531",
                    "GLOO_SOCKET_IFNAME": LINK, "OMP_NUM_THREADS": "1", "UNIDEV_BACKEND": "torch",
                },
                stdout=None if rank == 0 else subprocess.DEVNULL,
            )
            for rank, host in enumerate(hosts)
        ]  # fmt: skip
        return max(worker.wait() for worker in workers)


def worker() -> int:
    """Both sides interleaved, in each of the two processes."""
    import own_distributed

    import unidev

    unidev.group()
    is_slow = False
    for model, at_most in MODELS.items():
        ours, theirs, ratio = own_distributed.steps(model)[model]
        print(f"{model}: {ours * 1e3:.1f} ms, DDP {theirs * 1e3:.1f} ms, ratio {ratio:.3f}")
        is_slow |= ratio > at_most
    return int(is_slow)


if __name__ == "__main__":
    sys.exit(worker() if sys.argv[1:] == ["worker"] else main())
