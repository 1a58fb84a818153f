"""``Models``: the part of the contract that is about models; ``Stored``: one entry of a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device

    Array = np.ndarray[Any, Any]
    Tensor = Any
    Model = Any
    Part = Any
    """What is moved as one: a tensor, or whatever stands for it and for what hangs on it."""


class Stored(NamedTuple):
    """One entry of a checkpoint."""

    tensor: Tensor
    """The model's own."""
    axes: tuple[int, ...] | None = None
    """``transpose(tensor, axes)`` has the layout that the file has; None: it has it already."""


class Models(ABC):
    """A framework's models: what hangs on one, moving it as a whole, reading and writing it.

    unidev has checked the arguments: a model that arrives here is an instance of the backend's
    ``model_types`` (or a container, if ``takes_containers``), a device is the backend's own and is
    there.
    """

    takes_containers = False
    """Whether nested containers of tensors are models, too."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    # -- what hangs on a model ---------------------------------------------------------------------

    @abstractmethod
    def parameters(self, model: Model) -> Mapping[str, Tensor]:
        """What training changes, frozen ones included, by the framework's names, in its order.

        A tied one stands once, under its first name.

        Raises:
            UnsupportedOperation: they do not exist before the model is built; says how.
        """

    @abstractmethod
    def trainable(self, model: Model) -> Mapping[str, Tensor]:
        """Those of ``parameters`` that are not frozen."""

    @abstractmethod
    def tensors(self, model: Model) -> Mapping[str, Tensor]:
        """Whatever of the model has memory, by path: parameters, buffers, and their gradients.

        A path is what follows the model's name in a message: ``encoder.weight``.
        """

    # -- moving it ---------------------------------------------------------------------------------

    @abstractmethod
    def parts(self, model: Model, optimizer: Any) -> Sequence[Part]:
        """All that has to move with ``model`` and ``optimizer`` (which may be None), each once.

        Nothing is changed yet.

        Raises:
            UnsupportedOperation: this model cannot be moved; says why, and what to do.
        """

    @abstractmethod
    def twin(self, part: Part, device: Device) -> Part:
        """A part with the same values in new memory on ``device``, for ``swap``.

        ``part`` is left as it is. Every byte that moves comes through here, before any ``swap``.
        """

    @abstractmethod
    def swap(self, part: Part, twin: Part) -> None:
        """Exchange the memory of the two; the part stays the object it is.

        With it goes what the framework keeps beside the memory (its device, the gradient); what the
        user has put there (flags, hooks) stays. Swapped again, both are as they were. Raises before
        it changes anything, or not at all.
        """

    def is_on(self, part: Part, device: Device) -> bool:
        """Whether ``part`` is on ``device`` with all that goes with it."""
        return self.backend.device_of(part) is device

    def is_placed(self, model: Model, device: Device) -> bool:
        """Whether all of ``model`` is on ``device``: quick, as it is asked of every model.

        Raises as ``parts`` does, or says False of what that would raise for.
        """
        device_of = self.backend.device_of
        return all(device_of(tensor) is device for tensor in self.tensors(model).values())

    def finish(self, model: Model, optimizer: Any, device: Device) -> Any:  # noqa: ARG002
        """Whatever is to be done once all parts are swapped; gives the optimizer to go on with.

        Not called where nothing moved. If it raises, everything is swapped back.
        """
        return optimizer

    def place(self, model: Model, device: Device, optimizer: Any = None) -> Any:
        """Move ``model`` in place, and ``optimizer`` with it; gives the optimizer to go on with.

        All has arrived before anything is given up; what fails or is interrupted half way leaves
        the model where it was, whole.
        """
        parts = [part for part in self.parts(model, optimizer) if not self.is_on(part, device)]
        if not parts:
            return optimizer
        twins = [self.twin(part, device) for part in parts]
        swapped = []
        try:
            for pair in zip(parts, twins, strict=True):
                swapped.append(pair)  # first: Ctrl-C may come when the swap is just done
                self.swap(*pair)
            return self.finish(model, optimizer, device)
        except BaseException:
            for part, twin in reversed(swapped):
                if self.is_on(part, device):
                    self.swap(part, twin)
            raise

    # -- checkpoints -------------------------------------------------------------------------------

    @abstractmethod
    def stored(self, model: Model) -> Mapping[str, Stored]:
        """What a checkpoint holds: parameters, and the buffers that the framework itself saves.

        By names that are the same each time such a model is built; a tied one stands under each of
        its names. Layers that ``unidev.nn`` made go by the portable names and layouts, which are
        ``weight`` (outputs first; of a convolution ``(out, in, height, width)``), ``bias``,
        ``running_mean`` and ``running_var``, after the position in ``sequential``: ``0.weight``.
        """

    def read(self, x: Tensor) -> Array:
        """The values of ``x`` on the host, as NumPy has them; of bfloat16, its bits as uint16.

        May be the memory of ``x`` itself, of any strides: who asks looks at it before anything else
        changes, writes nothing to it, and copies what is to stay. Saving is faster without a copy.
        """
        return self.backend.to_numpy(x)

    @abstractmethod
    def write(self, x: Tensor, values: Array) -> None:
        """Put ``values``, as ``read`` gives them, into the memory of ``x``, wherever that is.

        Where a variable is written to by giving it a tensor's memory, that is new memory on its
        device. No autograd records it. ``values`` has the shape and dtype of ``x`` and any strides,
        and may be gone when this returns.
        """
