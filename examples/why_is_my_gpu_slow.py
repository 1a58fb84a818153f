"""Why is my GPU slow? Three questions that forums are full of, asked of this machine.

    UNIDEV_BACKEND=torch python examples/why_is_my_gpu_slow.py

1. A tiny net trains faster on a laptop's CPU than on a big GPU.
2. A Jacobian takes longer on the GPU at a batch of 100, and less time at 1,000.
3. A product of 200 by 200 matrices is faster on the GPU, until the data goes back and forth.

Each is run on every real device by ``unidev.fastest_device``, which times the data's journey apart,
and says what it found. Without a GPU there is nothing to compare, and the program says that.
"""

import sys
import textwrap

import numpy as np

import unidev
from unidev import nn
from unidev.nn import functional

HIDDEN, FEATURES = 50, 10
ROWS = 10  # of the Jacobian; all of them take as much longer as there are more


def explain(question, report, why):
    """Print a question, what was measured, and what that means."""
    print(f"\n{question}\n")
    print(report)
    if len(report.trials) == 1:
        told = f"What slows a GPU down: {why}"
    elif report.is_too_close:
        told = f"It does not matter here. In general: {why}"
    elif report.device.kind == "cpu":
        told = f"The GPU is slower here: {why}"
    else:
        told = f"The GPU is faster here. Where it is not: {why}"
    print(textwrap.fill(told, 100))


def tiny_net():
    """One step of training: a dozen small operations, each of which costs at least its floor."""
    net = nn.sequential(nn.dense(10, 10), nn.tanh(), nn.dense(10, 1))
    X, y = unidev.rand((10, 10)), unidev.rand((10, 1))

    def step(net, X, y):
        loss_of = unidev.value_and_grad(lambda net: functional.mean_squared_error(net(X), y))
        _, gradients = loss_of(net)
        unidev.sgd(net, gradients, lr=0.01)

    explain(
        "1. A tiny net takes a step at a batch of 10. Is the GPU worth it?",
        unidev.fastest_device(step, net, X, y),
        "every operation has a floor, some microseconds, however small it is. A net of ten by ten "
        "is all floor and no work. Take larger batches, or stay on the CPU.",
    )


def jacobian(batch):
    """Rows of a Jacobian: each is a way back through the whole batch."""
    inner = unidev.rand((HIDDEN, FEATURES))
    outer = unidev.rand((FEATURES, HIDDEN))
    X, column = unidev.rand((batch, FEATURES)), unidev.ones((FEATURES, 1))
    picked = unidev.array(np.eye(ROWS, batch, dtype="float32").reshape(ROWS, 1, batch))

    def rows(X, inner, outer, column, picked):
        def output(X, row):
            hidden = functional.tanh(functional.linear(X, inner))
            return row @ (functional.linear(hidden, outer) @ column)

        by_X = unidev.value_and_grad(output)
        return [by_X(X, picked[i])[1] for i in range(ROWS)]

    explain(
        f"2. {ROWS} rows of a Jacobian at a batch of {batch:,}. Is the GPU worth it?",
        unidev.fastest_device(rows, X, inner, outer, column, picked),
        "row by row the work comes in small pieces, and each pays its floor. A larger batch makes "
        "the pieces larger; all rows at once (vectorize=True in PyTorch, vmap) make them few.",
    )


def matrices():
    """The data comes from the host, and the result goes back: once for every product."""
    X, Y = unidev.rand((200, 200)), unidev.rand((200, 200))
    explain(
        "3. A product of 200 by 200 matrices that come from the host. Is the GPU worth it?",
        unidev.fastest_device(lambda X, Y: X @ Y, X, Y),
        "the journey there and back takes longer than the product. Keep the matrices on the GPU, "
        "compute all that is to be computed there, and bring back the last result.",
    )


def main():
    """Ask all three of the selected backend."""
    print(f"{unidev.active_backend().name} on", *unidev.list_devices())
    try:
        tiny_net()
        jacobian(100)
        jacobian(1000)
    except unidev.UnsupportedOperation as error:  # NumPy has no gradients
        print(f"\n1 and 2 cannot be asked: {error}")
    matrices()


if __name__ == "__main__":
    try:
        main()
    except unidev.UnidevError as error:
        sys.exit(f"why_is_my_gpu_slow.py: {error}")
