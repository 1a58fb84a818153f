"""Train one model in several processes, on one machine or many, the same on every framework.

The ResNet of multi_gpu.py learns to read scikit-learn's handwritten digits. Each worker computes
with its share of each batch, and the gradients are averaged over all of them. Started by itself:

    UNIDEV_BACKEND=torch python examples/many_machines.py --workers 2

or by `unidev launch`, which starts the workers, with `--address` on the machines of a Ray cluster:

    UNIDEV_BACKEND=torch unidev launch --workers 2 examples/many_machines.py

In each worker, ``net = unidev.DataParallel(net)`` and ``group.shard(data)``, by which it reads its
own rows of each batch, are what differs from training in one process. The backend is torch,
tensorflow, paddle, mxnet or jax; NumPy has no gradients.
"""

import argparse
import json
import sys

from multi_gpu import make_net
from train_digits import (
    BATCH_SIZE,
    check_installed,
    integer_from,
    load_data,
    loss_of,
    new_file,
)

import unidev


def train(epochs, seed):
    """Train in this worker, and return the losses and the test accuracies of all epochs."""
    group = unidev.group()
    unidev.seed(seed)
    net = unidev.DataParallel(make_net())
    training, testing = load_data()
    seen = group.shard(training, batch_size=BATCH_SIZE, shuffle=True, seed=seed, last="drop")
    unseen = group.shard(testing, batch_size=len(testing[1]))
    losses, accuracies = [], []
    for epoch in range(1, epochs + 1):
        seen.epoch = epoch
        total = rows = 0
        for X, y in unidev.prefetch(seen, group.device):
            loss, gradients = unidev.value_and_grad(loss_of)(net, X, y)
            unidev.sgd(net, gradients, lr=0.1)
            total += unidev.to_numpy(loss).item() * len(y)
            rows += len(y)
        losses.append(total / rows)
        accuracies.append(unidev.evaluate_accuracy(net, unidev.prefetch(unseen, group.device)))
        if group.rank == 0:
            print(
                f"{group.size} workers, epoch {epoch:2}: loss {losses[-1]:.4f}, test accuracy "
                f"{accuracies[-1]:.4f}",
                flush=True,
            )
    return {"workers": group.size, "losses": losses, "accuracies": accuracies}


def arguments():
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--workers", type=integer_from(1), metavar="N",
        help="start this many; without it, this process is the worker that it is")  # fmt: skip
    add("--address", metavar="ADDRESS", help="with --workers: of a Ray cluster, auto or HOST:PORT")
    add("--epochs", type=integer_from(1), default=5, metavar="N",
        help="the number of epochs (default: 5)")  # fmt: skip
    add("--seed", type=integer_from(0), default=0, metavar="N",
        help="for the weights and the batches (default: 0)")  # fmt: skip
    add("--json", type=new_file, metavar="FILE", help="also write the numbers to this file")
    return parser.parse_args()


def main():
    """Train in this process, or in others."""
    given = arguments()
    check_installed(sklearn="scikit-learn")
    unidev.no_grad()  # before workers start: an error with NumPy, which has no gradients
    if given.workers is None:
        found = train(given.epochs, given.seed)
    else:
        found, *_ = unidev.run(
            train, given.epochs, given.seed, workers=given.workers, address=given.address
        )
    if given.json and (given.workers or unidev.group().rank == 0):
        given.json.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    try:
        main()
    except (
        unidev.UnsupportedOperation, unidev.BackendError, unidev.SimulationError, unidev.RunError
    ) as error:  # fmt: skip
        sys.exit(f"many_machines.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
