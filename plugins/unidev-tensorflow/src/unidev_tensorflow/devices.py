"""Which devices TensorFlow has, how it spells them, and which of ours they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev_tensorflow.deep_copy.eager import CPU_NUMBERS, GPU_NUMBERS

if TYPE_CHECKING:
    from unidev.contract import Backend, Device

_TYPES = {"cpu": "CPU", "gpu": "GPU"}


class LocalDevices:
    """The devices of this process, between unidev's kind and index and TensorFlow's.

    They are the same but for simulated GPUs: ``gpu:i`` is then TensorFlow's ``CPU:(i + 1)``.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._simulated = backend.simulated_count
        self._counts: dict[str, int] = {}
        self.by_name: dict[str, Device] = {}
        """Ours by TensorFlow's full name, as a tensor's ``device`` has it; one dict for good."""
        self.copied_by_name: dict[str, frozenset[int]] = {}
        """Numbers of the dtypes that ``DeepCopy`` takes there."""
        self.full_names: dict[Device, str] = {}

    def count(self, kind: str) -> int:
        """How many of ``kind``, from the configuration: asking starts no runtime.

        Kept once the runtime has started: from then on TensorFlow refuses every change.
        """
        counted = self._counts.get(kind)
        if counted is not None:
            return counted
        if self._simulated:
            return 1 if kind == "cpu" else self._simulated
        visible = tf.config.get_visible_devices(_TYPES[kind])
        return sum(_logical_count(physical) for physical in visible)

    def spec(self, kind: str, index: int) -> Any:
        """TensorFlow's own object for the device."""
        if self._simulated and kind == "gpu":
            kind, index = "cpu", index + 1
        return tf.DeviceSpec(device_type=_TYPES[kind], device_index=index)

    def full_name(self, device: Device) -> str:
        """The name that no scope round it completes or redirects; starts the runtime."""
        name = self.full_names.get(device)
        if name is None:
            self.refresh()
            name = self.full_names[device]
        return name

    @property
    def host_name(self) -> str:
        """The full name of ``cpu:0``."""
        return self.full_name(self._backend.cpu)

    def is_on_host(self, device: Device) -> bool:
        """Whether the device's memory is the host's."""
        return device.kind == "cpu" or self._simulated > 0

    def refresh(self) -> None:
        """Make the tables anew: the first time, and when the program has joined a cluster since.

        Starts the runtime, which is what whoever has a tensor, or makes one, has done anyway.
        """
        with tf.init_scope(), tf.device(None), tf.device("/device:CPU:0"):
            prefix = tf.constant(0).device.removesuffix("device:CPU:0")
        by_name = {}
        for kind in _TYPES:
            self._counts[kind] = self.count(kind)
            for index in range(self._counts[kind]):
                name = prefix + self.spec(kind, index).to_string().removeprefix("/")
                by_name[name] = self._backend.device(kind, index)
        self.copied_by_name = {
            name: CPU_NUMBERS if self.is_on_host(device) else GPU_NUMBERS
            for name, device in by_name.items()
        }
        # In this order: another thread that finds a name finds the rest about it, too.
        self.full_names = {device: name for name, device in by_name.items()}
        self.by_name.update(by_name)  # names of before a cluster was joined no tensor has again

    def parse(self, spec: object) -> tuple[str, int] | None:
        """Kind and index that ``/GPU:1``, a DeviceSpec, or a logical or physical device means."""
        if isinstance(spec, tf.config.PhysicalDevice):
            return self._parse_physical(spec)
        if isinstance(spec, tf.config.LogicalDevice):
            spec = spec.name
        if isinstance(spec, str):
            try:
                spec = tf.DeviceSpec.from_string(spec)
            except ValueError:
                return None
        if not isinstance(spec, tf.DeviceSpec) or not _is_local(spec):
            return None
        return self._parse_type(spec.device_type, spec.device_index or 0)

    def physical(self, index: int) -> Any:
        """The physical GPU behind ``gpu:index``; None if there is no such."""
        for physical in tf.config.get_visible_devices("GPU"):
            index -= _logical_count(physical)
            if index < 0:
                return physical
        return None

    def _parse_type(self, device_type: str | None, index: int) -> tuple[str, int] | None:
        if device_type == "GPU":
            return "gpu", index  # also simulated: they stand in for real ones
        if device_type != "CPU":
            return None
        return ("gpu", index - 1) if self._simulated and index > 0 else ("cpu", index)

    def _parse_physical(self, spec: Any) -> tuple[str, int] | None:
        """The first of the logical devices that the physical one is split into."""
        index = 0
        for physical in tf.config.get_visible_devices(spec.device_type):
            if physical == spec:
                return self._parse_type(spec.device_type, index)
            index += _logical_count(physical)
        return None


def _logical_count(physical: Any) -> int:
    configured = tf.config.get_logical_device_configuration(physical)
    return 1 if configured is None else len(configured)


def _is_local(spec: Any) -> bool:
    # Another task's device is none of this process's; the local task's full names are matched
    # where they come from tensors, by the table.
    return spec.job in (None, "localhost") and not spec.replica and not spec.task
