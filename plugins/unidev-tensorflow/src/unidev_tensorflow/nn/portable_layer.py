"""What the layers of ``unidev.nn`` have in common besides being Keras's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from unidev_tensorflow.nn.images import converted
from unidev_tensorflow.scopes import scope_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    Tensor = Any


class Weight(NamedTuple):
    """A variable of a layer, and how a checkpoint has it."""

    variable: Any
    axes: tuple[int, ...] | None = None
    """As in ``Stored``."""
    is_parameter: bool = True


class PortableLayer:
    """What all layers here have besides being Keras's."""

    is_training_mode = True
    """What ``training=None`` means: a layer trains unless it is told otherwise."""
    takes_any_layout = False
    """Whether it does not matter to ``channels_last`` which axis the channels are."""

    def channels_last(self, x: Tensor, training: bool) -> Tensor:
        """What the layer does, in the scope of its device; images are NHWC."""
        raise NotImplementedError

    def portable_weights(self) -> Mapping[str, Weight]:
        """Its variables, by their names in a checkpoint."""
        return {}

    def home(self) -> Any:
        """A variable of it, where it computes; None: where its input is."""
        return None

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Keras's entry: what ``fit``, or the caller, says of training wins."""
        if training is None:
            training = self.is_training_mode
        with scope_of(inputs if (home := self.home()) is None else home):
            if self.takes_any_layout:
                return self.channels_last(inputs, training)
            return converted(lambda x: self.channels_last(x, training), inputs)


class WeightlessLayer(PortableLayer):
    """A layer with nothing to build; newer versions of Keras say so themselves."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.built = True
