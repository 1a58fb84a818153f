"""Additions of the layers of ``unidev.nn`` to Keras's: mode, device, layout, names of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from unidev_tensorflow.nn.images import converted
from unidev_tensorflow.scopes import scope_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unidev.contract import Tensor


class Weight(NamedTuple):
    """A variable of a layer, and its layout in a checkpoint."""

    variable: Any
    axes: tuple[int, ...] | None = None
    """See ``Stored``."""
    is_parameter: bool = True


class PortableLayer:
    """Mixin of all layers here: their mode, device, layout, and portable names of weights."""

    is_training_mode = True
    """The meaning of ``training=None``: a layer is in training mode unless that is changed."""
    takes_any_layout = False
    """Whether ``channels_last`` works whichever axis holds the channels."""

    def channels_last(self, x: Tensor, training: bool) -> Tensor:
        """Compute the layer, in the scope of its device; images are NHWC."""
        raise NotImplementedError

    def portable_weights(self) -> Mapping[str, Weight]:
        """The layer's variables, by their names in a checkpoint."""
        return {}

    def home(self) -> Any:
        """A variable whose device the layer computes on; None: that of its input."""
        return None

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Keras's entry point: ``training`` from ``fit`` or the caller wins."""
        if training is None:
            training = self.is_training_mode
        with scope_of(inputs if (home := self.home()) is None else home):
            if self.takes_any_layout:
                return self.channels_last(inputs, training)
            return converted(lambda x: self.channels_last(x, training), inputs)


class WeightlessLayer(PortableLayer):
    """A layer with nothing to build; newer versions of Keras mark it as built themselves."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.built = True
