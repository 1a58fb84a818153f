"""Whether workers train as one process does, for each framework and kind of loop, in one table.

Use: ``python tools/training_table.py --markdown FILE``, with the frameworks and their plugins
installed; ``--frameworks torch`` for some, ``--workers 2,3`` for some numbers of workers,
``--seed 5`` for other rows. Exits with 1 if anything is not as in one process.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from measured_table import MeasuredTable
from training_loops import EVALUATION, MOST_WORKERS, NORMS, in_one_process, in_workers

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from training_loops import Values

FRAMEWORKS = ("torch", "tensorflow", "paddle", "mxnet")
SIZES = tuple(range(1, MOST_WORKERS + 1))
KINDS = {
    "even": "`group().split_batch`, as many rows for each",
    "uneven": "`group().split_batch`, batches of 4 to 13 rows",
    "padded": "`group().shard` of a sequence, the last rows repeated",
    "dropped": '`group().shard` of a sequence, `last="drop"`',
    "loader": "`group().shard` of the framework's own loader",
    "accumulate": "`accumulate()`, one step more on each next worker",
    NORMS: '`DataParallel(net, batch_norm="synchronized")`, uneven batches',
    EVALUATION: "`evaluate_accuracy` and `gather_rows` over a shard",
}
TABLE = MeasuredTable("loop", "kinds", KINDS, "frameworks", FRAMEWORKS)
_LIMIT = 1e-6
"""Float32 has 6e-8; 1e-7 is usual, 4e-7 was the most of 150 trainings of each kind on PyTorch."""
_LIMITS = {NORMS: 1e-5}
"""A norm divides by the deviation of few rows; 1e-6 was the most of 150."""
_LEAST_CHANGE = 0.01
"""Parameters that stay what they were would agree whatever the workers do; 0.03 was the least."""


@dataclass(frozen=True)
class Comparison:
    """The values of some workers beside those of one process."""

    kind: str
    framework: str
    workers: int
    has_equal_bits: bool
    """On all workers."""
    difference: float
    """The largest from one process, relative to the largest element of its tensor."""
    change: float
    """How far training in one process has moved the parameter that it has moved least."""

    def wrong(self) -> str:
        """What is not as in one process, or an empty text."""
        found = []
        if not self.has_equal_bits:
            found.append("two workers have different bits")
        if not self.difference <= _LIMITS.get(self.kind, _LIMIT):  # also where it is no number
            found.append(f"one process has other values, by {self.difference:.1g}")
        if not self.change >= _LEAST_CHANGE:
            found.append(f"training has changed a parameter by {self.change:.1g} only")
        said = f"{self.kind} of {self.framework}, {self.workers} workers: "
        return said + ", ".join(found) if found else ""


def compared(
    framework: str,
    kinds: Sequence[str],
    seed: int,
    workers: int,
    work: Callable[[Sequence[str], int], dict[str, Values]] = in_workers,
) -> list[Comparison]:
    """Run the loops of these kinds in workers, and in one process, and compare each."""
    run = partial(unidev.run, backend=framework, gpus_per_worker=0)
    [whole] = run(in_one_process, kinds, seed, workers, workers=1)
    found = run(work, kinds, seed, workers=workers)
    return [
        comparison(kind, framework, [own[kind] for own in found], *whole[kind]) for kind in kinds
    ]


def comparison(
    kind: str, framework: str, found: Sequence[Values], begun: Values, ended: Values
) -> Comparison:
    """``found`` on each worker, beside the values at the beginning and end of one process."""
    bits = {b"".join(x.tobytes() for x in own) for own in found}
    return Comparison(
        kind=kind,
        framework=framework,
        workers=len(found),
        has_equal_bits=len(bits) == 1,
        # NumPy's maximum is NaN if any number is.
        difference=np.max(
            [_difference(x, y) for own in found for x, y in zip(own, ended, strict=True)]
        ),
        change=np.min(
            [_difference(x, y) for x, y in zip(begun, ended, strict=False)], initial=np.inf
        ),
    )


def _difference(x: np.ndarray, expected: np.ndarray) -> float:
    if x.shape != expected.shape:
        return np.inf
    wide = expected.astype("float64")
    return float(np.abs(x - wide).max() / np.abs(wide).max())


def _cell(found: Iterable[Comparison]) -> str:
    """For each number of workers the difference; and whether the workers' bits are equal."""
    apart = [str(each.workers) for each in found if not each.has_equal_bits]
    bits = f"bits differ of {', '.join(apart)} workers" if apart else "equal bits"
    return f"{bits}; {', '.join(f'{each.difference:.1g}' for each in found)}"


def main() -> int:
    """Print a line for each comparison, and write the table."""
    parser = TABLE.parser(__doc__)
    sizes = ",".join(map(str, SIZES))
    parser.add_argument("--workers", default=sizes, metavar=sizes)
    options = TABLE.parsed(parser)
    unknown = set(options.workers.split(",")) - {*sizes.split(",")}
    if unknown:
        parser.error(f"no numbers of workers from {sizes}: {', '.join(sorted(unknown))}")
    found = []
    for framework in options.frameworks:
        for workers in map(int, options.workers.split(",")):
            begun = time.perf_counter()
            found += compared(framework, options.kinds, options.seed, workers)
            for each in found[-len(options.kinds) :]:
                print(f"{framework:10} {workers} {each.kind:10} {_cell([each])}", flush=True)
            print(f"{framework:10} {workers} {time.perf_counter() - begun:.0f} s", flush=True)
    if options.markdown is not None:
        cells = {
            (kind, framework): _cell(
                [each for each in found if (each.kind, each.framework) == (kind, framework)]
            )
            for kind in options.kinds
            for framework in options.frameworks
        }
        options.markdown.write_text(TABLE.markdown(cells))
    wrong = [each.wrong() for each in found if each.wrong()]
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
