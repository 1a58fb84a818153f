"""Means and variances of a batch that is spread over the workers, for batch normalisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.backends.boundary import call
from unidev.contract.layers import Moments
from unidev.parallel.devices.packing import unrecorded
from unidev.parallel.exchange.exchanging import NEW_MEMORY
from unidev.parallel.exchange.trees import Tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract.backend import Backend
    from unidev.parallel.exchange.exchanging import Exchange

    Tensor = Any


class BatchMoments:
    """Combines the moments of all workers' rows, for each layer in the order of one forward.

    It may run in a thread of autograd's, while the one that runs the user's function waits for it.
    """

    def __init__(self, exchange: Exchange, backend: Backend, rows: int | None) -> None:
        """``rows``: this worker's weight in a mean of losses; None: losses are added."""
        self._exchange = exchange
        self._backend = backend
        self._rows = rows
        self._layers = 0

    def __call__(self, mean: Tensor, deviations: Tensor, count: int) -> Moments:
        """The moments of all workers' values, from those of this worker's."""
        backend, device = self._backend, self._backend.device_of(mean)
        number, self._layers = self._layers, self._layers + 1
        with device, unrecorded(backend):
            own = [mean, deviations, backend.full((1,), float(count), mean.dtype, device)]
            names = [f"{x} for batch norm {number}" for x in ("means", "deviations", "count")]
            gathered = call(
                backend, self._exchange.all_gather, Tree.of_own(names, own, backend),
                doing="normalising over the workers",
            )  # fmt: skip
            means, spreads, counts = zip(*gathered, strict=True)
            total = _sum(counts)
            shares = [each / total for each in counts]
            middle = _sum([x * share for x, share in zip(means, shares, strict=True)])
            apart = [x - middle for x in means]
            # Not the mean of squares less the square of the mean: that loses its digits.
            within = _sum(spreads) / total
            between = _sum([x * x * share for x, share in zip(apart, shares, strict=True)])
        rank = self._exchange.rank
        share, distance = shares[rank], apart[rank]

        def gradients(of_mean: Tensor, of_variance: Tensor) -> tuple[Tensor, Tensor]:
            with device, unrecorded(backend):
                by_mean, by_variance = self._summed(number, [of_mean, of_variance])
                pulled = by_variance * distance * 2.0
                return (by_mean + pulled) * share, by_variance / total

        return Moments(middle, within + between, total, gradients)

    def _summed(self, number: int, own: list[Tensor]) -> Sequence[Tensor]:
        """The sums of all workers' gradients, as they count in the gradient of this one's loss.

        It gets its weight later, with the gradients of the parameters.
        """
        names = [f"gradients by {what} of batch norm {number}" for what in ("means", "variances")]
        if self._rows is not None:
            own = [x * float(self._rows) for x in own]
        found: Sequence[Tensor] = call(
            self._backend, self._exchange.all_reduce, Tree.of_own(names, own, self._backend),
            "sum", None, NEW_MEMORY,
            doing="normalising over the workers",
        )  # fmt: skip
        return found if self._rows is None else [x / float(self._rows) for x in found]


def _sum(tensors: Sequence[Tensor]) -> Tensor:
    """In the order of ranks, so that all workers get the same bits."""
    total, *others = tensors
    for x in others:
        total = total + x  # not in place: it is another worker's
    return total
