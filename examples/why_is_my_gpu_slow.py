"""Why is my GPU slow? Frequent questions from forums, answered for this machine.

    UNIDEV_BACKEND=torch python examples/why_is_my_gpu_slow.py

- A tiny net trains faster on a laptop's CPU than on a big GPU.
- A Jacobian takes longer on the GPU at a batch of 100, and less time at 1,000.
- A product of 200 by 200 matrices is faster on the GPU, until the data goes back and forth.

The computations are functions in ``unidev/bench/forum.py``, which ``unidev bench`` times too.
``unidev.fastest_device`` runs each on every real device, times transfers separately, and reports
the results. Without a GPU there is nothing to compare, and the program reports that.
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
        print(f"This cannot be measured: {error}")
    else:
        print(report)
        print(textwrap.fill(explanation(question, report), 100))


def explanation(question, report):
    """Explain the timings, and what slows a GPU down, even if it is fast here."""
    why = f"{question.why}. {question.advice}"
    if len(report.trials) == 1:
        return f"No GPU was measured here. What may slow one down: {why}"
    if report.is_too_close:
        return f"The difference does not matter here. In general: {why}"
    if report.device.kind == "cpu":
        return f"The GPU is slower here: {why}"
    return f"The GPU is faster here. When it is not: {why}"


def main():
    """Run all questions on the selected backend."""
    print(f"{unidev.active_backend().name} on", *unidev.list_devices())
    for number, question in enumerate(forum.QUESTIONS, start=1):
        ask(number, question)


if __name__ == "__main__":
    try:
        main()
    except unidev.UnidevError as error:
        sys.exit(f"why_is_my_gpu_slow.py: {error}")
