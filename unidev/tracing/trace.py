"""``Trace``: the record of ``trace_transfers``, as a table, JSON or a file for Perfetto.

The table has the most expensive line first, each with advice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from unidev.system.arguments import checked_path
from unidev.system.atomic_file import write_whole
from unidev.system.tables import Table, as_html, as_text
from unidev.system.wording import bytes_text, count_text, seconds_text
from unidev.tracing.advice import spoken
from unidev.tracing.record import Record

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from unidev.tracing.record import LineTotal

_MOST_LINES = 20
"""The most lines that a table shows; ``by_line()`` has them all."""
_SIMULATED = "times are of simulated devices, not of a real GPU"
_HEADINGS = ("transfers", "bytes", "time", "between", "by", "line")
_NUMBERS = 3
"""The number of right-aligned columns."""


class Trace(Record):
    """The record of ``trace_transfers``: transfers, and their totals by line.

    Attributes:
        transfers: the first ``limit`` transfers, in the order in which they ended. The totals,
            ``count`` and those of ``by_line()``, include all.
        exchanges: the first ``limit`` exchanges of gradients with other workers.
    """

    @overload
    def to_json(self) -> str: ...
    @overload
    def to_json(self, path: str | os.PathLike[str]) -> None: ...
    def to_json(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """The trace as JSON, described in docs/tracing.md; written to ``path`` if given."""
        from unidev.tracing.export import json_pieces

        if path is None:
            return "".join(json_pieces(self))
        write_whole(checked_path(path), json_pieces(self))
        return None

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a file for https://ui.perfetto.dev or ``chrome://tracing``."""
        from unidev.tracing.export import chrome_pieces

        write_whole(checked_path(path), chrome_pieces(self))

    def __str__(self) -> str:
        return as_text(_parts(self))

    def _repr_html_(self) -> str:
        """For notebooks: what ``str`` gives, as a table."""
        return as_html(_parts(self))

    def _repr_pretty_(self, printer: Any, _is_cycle: bool) -> None:
        """For IPython in a terminal: what ``str`` gives."""
        printer.text(str(self))

    def __repr__(self) -> str:
        count = count_text(self.count, "transfer")
        return f"<Trace of {count}, {bytes_text(self.total_bytes)}>"


def _parts(trace: Record) -> Iterator[str | Table]:
    """All of it: what was moved, by which line, advice, and what is not seen."""
    yield from _moved(trace)
    yield from _exchanged(trace)
    yield from (f"{name}(), {why}" for name, why in trace.gpu_queries.items())
    yield from (f"{name}, {what}" for name, what in trace.late_changes.items())
    if trace.races:
        yield from ("", f"{count_text(len(trace.races), 'race')} that simulated GPUs have lost:")
        yield from (line for race in trace.races for line in str(race).splitlines())
    yield from _unseen(trace)


def _moved(trace: Record) -> Iterator[str | Table]:
    totals = trace.by_line()
    if not totals:
        yield "no transfers between devices were seen"
        return
    yield (
        f"{count_text(trace.count, 'transfer')} between devices, "
        f"{bytes_text(trace.total_bytes)}, {seconds_text(trace.total_seconds)}, "
        f"from {count_text(len(totals), 'line')}"
    )
    if not trace.is_seconds_real:
        yield _SIMULATED
    if trace.left_out:
        yield f"only the first {trace.limit:,} are in trace.transfers and in files: see its limit"
    yield ""
    shown = totals[:_MOST_LINES]
    notes = {
        number: [text for text in (total.line.source, total.advice) if text]
        for number, total in enumerate(shown)
    }
    yield Table(_HEADINGS, [_row(each) for each in shown], _NUMBERS, notes)
    if len(totals) > len(shown):
        yield f"and {count_text(len(totals) - len(shown), 'more line')}: trace.by_line()"


def _exchanged(trace: Record) -> Iterator[str]:
    if trace.exchanges:
        seconds = sum(each.seconds for each in trace.exchanges)
        hidden = sum(each.hidden_s for each in trace.exchanges) / seconds if seconds else 0.0
        yield (
            f"{count_text(len(trace.exchanges), 'exchange')} of gradients with other workers, "
            f"{seconds_text(seconds)}, {hidden:.0%} of it while backward ran"
        )


def _unseen(trace: Record) -> Iterator[str]:
    yield from ("", "not seen (see trace.blind_spots for the reasons):")
    for name, why in trace.not_seen.items():
        yield f"  {name}: all transfers except unidev's own: {why}"
    for name, spots in trace.blind_spots.items():
        yield from (f"  {name}: {what}" for what in spots)


def _row(total: LineTotal) -> tuple[str, ...]:
    routes = dict.fromkeys(f"{each.first.source} to {each.first.target}" for each in total.kinds)
    operations = dict.fromkeys(spoken(each.first.operation) for each in total.kinds)
    return (
        f"{total.count:,}",
        bytes_text(total.nbytes),
        seconds_text(total.seconds),
        _few(routes),
        _few(operations),
        str(total.line),
    )


def _few(names: Iterable[str]) -> str:
    first, *rest = names
    return f"{first} and {count_text(len(rest), 'other')}" if len(rest) > 1 else ", ".join(names)
