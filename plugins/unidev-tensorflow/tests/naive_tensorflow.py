"""TensorFlow with other copies, as plugins for the suite: what its GPUs keep of each is counted."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import unidev_tensorflow
from unidev.backends.loading import load_class
from unidev.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract.backend import Backend
    from unidev.contract.backend_spec import BackendSpec


@dataclasses.dataclass(frozen=True, eq=False)  # pluggy keeps plugins in dicts: compare by `is`
class NaiveBackend:
    """The plugin, but for how its backend copies."""

    name: str
    copy: Callable[[Any, Any], Any]
    """``copy(x, device)``, with a ``Device``."""

    @hookimpl
    def unidev_register_backend(self) -> BackendSpec:
        """As the plugin does, under another name."""
        spec: BackendSpec = unidev_tensorflow.unidev_register_backend()
        return dataclasses.replace(spec, name=f"naive_{self.name}", load=self.load)

    def load(self) -> type[Backend]:
        """The backend, with another copy."""
        copy = self.copy

        class Naive(load_class(unidev_tensorflow.unidev_register_backend())):  # type: ignore[misc]  # known when it is loaded
            """The backend, but for how it copies."""

            def copy_to(self, x: Any, device: Any, non_blocking: bool) -> Any:
                """The naive call."""
                return copy(x, device)

            def copy_if_there(self, x: Any, device: Any) -> Any:
                """The naive call, too."""
                return copy(x, device) if self.device_of(x) is device else None

        return Naive


def _deep_copy(x: Any, device: Any) -> Any:
    """TensorFlow brings ``x`` over first, and keeps that with ``x``."""
    import tensorflow as tf

    with tf.device(device.native_name):
        return tf.raw_ops.DeepCopy(x=x)


def _ours(x: Any, device: Any) -> Any:
    from unidev_tensorflow.deep_copy.public import copied

    return copied(x, f"/job:localhost/replica:0/task:0{device.native_name}")


deep_copy = NaiveBackend("deep_copy", _deep_copy)
ours = NaiveBackend("ours", _ours)
