"""JAX's collectives between workers, and what these need from the launcher.

Imports no framework: a launcher reads it.
"""

from __future__ import annotations

from unidev.contract import Arrangement, GroupSetting, HelperProcess, Rendezvous

NEVER_S = 30 * 86_400
"""After how long without a heartbeat a worker counts as dead: unidev watches the workers itself.

JAX would end all others, whatever they do."""
ADDRESS, SIZE = "UNIDEV_JAX_SERVICE", "UNIDEV_JAX_WORKERS"
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_PROGRAM = f"""
import os, threading
from jaxlib import _jax
service = _jax.get_distributed_runtime_service(
    os.environ[{ADDRESS!r}], int(os.environ[{SIZE!r}]), heartbeat_timeout={NEVER_S},
    shutdown_timeout=1, recoverable=True,
)
threading.Event().wait()
"""


class JaxSetting(GroupSetting):
    """JAX's coordination service, by which the workers find one another, in a process of its own.

    ``jax.distributed.initialize`` starts it in the worker of rank 0. When that worker ends, or
    leaves, JAX's client aborts all others (0.10.2): nobody could catch the error of a collective,
    or return after worker 0.
    """

    helper_ports = 1

    def prepare(self, rendezvous: Rendezvous) -> Arrangement:
        """The service has the helpers' port on the host of rank 0."""
        environment: tuple[dict[str, str], ...] = ({},) * rendezvous.size
        if not is_used(rendezvous):
            return Arrangement(environment)
        address = service_address(rendezvous)
        shared = {ADDRESS: address, SIZE: str(rendezvous.size), _LOG_LEVEL: "2"}
        return Arrangement(
            environment,
            (HelperProcess("JAX's coordination service", ("-c", _PROGRAM), shared),),
            f"JAX's coordination service listens at {address}, and gloo at each worker's host",
        )


def is_used(rendezvous: Rendezvous) -> bool:
    """Whether the workers are on several machines: on one, unidev exchanges by shared memory."""
    return rendezvous.folder is None


def service_address(rendezvous: Rendezvous) -> str:
    """Where the coordination service is."""
    return f"{rendezvous.hosts[0]}:{rendezvous.helper_ports[0]}"
