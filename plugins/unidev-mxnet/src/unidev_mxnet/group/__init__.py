"""MXNet's kvstore between workers, and what it needs from the launcher.

Imports no framework: a launcher reads it.
"""

from __future__ import annotations

from unidev.contract import Arrangement, GroupSetting, HelperProcess, Rendezvous

_PROGRAM = "import numpy; numpy.bool = numpy.bool_; import mxnet"
"""MXNet reads its role when it is imported, serves, and ends the process. It needs the name that
NumPy 1.24 removed; with the plugin, or through unidev, it would do so while a plugin is loaded."""

MOST_WORKERS = 2
"""More of them do not use the kvstore: the host is faster."""


class MxnetSetting(GroupSetting):
    """A scheduler and a server beside two workers, all on the addresses of their hosts."""

    helper_ports = 1

    def prepare(self, rendezvous: Rendezvous) -> Arrangement:
        """The scheduler has the helpers' port; the others' are MXNet's choice."""
        if rendezvous.size > MOST_WORKERS:
            return Arrangement(environment=({},) * rendezvous.size)
        shared = {
            "DMLC_PS_ROOT_URI": rendezvous.hosts[0],
            "DMLC_PS_ROOT_PORT": str(rendezvous.helper_ports[0]),
            "DMLC_NUM_WORKER": str(rendezvous.size),
            "DMLC_NUM_SERVER": "1",
        }

        def variables(role: str, host: str) -> dict[str, str]:
            # Without its host's address, each would listen on all interfaces.
            return {**shared, "DMLC_ROLE": role, "DMLC_NODE_HOST": host}

        return Arrangement(
            environment=tuple(variables("worker", host) for host in rendezvous.hosts),
            helpers=tuple(
                HelperProcess(
                    f"MXNet's {role}", ("-c", _PROGRAM), variables(role, rendezvous.hosts[0])
                )
                for role in ("scheduler", "server")
            ),
        )
