"""Ask a CUDA GPU for the order of its work, which late simulated GPUs imitate (docs/races.md).

``python tools/orders_of_streams.py`` prints for each line whether the host waits there for what is
queued before it, and what unidev-torch-simulator assumes. Exit code 1: some answer is another. On
late simulated GPUs (``unidev simulate --as cuda --gpus 1 --late``) it proves what they do.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = (
    1 << 16
)  # of float32, beyond the 64 KiB up to which the driver copies pageable memory at once
_CYCLES = 300_000_000  # of torch.cuda._sleep: some tenths of a second


def questions(x: Any) -> dict[str, tuple[Callable[[], Any], bool]]:
    """By name: what is called while ``x``'s GPU is busy, and whether it is assumed to wait."""
    pageable, pinned = torch.ones(SIZE), torch.ones(SIZE).pin_memory()
    side, mask, rows = torch.cuda.Stream(), x > 0, torch.ones(4, dtype=torch.long, device="cuda")
    table, square = torch.ones(9, 4, device="cuda"), torch.eye(4, device="cuda")
    functional = torch.nn.functional
    return {
        "copy of pageable memory to the GPU": (lambda: x.copy_(pageable), True),
        "the same, non_blocking": (lambda: x.copy_(pageable, non_blocking=True), False),
        "copy of pinned memory to the GPU": (lambda: x.copy_(pinned), True),
        "the same, non_blocking ": (lambda: x.copy_(pinned, non_blocking=True), False),
        "copy to pageable memory, non_blocking": (
            lambda: pageable.copy_(x, non_blocking=True), True,
        ),
        "copy to pinned memory, non_blocking": (lambda: pinned.copy_(x, non_blocking=True), False),
        ".to('cpu', non_blocking=True)": (lambda: x.to("cpu", non_blocking=True), False),
        "conversion on the way to pinned memory": (
            lambda: pinned.copy_(x.double(), non_blocking=True), False,
        ),
        "synchronize of another stream": (side.synchronize, False),
        "event of another stream": (lambda: side.record_event().synchronize(), False),
        "item": (x[0].item, True),
        "nonzero": (lambda: torch.nonzero(x), True),
        "x[mask]": (lambda: x[mask], True),
        "x[rows]": (lambda: x[rows], False),
        "x[mask] = number": (lambda: x.__setitem__(mask, 1.0), False),
        "masked_fill_": (lambda: x.masked_fill_(mask, 1.0), False),
        "unique": (lambda: torch.unique(rows), True),
        "bincount": (lambda: torch.bincount(rows), True),
        "histc without limits": (lambda: torch.histc(x), True),
        "multinomial": (lambda: torch.multinomial(x[:64], 2), True),
        "repeat_interleave": (lambda: rows.repeat_interleave(rows), True),
        "repeat_interleave, output_size": (
            lambda: rows.repeat_interleave(rows, output_size=4), False,
        ),
        "embedding, max_norm": (lambda: functional.embedding(rows, table, max_norm=1.0), True),
        "linalg.eig": (lambda: torch.linalg.eig(square), True),
        "linalg.inv": (lambda: torch.linalg.inv(square), True),
        "to_sparse": (square.to_sparse, True),
        "sort": (lambda: torch.sort(x), False),
        "randperm": (lambda: torch.randperm(SIZE, device="cuda"), False),
    }  # fmt: skip


def waits(call: Callable[[], Any], x: Any) -> bool:
    """Whether the host waits in ``call`` for what was queued before."""
    torch.cuda.synchronize()
    call()  # what it loads, or compiles, is there the next time
    torch.cuda.synchronize()
    x.mul_(1.0)
    if "simulated" not in torch.cuda.get_device_name():
        torch.cuda._sleep(_CYCLES)
    queued = torch.cuda.current_stream().record_event()
    call()
    return bool(queued.query())


def main() -> int:
    """Print the answers."""
    if not torch.cuda.is_available():
        print("no CUDA GPU: nothing to ask")
        return 0
    x, found = torch.ones(SIZE, device="cuda"), 0
    for name, (call, assumed) in questions(x).items():
        answer = waits(call, x)
        found += answer is not assumed
        note = "" if answer is assumed else "   ANOTHER THAN ASSUMED"
        print(f"{name.strip():42}{'waits' if answer else 'does not wait'}{note}")
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
