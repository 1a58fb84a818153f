"""The parts of the backend that are imported when they are first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from unidev.backend import Backend

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev_paddle.autograd import PaddleAutograd
    from unidev_paddle.functions import PaddleFunctions
    from unidev_paddle.installation import PaddleInstallation
    from unidev_paddle.layers import PaddleLayers
    from unidev_paddle.models import PaddleModels
    from unidev_paddle.peaks import PaddlePeaks
    from unidev_paddle.probe import PaddleProbe
    from unidev_paddle.tracer import PaddleTracer


class OptionalParts(Backend):
    """What a ``Backend`` may do besides."""

    @cached_property
    def probe(self) -> PaddleProbe:  # type: ignore[override]  # read-only is enough here
        """Paddle's probe."""
        from unidev_paddle.probe import PaddleProbe

        return PaddleProbe(self)

    @cached_property
    def models(self) -> PaddleModels:  # type: ignore[override]  # read-only is enough here
        """Layers."""
        from unidev_paddle.models import PaddleModels

        return PaddleModels(self)

    @cached_property
    def autograd(self) -> PaddleAutograd:  # type: ignore[override]  # as above
        """``paddle.grad``."""
        from unidev_paddle.autograd import PaddleAutograd

        return PaddleAutograd(self)

    @cached_property
    def layers(self) -> PaddleLayers:  # type: ignore[override]  # as above
        """``paddle.nn``."""
        from unidev_paddle.layers import PaddleLayers

        return PaddleLayers(self)

    @cached_property
    def functions(self) -> PaddleFunctions:  # type: ignore[override]  # as above
        """``paddle.nn.functional``."""
        from unidev_paddle.functions import PaddleFunctions

        return PaddleFunctions(self)

    @cached_property
    def installation(self) -> PaddleInstallation:  # type: ignore[override]  # as above
        """What it was built for."""
        from unidev_paddle.installation import PaddleInstallation

        return PaddleInstallation(self)

    @cached_property
    def peaks(self) -> PaddlePeaks:  # type: ignore[override]  # as above
        """Paddle's statistics."""
        from unidev_paddle.peaks import PaddlePeaks

        return PaddlePeaks(self)

    @cached_property
    def pinned(self) -> Callable[[Any], Any]:  # type: ignore[override]  # as above
        """Pinned for a GPU."""
        from unidev_paddle.peaks import pinning_of

        return pinning_of(self)

    @cached_property
    def tracer(self) -> PaddleTracer:  # type: ignore[override]  # as above
        """What Paddle moves by its own calls."""
        from unidev_paddle.tracer import PaddleTracer

        return PaddleTracer(self)
