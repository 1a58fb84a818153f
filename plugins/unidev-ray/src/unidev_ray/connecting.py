"""Connecting to Ray: one of the run's own, which only this process can use, or a cluster."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unidev.errors import InvalidDataError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack

LOOPBACK = "127.0.0.1"
_REACH_S = 10.0
_QUIET: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
_token: str | None = None
"""Ray reads it once for each process, when it is imported."""


def own_ray(scope: ExitStack, size: int, folder: str) -> Any:
    """Ray, with a place for ``size`` workers on this machine; ``scope`` ends it.

    Raises:
        UnsupportedOperation: this process has imported or started Ray before.
    """
    scope.enter_context(_variables(_of_own_ray()))
    import ray  # now, since it reads these variables

    if ray.is_initialized():
        raise UnsupportedOperation(
            "a Ray of the run's own",
            "this process is connected to a Ray already: pass address=…, such as "
            f'"{ray.get_runtime_context().gcs_address}"',
        )
    scope.callback(ray.shutdown)
    ray.init(
        address="local", include_dashboard=False, num_cpus=size, _temp_dir=folder,
        _node_ip_address=LOOPBACK, **_QUIET,
    )  # fmt: skip
    return ray


def cluster(scope: ExitStack, address: str) -> Any:
    """Ray, connected to a cluster, unless this process is already; ``scope`` disconnects it.

    Raises:
        InvalidDataError: there is none at that address.
    """
    import ray

    if ray.is_initialized():
        return ray
    _check_reachable(address)
    scope.callback(ray.shutdown)
    try:
        ray.init(address=address, **_QUIET)
    except ConnectionError as error:
        raise InvalidDataError(
            f"no Ray cluster was found at address={address!r}: start one with `ray start --head`, "
            "and pass its HOST:PORT."
        ) from error
    return ray


def _of_own_ray() -> dict[str, str]:
    """Variables of a Ray that no one else can use: it listens on loopback, and has a token.

    Raises:
        UnsupportedOperation: it is too late for a token.
    """
    global _token  # noqa: PLW0603  one for each process
    own = {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    if os.environ.get("RAY_AUTH_MODE") == "token":  # the user's own
        return own
    if _token is None:
        if "ray" in sys.modules:
            raise UnsupportedOperation(
                "a Ray of the run's own",
                "this program has imported ray before, without a token: set RAY_AUTH_MODE=token "
                "and RAY_AUTH_TOKEN, import ray later, or pass the address of a cluster",
            )
        _token = secrets.token_hex(32)
    return {**own, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _token}


@contextmanager
def _variables(values: dict[str, str]) -> Iterator[None]:
    """A block with these variables; Ray sets others, which go with them."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in os.environ.keys() | before.keys():
            if name in before:
                os.environ[name] = before[name]
            elif name.startswith("RAY_") or name == "PYTHONBREAKPOINT":
                del os.environ[name]


def _check_reachable(address: str) -> None:
    """Ray itself would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidDataError(f'address must be "auto" or "host:port", not {address!r}.')
    try:
        socket.create_connection((host, int(port)), timeout=_REACH_S).close()
    except OSError as error:
        raise InvalidDataError(
            f"nothing answers at address={address!r}: {error}. `ray start --head` prints the "
            "address of a cluster."
        ) from error
