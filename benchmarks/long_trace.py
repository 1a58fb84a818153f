"""The cost of a long trace: a million transfers, their totals, table and files.

``python benchmarks/long_trace.py [COUNT]``, on NumPy with a simulated GPU. Prints the time of a
transfer, the memory that the trace has taken, and the time and size of its files; fails above
50 MB.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import unidev

MOST_BYTES = 50e6


def peak_bytes() -> int:
    """The most memory that this process has ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(count: int) -> None:
    """Trace ``count`` reads of a number, and write the files."""
    unidev.simulate(1)
    unidev.set_backend("numpy")
    x = unidev.ones((), device="gpu:0")
    with unidev.trace_transfers():
        x.item()
    before, start = peak_bytes(), time.perf_counter()
    with unidev.trace_transfers() as trace:
        for _ in range(count):
            x.item()
    seconds = time.perf_counter() - start
    print(f"{trace.count:,} transfers, {seconds / count * 1e6:.1f} µs each")
    with tempfile.TemporaryDirectory() as folder:
        for write in (trace.to_json, trace.to_chrome_trace):
            file = Path(folder, write.__name__)
            start = time.perf_counter()
            write(file)
            seconds = time.perf_counter() - start
            print(f"{write.__name__}: {file.stat().st_size / 1e6:.0f} MB in {seconds:.1f} s")
    print(str(trace).splitlines()[0])
    grown = peak_bytes() - before
    print(f"{grown / 1e6:.1f} MB of memory, at most {MOST_BYTES / 1e6:.0f}")
    if grown > MOST_BYTES:
        raise SystemExit("more than the limit")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
