"""torch.distributed between workers, and what it needs from the launcher.

Imports no framework: a launcher reads it.
"""

from __future__ import annotations

import sys

from unidev.contract import Arrangement, GroupSetting, Rendezvous


class TorchSetting(GroupSetting):
    """A file as the store on one machine, torchrun's variables between machines.

    On one machine nothing listens beyond loopback. Between machines torch listens on the address
    that the host's name resolves to, and rank 0 with its store.
    """

    def prepare(self, rendezvous: Rendezvous) -> Arrangement:
        """Torchrun's variables, which a program may also read."""
        shared = {
            "MASTER_ADDR": rendezvous.hosts[0],
            "MASTER_PORT": str(rendezvous.ports[0]),
            "WORLD_SIZE": str(rendezvous.size),
        }
        if rendezvous.folder is not None:
            # Else both listen on the address that the host's name resolves to.
            loopback = "lo" if sys.platform == "linux" else "lo0"
            shared |= {"GLOO_SOCKET_IFNAME": loopback, "NCCL_SOCKET_IFNAME": loopback}
        listens = None
        if rendezvous.folder is None:
            listens = (
                f"the store of PyTorch's rank 0 listens on all interfaces of {rendezvous.hosts[0]},"
                f" at port {rendezvous.ports[0]}"
            )
        return Arrangement(
            tuple({**shared, "RANK": str(rank)} for rank in range(rendezvous.size)), listens=listens
        )
