"""``Trace``: the record of ``trace_transfers``, as a table, JSON or a file for Perfetto."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from unidev.system.arguments import checked_path
from unidev.system.atomic_file import write_whole
from unidev.system.wording import bytes_text, count_text
from unidev.tracing.record import Record

if TYPE_CHECKING:
    import os


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
        from unidev.system.tables import as_text
        from unidev.tracing.table import parts

        return as_text(parts(self))

    def _repr_html_(self) -> str:
        """For notebooks: what ``str`` gives, as a table."""
        from unidev.system.tables import as_html
        from unidev.tracing.table import parts

        return as_html(parts(self))

    def _repr_pretty_(self, printer: Any, _is_cycle: bool) -> None:
        """For IPython in a terminal: what ``str`` gives."""
        printer.text(str(self))

    def __repr__(self) -> str:
        count = count_text(self.count, "transfer")
        return f"<Trace of {count}, {bytes_text(self.total_bytes)}>"
