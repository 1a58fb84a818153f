"""paddle.distributed between workers, and what it needs from the launcher.

Imports no framework: a launcher reads it.
"""

from __future__ import annotations

import os
import sys

from unidev.contract import Arrangement, GroupSetting, Rendezvous

_LOG_LEVEL = "GLOG_minloglevel"


class PaddleSetting(GroupSetting):
    """The variables that ``paddle.distributed.launch`` sets, which a program may also read."""

    def prepare(self, rendezvous: Rendezvous) -> Arrangement:
        """Rank 0 has the store, on its port."""
        places = zip(rendezvous.hosts, rendezvous.ports, strict=True)
        endpoints = [f"{host}:{port}" for host, port in places]
        shared = {
            "PADDLE_MASTER": endpoints[0],
            "PADDLE_TRAINERS_NUM": str(rendezvous.size),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
            # Paddle's libraries log each connection.
            _LOG_LEVEL: os.environ.get(_LOG_LEVEL, "2"),
        }
        if rendezvous.folder is not None:
            # Else gloo listens on the address that the host's name resolves to.
            shared["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"
        return Arrangement(
            tuple(
                {**shared, "PADDLE_TRAINER_ID": str(rank), "PADDLE_CURRENT_ENDPOINT": endpoint}
                for rank, endpoint in enumerate(endpoints)
            ),
            listens="the store of Paddle's rank 0 listens on all interfaces of its host",
        )
