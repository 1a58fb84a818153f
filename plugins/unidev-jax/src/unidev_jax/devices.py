"""JAX's devices, and the matching devices of unidev."""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache
from importlib.metadata import distributions, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unidev.contract import visible_gpus
from unidev.errors import DeviceNotFoundError
from unidev_jax.framework import jax

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from unidev.contract import Backend

_ACCELERATOR = re.compile(r"(?:cuda|rocm|tpu|METAL)(?::(\d+))?")
"""JAX's names for its accelerators, such as ``cuda:1``."""
_SIMULATED = re.compile(r"CpuDevice\(id=(\d+)\)")
_PLUGIN = re.compile(r"jax-(cuda|rocm)(\d+)-plugin")
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
        """The number of devices of ``kind``; GPUs as their driver counts them.

        Starts no runtime, unless a plugin of JAX's for an accelerator is installed that is neither
        CUDA's nor ROCm's, or their driver does not answer: then only the runtime counts them.
        """
        if kind in self._found:
            return len(self._found[kind])
        if kind == "gpu":
            if self._simulated:
                return self._simulated
            counted = gpus_of_the_driver()
            return len(self.all_of(kind)) if counted is None else counted
        return 1 if self._simulated else _configured_cpus()

    def all_of(self, kind: str) -> Sequence[Any]:
        """JAX's own objects for the devices of ``kind``; starts the runtime."""
        found = self._found.get(kind)
        if found is None:
            found = self._found[kind] = self._list(kind)
        return found

    def native(self, kind: str, index: int) -> Any:
        """JAX's own object for a device; starts the runtime.

        Raises:
            DeviceNotFoundError: the driver shows a GPU that JAX's runtime does not use.
        """
        natives = self.all_of(kind)
        if index >= len(natives):
            raise DeviceNotFoundError(
                f"{kind}:{index} is not available: the driver shows it, but JAX's runtime has "
                f"{len(natives)} of that kind. What jax.devices() prints and `unidev doctor` may "
                "say why.",
                spec=f"{kind}:{index}",
            )
        return natives[index]

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
        native = self.native(kind, index)
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


def gpus_of_the_driver() -> int | None:
    """The number of GPUs that JAX will find; None: only its runtime reports it.

    Each accelerator is a plugin of JAX's, a distribution of its own.
    """
    if jax.config.jax_platforms == "cpu":
        return 0
    plugins = {accelerator for accelerator, _ in gpu_plugins()}
    if not plugins and not _has_other_plugins():
        return 0
    chosen = {platform for platform in ("cuda", "rocm") if _allows(platform) or _allows("gpu")}
    if len(plugins & chosen) != 1 or plugins - chosen:
        return None
    (accelerator,) = plugins
    if getattr(jax.config, f"jax_{accelerator}_visible_devices", "all") != "all":
        return None
    return visible_gpus(accelerator)


def gpu_plugins() -> list[tuple[str, str]]:
    """The accelerator and version of each plugin of JAX's that is installed for a GPU."""
    times = [(path, Path(path).stat().st_mtime_ns) for path in sys.path if Path(path).is_dir()]
    return list(_plugins_of(distributions, tuple(times)))


@lru_cache(maxsize=1)
def _plugins_of(
    listed: Callable[[], Iterable[Any]], _times: tuple[tuple[str, int], ...]
) -> tuple[tuple[str, str], ...]:
    """Kept while no folder of ``sys.path`` changes: reading all names takes a tenth of a second."""
    names = {each.metadata["Name"].lower().replace("_", "-") for each in listed()}
    found = map(_PLUGIN.fullmatch, sorted(names))
    return tuple((each[1], each[2]) for each in found if each)


def _has_other_plugins() -> bool:
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
