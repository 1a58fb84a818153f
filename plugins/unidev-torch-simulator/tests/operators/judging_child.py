"""A process that judges the operators that ``run_operators.py`` names on its input."""

from __future__ import annotations

import faulthandler
import json
import os
import sys


def main() -> None:
    """Answer each line ``[operator, dtype]`` with one line; end when there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what operators print is no answer
    faulthandler.enable()

    import unidev  # before torch, which looks for `cuda` while it is imported

    device = unidev.gpu(1).native
    import judged
    import torch

    # By float32 also where the CPU has instructions for it: a machine judges for all others.
    for dtype in (torch.float16, torch.bfloat16):
        torch.ops.unidev_sim.exchange_is_slow(dtype, True)

    def answer(outcome: object) -> None:
        print(json.dumps(outcome), file=answers, flush=True)

    answer(sorted(judged.OPERATORS))
    for line in sys.stdin:
        name, dtype = json.loads(line)
        answer(judged.judge(name, dtype, device))
    sys.stderr.flush()
    os._exit(0)


main()
