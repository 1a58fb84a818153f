"""The table of what each backend supports, as reported by the backends themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from unidev.conformance.reports.markdown import cell
from unidev.support.atomic_file import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    Answer = dict[str, Any]

_OF_LINKS = ":/?#[]@!$&'()*+,;=%"
"""What a link may have, besides letters and digits."""

BEGIN, END = "<!-- capabilities -->", "<!-- /capabilities -->"

LABELS = {
    "simulator": "simulated GPUs",
    "probe": "can be judged by the conformance suite",
    "native_scope": "`with device:` applies to the framework's own new tensors",
    "extents": "addresses and sizes of a tensor's memory",
    "memory": "`memory(device)`: bytes used and free",
    "pinned": "`pin`: page-locked host memory",
    "peaks": "`track_memory(device)`: peak memory",
    "probe.write": "tensors can be written to",
    "probe.gradient": "gradients, also through `copy_to`",
    "probe.deleted": "tensors that the framework deletes while in use",
    "probe.cut_short": "tensors whose memory the framework shortens while in use",
    "probe.allocated_bytes": "allocated bytes can be counted",
    "probe.read_out": "transfers that the conformance suite can judge",
    "probe.current": "a current device, which the conformance suite can watch",
    "probe.side_stream": "streams, which the conformance suite can use",
    "models": "models: `place`, `parameters`, checkpoints",
    "autograd": "`value_and_grad`, `sgd`, `no_grad`",
    "layers": "`unidev.nn`: layers",
    "functions": "`unidev.nn.functional`",
    "collectives": "`split_batch`, `all_reduce`: several devices",
    "group_engine": "`run`: the framework's own collectives between processes",
    "interop": "`convert`: memory shared with other frameworks",
    "installation": "`unidev doctor`: what the framework was built for",
    "probe.autograd": "gradients that the conformance suite can judge",
    "probe.autograd.second_order": "gradients of gradients",
    "probe.autograd.is_differentiable": "tensors have a flag for being differentiable",
    "tracer": "the framework's own transfers: `trace_transfers`, `transfer_guard`",
    "probe.models": "models that the conformance suite can judge",
    "probe.models.earlier_optimizer": "existing optimizers keep working after "
    "`place(model, device)`",
    "probe.models.add_hook": "models have hooks",
    "probe.models.unbuilt": "models whose parameters are created at the first call",
    "probe.models.spread": "models mirrored on several devices",
}
"""Descriptions for readers; an ability without one is shown by its name."""


class MarkersError(ValueError):
    """A file has no markers for the table."""


def working(document: Answer) -> list[Answer]:
    """The plugins whose backend could be loaded."""
    return [each for each in document["plugins"] if each["state"] == "works"]


def abilities(document: Answer) -> list[str]:
    """Every ability that at least one backend reports."""
    return list(dict.fromkeys(name for each in working(document) for name in each["capabilities"]))


def to_markdown(document: Answer) -> str:
    """The table; a "no" has its reason in a numbered note below."""
    plugins = working(document)
    notes: list[str] = []
    lines = [
        f"| | {' | '.join(cell(each['backend']) for each in plugins)} |",
        "|---" * (len(plugins) + 1) + "|",
    ]
    for ability in abilities(document):
        cells = [_cell(each["capabilities"].get(ability), notes) for each in plugins]
        lines.append(f"| {LABELS.get(ability, f'`{ability}`')} | {' | '.join(cells)} |")
    lines.append("")
    lines += [f"{number}. {note}" for number, note in enumerate(notes, start=1)]
    return "\n".join(lines).rstrip() + "\n"


def update(path: Path, table: str, *, is_check: bool) -> bool:
    """Put ``table`` between the markers in a file; returns whether it was there already.

    With ``is_check``, nothing is written.

    Raises:
        MarkersError: the file has no markers.
    """
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise MarkersError(f"{path} has no lines {BEGIN} and {END} to put the table between.")
    new = f"{before}{BEGIN}\n{table}{END}{after}"
    if new != text and not is_check:
        write_whole(path, new)
    return new == text


def _cell(capability: Answer | None, notes: list[str]) -> str:
    if capability is None:
        return "?"  # it has no probe that could report it
    if capability["supported"]:
        return "yes"
    link = f" (<{quote(capability['link'], safe=_OF_LINKS)}>)" if capability["link"] else ""
    note = f"{cell(capability['reason'] or 'no reason given')}{link}"
    if note not in notes:
        notes.append(note)
    return f"no ({notes.index(note) + 1})"
