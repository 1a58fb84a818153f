"""JAX's devices, and the matching devices of unidev."""

from __future__ import annotations

import os
import re
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from unidev_jax.framework import jax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract import Backend

_ACCELERATOR = re.compile(r"(?:cuda|rocm|tpu|METAL)(?::(\d+))?")
"""JAX's names for its accelerators, such as ``cuda:1``."""
_SIMULATED = re.compile(r"CpuDevice\(id=(\d+)\)")
_FORCED = re.compile(r"--xla_force_host_platform_device_count=(\d+)")


class LocalDevices:
    """The devices of this process, mapped between unidev's kind and index and JAX's.

    They agree except for simulated GPUs, where ``gpu:i`` is JAX's ``cpu:(i + 1)``. JAX starts its
    runtime, and its threads, when it is asked for a device, and fixes them for the process then.
    """

    def __init__(self, backend: Backend) -> None:
        self._simulated = backend.simulated_count
        self._found: dict[str, Sequence[Any]] = {}

    def count(self, kind: str) -> int:
        """The number of devices of ``kind``.

        Starts no runtime, unless a plugin of JAX's for an accelerator is installed: only the
        runtime reports how many of these there are.
        """
        if kind in self._found:
            return len(self._found[kind])
        if kind == "gpu":
            if self._simulated:
                return self._simulated
            return len(self.all_of(kind)) if _may_have_accelerators() else 0
        return 1 if self._simulated else _configured_cpus()

    def all_of(self, kind: str) -> Sequence[Any]:
        """JAX's own objects for the devices of ``kind``; starts the runtime."""
        found = self._found.get(kind)
        if found is None:
            found = self._found[kind] = self._list(kind)
        return found

    def parse(self, spec: object) -> tuple[str, int] | None:
        """The kind and index of a ``jax.Device``, of a sharding on one, or of JAX's name."""
        if isinstance(spec, jax.sharding.SingleDeviceSharding):
            (spec,) = spec.device_set
        if isinstance(spec, jax.Device):
            for kind in ("cpu", "gpu"):
                if (natives := self.all_of(kind)) and spec in natives:
                    return kind, natives.index(spec)
            return None
        if not isinstance(spec, str):
            return None
        if found := _ACCELERATOR.fullmatch(spec):
            return "gpu", int(found[1] or 0)
        if self._simulated and (found := _SIMULATED.fullmatch(spec)):
            return self._parse_id(int(found[1]))
        return None

    def name(self, kind: str, index: int) -> str:
        """JAX's own spelling: ``cuda:1``; of simulated GPUs, which it calls CPUs, its longer one.

        That is because ``cpu:1`` means unidev's.
        """
        native = self.all_of(kind)[index]
        return repr(native) if self._simulated else str(native)

    def _parse_id(self, number: int) -> tuple[str, int]:
        # Those of a process are numbered on from its first, which jax.distributed chooses.
        index = number - self.all_of("cpu")[0].id
        return ("gpu", index - 1) if index > 0 else ("cpu", index)

    def _list(self, kind: str) -> Sequence[Any]:
        if self._simulated:
            devices: list[Any] = jax.local_devices(backend="cpu")
            return devices[:1] if kind == "cpu" else devices[1 : self._simulated + 1]
        if kind == "cpu":
            return jax.local_devices(backend="cpu") if _allows("cpu") else []
        # Of the default platform, which JAX chooses: the accelerator's, if there is one.
        return [each for each in jax.local_devices() if each.platform != "cpu"]


def _allows(platform: str) -> bool:
    """Whether ``jax_platforms``, also as ``JAX_PLATFORMS``, leaves JAX that platform."""
    chosen = jax.config.jax_platforms
    return not chosen or platform in chosen.split(",")


def _may_have_accelerators() -> bool:
    """Whether JAX is installed with more than its CPU: each accelerator is a plugin of JAX's."""
    if jax.config.jax_platforms == "cpu":
        return False
    return (
        find_spec("jax_plugins") is not None
        or find_spec("libtpu") is not None
        or bool(entry_points(group="jax_plugins"))
    )


def _configured_cpus() -> int:
    if not _allows("cpu"):
        return 0
    count = int(jax.config.jax_num_cpu_devices)
    if count > 0:
        return count
    forced = _FORCED.findall(os.environ.get("XLA_FLAGS", ""))
    return int(forced[-1]) if forced else 1
