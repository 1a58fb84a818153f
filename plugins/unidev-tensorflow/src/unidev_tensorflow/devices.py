"""TensorFlow's devices, its names for them, and the matching devices of unidev."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev_tensorflow.deep_copy.eager import CPU_NUMBERS, GPU_NUMBERS

if TYPE_CHECKING:
    from unidev.contract import Backend, Device

_TYPES = {"cpu": "CPU", "gpu": "GPU"}


class LocalDevices:
    """The devices of this process, mapped between unidev's kind and index and TensorFlow's.

    They agree except for simulated GPUs, where ``gpu:i`` is TensorFlow's ``CPU:(i + 1)``.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._simulated = backend.simulated_count
        self._counts: dict[str, int] = {}
        self.by_name: dict[str, Device] = {}
        """Our devices by TensorFlow's full name, as in ``x.device``; always the same dict."""
        self.copied_by_name: dict[str, frozenset[int]] = {}
        """The type numbers of the dtypes that ``DeepCopy`` takes there."""
        self.full_names: dict[Device, str] = {}

    def count(self, kind: str) -> int:
        """The number of devices of ``kind``, from the configuration; starts no runtime.

        Cached once the runtime has started: TensorFlow then refuses every change.
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
        """The full name, which no enclosing scope completes or redirects; starts the runtime."""
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
        """Rebuild the tables: on first use, and after the program has joined a cluster.

        Starts the runtime, which any code that has or makes a tensor has started anyway.
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
        # In this order: another thread that finds a name also finds the rest.
        self.full_names = {device: name for name, device in by_name.items()}
        self.by_name.update(by_name)  # no tensor has names from before joining a cluster any more

    def parse(self, spec: object) -> tuple[str, int] | None:
        """The kind and index of ``/GPU:1``, a DeviceSpec, or a logical or physical device."""
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
        """The physical GPU behind ``gpu:index``, or None."""
        for physical in _visible("GPU"):
            index -= _logical_count(physical)
            if index < 0:
                return physical
        return None

    def hardware_index(self, index: int) -> int | None:
        """CUDA's number of the card behind ``gpu:index``; None if it is not a card.

        TensorFlow numbers its physical devices as CUDA does, and its logical ones anew.
        """
        physical = self.physical(index)
        return None if physical is None else tf.config.list_physical_devices("GPU").index(physical)

    def _parse_type(self, device_type: str | None, index: int) -> tuple[str, int] | None:
        if device_type == "GPU":
            return "gpu", index  # simulated ones too: they stand in for real ones
        if device_type != "CPU":
            return None
        return ("gpu", index - 1) if self._simulated and index > 0 else ("cpu", index)

    def _parse_physical(self, spec: Any) -> tuple[str, int] | None:
        """The first of the logical devices into which the physical one is split."""
        index = 0
        for physical in _visible(spec.device_type):
            if physical == spec:
                return self._parse_type(spec.device_type, index)
            index += _logical_count(physical)
        return None


def _visible(device_type: str) -> list[Any]:
    """The visible physical devices, in the order in which TensorFlow numbers their logical ones.

    That is the order of the hardware; ``get_visible_devices`` has the order in which they were set.
    """
    visible = tf.config.get_visible_devices(device_type)
    return [each for each in tf.config.list_physical_devices(device_type) if each in visible]


def _logical_count(physical: Any) -> int:
    configured = tf.config.get_logical_device_configuration(physical)
    return 1 if configured is None else len(configured)


def _is_local(spec: Any) -> bool:
    # Another task's devices do not belong to this process; full names of the local task come from
    # tensors and are looked up in the table.
    return spec.job in (None, "localhost") and not spec.replica and not spec.task
