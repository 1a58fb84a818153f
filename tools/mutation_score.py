"""How many faults, made by a machine in unidev's own code, does the conformance suite catch?

    nox -s mutation -- torch --profile tensor --sample 100 --seed 1

Samples faults in the modules that the profile is about, judges each with `unidev conform
--fail-fast` on the checks that enter its function, and prints the score, its 95 % interval and the
survivors. Verdicts are kept as they come: the same command goes on where it was stopped, and
`--again` judges survivors once more. Samples in `mutation/faults.jsonl` are read from there: scores
of the same faults can be compared after files have moved.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from mutation.equivalent import Equivalents
from mutation.faults import sample
from mutation.frozen import Frozen
from mutation.judging import Judge
from mutation.modules import modules
from mutation.promises import promise_of
from mutation.record import Record
from mutation.score import score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mutation.faults import Fault
    from mutation.judging import Calibration

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("mutation") / "equivalent.toml"


def main(words: Sequence[str]) -> int:
    """Judge a sample; 0 if every fault has a verdict."""
    asked = _options().parse_args(words)
    chosen = modules(ROOT, asked.backend, asked.profile)
    faults = _faults(chosen, asked)
    asked.folder.mkdir(parents=True, exist_ok=True)
    record = Record(asked.folder / f"{asked.backend}-{asked.profile}-{asked.seed}.jsonl")
    left = [fault for fault in faults if fault not in record]
    if asked.again:
        left = [fault for fault in faults if fault not in record or not record[fault].is_caught]
    print(f"{len(faults)} faults in {len(chosen)} modules; {len(left)} to judge", flush=True)
    try:
        if left:
            _judge(left, record, asked)
    finally:
        _print(faults, record, asked)
    return 0 if all(fault in record for fault in faults) else 1


def _faults(chosen: Sequence[Path], asked: argparse.Namespace) -> list[Fault]:
    """Those that are listed, as far as there are so many; else drawn ones."""
    frozen, name = Frozen(), f"{asked.backend}-{asked.profile}-{asked.seed}"
    if asked.freeze:
        frozen.add(name, sample(ROOT, chosen, asked.sample, asked.seed))
    if frozen.count(name) < asked.sample:
        return sample(ROOT, chosen, asked.sample, asked.seed)
    faults, gone = frozen.faults(ROOT, name, asked.sample)
    for each in gone:
        print(f"no longer in the code, left out: {each}", flush=True)
    return faults


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("backend")
    parser.add_argument("--profile", default="tensor")
    parser.add_argument("--sample", type=int, default=100, help="number of faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="faults judged at once")
    parser.add_argument("--again", action="store_true", help="judge survivors once more")
    parser.add_argument("--freeze", action="store_true", help="list the sample, for later scores")
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "mutation")
    return parser


def _judge(left: list[Fault], record: Record, asked: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="unidev-mutation-", ignore_cleanup_errors=True) as top:
        judges = [
            Judge(ROOT, Path(top, str(number)), asked.backend, asked.profile)
            for number in range(asked.workers)
        ]
        calibration = judges[0].calibrate(left)
        print(f"without a fault: {calibration.seconds:.0f} s", flush=True)
        _work(judges, calibration, left, record)


def _work(
    judges: Sequence[Judge], calibration: Calibration, left: Sequence[Fault], record: Record
) -> None:
    queue, lock, stop = list(left), threading.Lock(), threading.Event()

    def work(judge: Judge) -> None:
        while not stop.is_set():
            with lock:
                if not queue:
                    return
                fault = queue.pop(0)
            verdict = judge.judge(fault, calibration)
            if stop.is_set():  # it was interrupted with everything else: no verdict
                return
            record.add(fault, verdict)
            print(
                f"{verdict.how:8} {verdict.seconds:6.1f} s  {fault.module}:{fault.line} "
                f"{fault.operator.rpartition('/')[2]} {verdict.by}",
                flush=True,
            )

    with ThreadPoolExecutor(len(judges)) as pool:
        try:
            for done in [pool.submit(work, judge) for judge in judges]:
                done.result()
        except BaseException:  # Ctrl-C too: the other workers end after their fault
            stop.set()
            raise


def _print(faults: Sequence[Fault], record: Record, asked: argparse.Namespace) -> None:
    found = score(faults, record, Equivalents(LIST))
    for fault in found.survivors:
        print(f"\n{fault.module}:{fault.line}, in {fault.function or 'the module'}")
        print(f"  promise: {promise_of(ROOT, fault)}")
        print("\n".join(f"    {line}" for line in fault.diff.splitlines()))
    for fault, reason in found.equivalents:
        print(f"\nequivalent: {fault.module}:{fault.line}: {reason}")
    for room, (caught, judged) in sorted(found.rooms.items()):
        print(f"{room}: {caught} of {judged} caught")
    low, high = found.interval
    hows = ", ".join(f"{count} {how}" for how, count in sorted(found.hows.items()))
    print(
        f"\n{asked.backend} {asked.profile}, seed {asked.seed}: {found.caught} of {found.judged} "
        f"caught, {found.share:.0%} ({low:.0%} to {high:.0%}); {hows}; "
        f"{len(found.equivalents)} equivalent, left out",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
