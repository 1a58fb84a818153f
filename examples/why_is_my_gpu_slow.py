"""Why is my GPU slow? Frequent questions from forums, answered for this machine.

    UNIDEV_BACKEND=torch python examples/why_is_my_gpu_slow.py

- A tiny net trains faster on a laptop's CPU than on a big GPU.
- A Jacobian takes longer on the GPU at a batch of 100, and less time at 1,000.
- A product of 200 by 200 matrices is faster on the GPU, until the data goes back and forth.

``unidev.fastest_device`` runs each on every real device, times transfers separately, and reports
the results. Without a GPU there is nothing to compare, and the program reports that.
"""

import sys
import textwrap
from typing import NamedTuple

import numpy as np

import unidev
from unidev import nn
from unidev.nn import functional

FEATURES, HIDDEN, JACOBIAN_ROWS = 10, 50, 10
MATRIX_ROWS = 200


class Question(NamedTuple):
    """A computation that, according to forum questions, is slow on a GPU."""

    what: str
    compute: object
    arguments: object
    """A function that makes the arguments of ``compute``: tensors, lists of them, models."""
    why: str
    """Why it is slow."""
    advice: str


def train_tiny_net(net, x, y):
    """One step of training: a dozen small operations."""
    _, gradients = unidev.value_and_grad(loss_of)(net, x, y)
    unidev.sgd(net, gradients, lr=0.01)


def loss_of(net, x, y):
    return functional.mean_squared_error(net(x), y)


def tiny_net():
    net = nn.sequential(nn.dense(10, 10), nn.tanh(), nn.dense(10, 1))
    return net, unidev.rand((10, 10)), unidev.rand((10, 1))


def jacobian(x, inner, outer, column, rows):
    """Row by row, each with a backward pass through the entire batch, like PyTorch's ``jacobian``.

    https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.jacobian.html
    """
    by_x = unidev.value_and_grad(output)
    return [by_x(x, inner, outer, column, row)[1] for row in rows]


def output(x, inner, outer, column, row):
    hidden = functional.tanh(functional.linear(x, inner))
    return row @ (functional.linear(hidden, outer) @ column)


def jacobian_at(batch):
    def arguments():
        rows = np.eye(JACOBIAN_ROWS, batch, dtype="float32")[:, None]
        shapes = (batch, FEATURES), (HIDDEN, FEATURES), (FEATURES, HIDDEN)
        ones = unidev.ones((FEATURES, 1))
        return *map(unidev.rand, shapes), ones, [unidev.array(row) for row in rows]

    return Question(
        f"{JACOBIAN_ROWS} rows of a net's Jacobian at a batch of {batch:,}",
        jacobian,
        arguments,
        "many small steps, each with a fixed cost",
        "A larger batch makes the steps larger; computing all rows at once (vectorize=True in "
        "PyTorch, vmap) makes them fewer.",
    )


TINY = Question(
    "a tiny net, 10 to 10 to 1, takes a step at a batch of 10",
    train_tiny_net,
    tiny_net,
    "too little work for the fixed cost of its operations",
    "Every operation costs some microseconds, however small it is. Use larger batches, or stay on "
    "the CPU.",
)
MATRICES = Question(
    f"a product of {MATRIX_ROWS} by {MATRIX_ROWS}",
    lambda x, y: x @ y,
    lambda: (unidev.rand((MATRIX_ROWS, MATRIX_ROWS)), unidev.rand((MATRIX_ROWS, MATRIX_ROWS))),
    "the transfers cost more than the GPU saves",
    "Keep the matrices on the GPU, compute everything there, and move only the final result back.",
)
QUESTIONS = (TINY, jacobian_at(100), jacobian_at(1000), MATRICES)


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
    for number, question in enumerate(QUESTIONS, start=1):
        ask(number, question)


if __name__ == "__main__":
    try:
        main()
    except unidev.UnidevError as error:
        sys.exit(f"why_is_my_gpu_slow.py: {error}")
