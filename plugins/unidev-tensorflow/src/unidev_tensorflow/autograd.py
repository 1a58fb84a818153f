"""Gradients by ``tf.GradientTape``."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]
from tensorflow.python import pywrap_tfe  # type: ignore[import-untyped]
from tensorflow.python.eager import record  # type: ignore[import-untyped]

from unidev.contract import Autograd
from unidev_tensorflow.models.swap import native_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    Tensor = Any


class TensorFlowAutograd(Autograd):
    """A tape a call; what it watches are the leaves alone."""

    def leaf(self, x: Tensor) -> Tensor:
        """Any tensor can be watched."""
        return x

    def gradients(
        self, loss_of: Callable[[], Tensor], leaves: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor | None]]:
        """Forward and backward run in one scope; a gradient that lands elsewhere is copied."""
        sources = [native_variable(leaf) for leaf in leaves]
        names = [source.device for source in sources]
        scope = tf.device(names[0]) if len(set(names)) == 1 else contextlib.nullcontext()
        with scope, _recording():
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(sources)
                loss = loss_of()
            found = tape.gradient(loss, sources)
            slopes = [
                None if slope is None else self._settled(slope, name)
                for slope, name in zip(found, names, strict=True)
            ]
            if record.could_possibly_record():  # a tape round this one
                loss, *slopes = (x if x is None else _cut(x) for x in (loss, *slopes))
        return loss, slopes

    def no_grad(self) -> AbstractContextManager[Any]:
        """TensorFlow has no public one that is not of one tape; this is its own, of a thread."""
        scope: AbstractContextManager[Any] = record.stop_recording()
        return scope

    def descend(
        self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], lr: float
    ) -> Sequence[Tensor]:
        """Variables in place; tensors cannot change, and there are new ones."""
        with record.stop_recording():
            return [
                self._step(x, slope, lr) for x, slope in zip(parameters, gradients, strict=True)
            ]

    def _step(self, x: Tensor, slope: Tensor, lr: float) -> Tensor:
        variable = native_variable(x)
        with tf.device(variable.device):
            if isinstance(variable, tf.Variable):
                variable.assign_sub(slope * lr, read_value=False)
                return x
            return variable - slope * lr

    def _settled(self, slope: Tensor, name: str) -> Tensor:
        if isinstance(slope, tf.IndexedSlices):  # of a gather, an embedding
            with tf.device(name):
                slope = tf.convert_to_tensor(slope)
        if slope.device == name:
            return slope
        with tf.device(name):
            return tf.raw_ops.DeepCopy(x=slope)


@contextlib.contextmanager
def _recording() -> Iterator[None]:
    """A scope in which tapes record, within ``no_grad`` as well."""
    if not pywrap_tfe.TFE_Py_TapeSetIsStopped():
        yield
        return
    pywrap_tfe.TFE_Py_TapeSetRestartOnThread()
    try:
        yield
    finally:
        pywrap_tfe.TFE_Py_TapeSetStopOnThread()


def _cut(x: Tensor) -> Tensor:
    with tf.device(x.device):
        return tf.stop_gradient(x)
