"""``DeviceReport``: which device runs a function fastest. Pure functions of timings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unidev.bench.spread import Ranking, Summary, is_faster, rank, ratio, spread, times
from unidev.system.tables import Table, as_html, as_text
from unidev.system.wording import seconds_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unidev.device import Device


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A function's timings on one device."""

    device: Device
    total: Summary
    """Moving the data there, computing, and moving the result back."""
    there: Summary
    computing: Summary
    back: Summary
    placing_s: float | None = None
    """Placing the models among the arguments, once; None: no models. Not in ``total``."""


@dataclass(frozen=True, kw_only=True)
class DeviceReport:
    """The result of ``fastest_device``: the timings of each device, and their ranking."""

    trials: tuple[Trial, ...]
    """One for each device, in order; at least one."""
    left_out: Mapping[str, str]
    """Devices that were not timed, by name, and why."""

    @property
    def device(self) -> Device:
        """The fastest device, transfers included; the first of several too close to call."""
        return self._trial(self.ranking.best).device

    @property
    def is_too_close(self) -> bool:
        """Whether the timings of the fastest devices overlap."""
        return self.ranking.is_too_close

    @property
    def ranking(self) -> Ranking:
        """Ranking by the sum of transfers and computation."""
        return rank({str(each.device): each.total for each in self.trials})

    @property
    def computing_ranking(self) -> Ranking:
        """Ranking by computation alone, as if no data had to be moved."""
        return rank({str(each.device): each.computing for each in self.trials})

    @property
    def conclusion(self) -> str:
        """One or two sentences."""
        if len(self.trials) == 1:
            only = self.trials[0].device
            return f"{only}: there is no other real device to compare it with."
        return f"{self._verdict()}{self._without_journey()}"

    def __str__(self) -> str:
        """A table, and the conclusion."""
        return as_text(self._parts())

    def _repr_html_(self) -> str:
        """For notebooks: what ``str`` gives, as a table."""
        return as_html(self._parts())

    def _parts(self) -> Iterator[str | Table]:
        columns = ["device", "there", "computing", "back", "total"]
        has_models = any(each.placing_s is not None for each in self.trials)
        rows = []
        for each in self.trials:
            row = [
                str(each.device), seconds_text(each.there.median_s), spread(each.computing),
                seconds_text(each.back.median_s), spread(each.total),
            ]  # fmt: skip
            rows.append([*row, seconds_text(each.placing_s or 0)] if has_models else row)
        yield Table([*columns, "placing, once"] if has_models else columns, rows)
        for name, reason in self.left_out.items():
            yield f"{name} is left out: {reason}"
        yield self.conclusion

    def _trial(self, name: str) -> Trial:
        return next(each for each in self.trials if str(each.device) == name)

    def _verdict(self) -> str:
        ranking = self.ranking
        if ranking.is_too_close:
            names = " and ".join(ranking.contenders)
            return f"{names} are too close to call: their timings overlap."
        best = self._trial(ranking.best)
        second = min(
            (each for each in self.trials if each is not best), key=lambda each: each.total.median_s
        )
        factor = times(ratio(second.total, best.total))
        return f"{best.device} is {factor} as fast as {second.device}."

    def _without_journey(self) -> str:
        computing = self.computing_ranking
        best = self._trial(self.ranking.best)
        quickest = self._trial(computing.best)
        is_quicker = quickest is not best and is_faster(quickest.computing, best.computing)
        if computing.is_too_close or not is_quicker:
            return ""
        factor = times(ratio(best.computing, quickest.computing))
        return (
            f" {quickest.device} computes {factor} as fast as {best.device}, but moving the data "
            f"costs more than that gains: keep the data on {quickest.device} if it is used "
            "several times."
        )
