"""Why is my GPU slow? Questions that forums are full of, asked of this machine.

    UNIDEV_BACKEND=torch python examples/why_is_my_gpu_slow.py

- A tiny net trains faster on a laptop's CPU than on a big GPU.
- A Jacobian takes longer on the GPU at a batch of 100, and less time at 1,000.
- A product of 200 by 200 matrices is faster on the GPU, until the data goes back and forth.

They are functions in ``unidev/bench/forum.py``, which ``unidev bench`` times too. Each is run on
every real device by ``unidev.fastest_device``, which times the data's journey apart, and says what
it found. Without a GPU there is nothing to compare, and the program says that.
"""

import sys
import textwrap

import unidev
from unidev.bench import forum


def ask(number, question):
    """Run a question on every device, and print what was measured and what that means."""
    print(f"\n{number}. {question.what[0].upper()}{question.what[1:]}. Is the GPU worth it?\n")
    try:
        report = unidev.fastest_device(question.compute, *question.arguments())
    except unidev.UnsupportedOperation as error:  # NumPy has no gradients
        print(f"It cannot be asked: {error}")
    else:
        print(report)
        print(textwrap.fill(explanation(question, report), 100))


def explanation(question, report):
    """What the timings mean; what slows a GPU down, also where it is fast."""
    why = f"{question.why}. {question.advice}"
    if len(report.trials) == 1:
        return f"What slows a GPU down: {why}"
    if report.is_too_close:
        return f"It does not matter here. In general: {why}"
    if report.device.kind == "cpu":
        return f"The GPU is slower here: {why}"
    return f"The GPU is faster here. Where it is not: {why}"


def main():
    """Ask all of them of the selected backend."""
    print(f"{unidev.active_backend().name} on", *unidev.list_devices())
    for number, question in enumerate(forum.QUESTIONS, start=1):
        ask(number, question)


if __name__ == "__main__":
    try:
        main()
    except unidev.UnidevError as error:
        sys.exit(f"why_is_my_gpu_slow.py: {error}")
