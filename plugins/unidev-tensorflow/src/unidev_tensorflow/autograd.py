"""Gradients by ``tf.GradientTape``."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]
from tensorflow.python import pywrap_tfe  # type: ignore[import-untyped]
from tensorflow.python.eager import record  # type: ignore[import-untyped]

from unidev.contract import Autograd, kind_of
from unidev.errors import UnsupportedOperation
from unidev_tensorflow.deep_copy.public import copied
from unidev_tensorflow.models.swap import native_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract import Tensor


class TensorFlowAutograd(Autograd):
    """Uses one tape per call, which watches only the leaves."""

    def leaf(self, x: Tensor) -> Tensor:
        """``x`` itself: a tape can watch any tensor that is one.

        Raises:
            UnsupportedOperation: it is made of several.
        """
        if isinstance(x, (tf.RaggedTensor, tf.SparseTensor, tf.IndexedSlices)):
            raise UnsupportedOperation(
                f"the gradient with respect to a {kind_of(x)}",
                "it is made of several tensors: differentiate with respect to its values",
            )
        return x

    def gradients(
        self, loss_of: Callable[[], Tensor], leaves: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor | None]]:
        """Runs forward and backward in one scope; copies gradients that land on other devices."""
        sources = [native_variable(leaf) for leaf in leaves]
        names = [source.device for source in sources]
        scope = tf.device(names[0]) if len(set(names)) == 1 else contextlib.nullcontext()
        with scope, _recording():
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(sources)
                loss = tf.convert_to_tensor(loss_of())  # a variable would change with each step
            found = tape.gradient(loss, sources)
            settled = [
                None if gradient is None else self._settled(gradient, name)
                for gradient, name in zip(found, names, strict=True)
            ]
            if record.could_possibly_record():  # an outer tape is recording
                loss, *settled = (x if x is None else _cut(x) for x in (loss, *settled))
        return loss, settled

    def no_grad(self) -> AbstractContextManager[Any]:
        """TensorFlow's own per-thread scope: its public ones each belong to a single tape."""
        scope: AbstractContextManager[Any] = record.stop_recording()
        return scope

    def descend(
        self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], lr: float
    ) -> Sequence[Tensor]:
        """Updates variables in place; tensors are immutable, and are replaced by new ones."""
        with record.stop_recording():
            return [
                self._step(x, gradient, lr)
                for x, gradient in zip(parameters, gradients, strict=True)
            ]

    def _step(self, x: Tensor, gradient: Tensor, lr: float) -> Tensor:
        variable = native_variable(x)
        with tf.device(variable.device):
            if isinstance(variable, tf.Variable):
                variable.assign_sub(gradient * lr, read_value=False)
                return x
            return variable - gradient * lr

    def _settled(self, gradient: Tensor, name: str) -> Tensor:
        if isinstance(gradient, tf.IndexedSlices):  # the gradient of a gather or an embedding
            with tf.device(gradient.values.device):
                gradient = tf.convert_to_tensor(gradient)
        return gradient if gradient.device == name else copied(gradient, name)


@contextlib.contextmanager
def _recording() -> Iterator[None]:
    """A scope in which tapes record, even inside ``no_grad``."""
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
