"""``ListedModels``: models from one list of their tensors, such as a framework's ``state_dict``."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from unidev.contract.dtypes import portable_name
from unidev.contract.models import Models, Stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from unidev.contract.layers import Array, Model, Tensor
    from unidev.device import Device


class ListedModels(Models):
    """The fast way to ``Models``, where a part that moves is a tensor: by ``listed`` and ``swap``.

    ``parameters``, ``trainable``, ``tensors``, ``parts`` and ``stored`` come from ``listed``, and
    ``twin`` and ``write`` from the backend's ``copy_to`` and ``from_numpy``. Override ``twin`` if a
    gradient or flag moves along, or a copy keeps its source, and ``write`` if memory is to stay.
    """

    @abstractmethod
    def listed(self, model: Any) -> Iterable[tuple[str, Tensor, bool | None]]:
        """Each tensor of a model, or of an optimizer: its name, itself, whether it is trained.

        True: a parameter; False: a frozen parameter; None: a buffer. Names are as in ``stored``, so
        a tied parameter comes under each of its names. Changes and computes nothing.
        """

    def native(self, x: Tensor, /) -> object:
        """What tied tensors have in common: by default ``x`` itself."""
        return x

    def gradient(self, x: Tensor) -> Tensor | None:  # noqa: ARG002
        """The gradient that the framework keeps with ``x``: ``x.grad``; by default, none."""
        return None

    def parameters(self, model: Model) -> Mapping[str, Tensor]:
        """All but the buffers, each once."""
        return self._once(model, (True, False))

    def trainable(self, model: Model) -> Mapping[str, Tensor]:
        """Those that are trained, each once."""
        return self._once(model, (True,))

    def tensors(self, model: Model) -> Mapping[str, Tensor]:
        """All of the list, and their gradients."""
        found = {name: x for name, x, _ in self.listed(model)}
        gradients = {f"{name}.grad": self.gradient(x) for name, x in found.items()}
        return found | {name: x for name, x in gradients.items() if x is not None}

    def parts(self, model: Model, optimizer: Any) -> Sequence[Tensor]:
        """The tensors of both, each once."""
        held = [each for each in (model, optimizer) if each is not None]
        return list({id(x): x for each in held for _, x, _ in self.listed(each)}.values())

    def is_on(self, part: Tensor, device: Device) -> bool:
        """Whether the tensor and its gradient are."""
        gradient = self.gradient(part)
        return super().is_on(part, device) and (gradient is None or super().is_on(gradient, device))

    def twin(self, part: Tensor, device: Device) -> Tensor:
        """By ``copy_to``."""
        return self.backend.copy_to(part, device, False)

    def stored(self, model: Model) -> Mapping[str, Stored]:
        """All of the list."""
        return {name: Stored(x) for name, x, _ in self.listed(model)}

    def write(self, x: Tensor, values: Array) -> None:
        """By ``from_numpy`` and ``swap``."""
        if portable_name(x.dtype, self.backend) == "bfloat16":
            values = (values.astype("uint32") << 16).view("float32")
        made = self.backend.from_numpy(values, x.dtype, self.backend.device_of(x))
        self.swap(x, made)

    def _once(self, model: Model, kinds: Sequence[bool | None]) -> dict[str, Tensor]:
        unique: dict[int, tuple[str, Tensor]] = {}
        for name, x, is_trained in self.listed(model):
            if is_trained in kinds:
                unique.setdefault(id(self.native(x)), (name, x))
        return dict(unique.values())
