"""Is a GPU worth it for a Jacobian? The forum's question, the same on every framework.

The whole Jacobian of a net of 1 to 20 to 20 to 400 at a batch of 100 and of 1,000, in four ways:

    UNIDEV_BACKEND=torch python examples/jacobian.py

- row by row, as ``torch.autograd.functional.jacobian`` does: a backward pass for each output of
  each sample, 40,000 and 400,000 of them;
- with a row for all samples at once, since an output depends on its own sample alone: 400 passes;
- the same, vectorised by the framework (``vmap(jacrev)``), where it can;
- forward mode: one pass, since the input is one number.

``--rows`` limits the first, which is then scaled up. ``docs/questions.md`` has the published
figures. The backend is torch, tensorflow, paddle, mxnet or jax; NumPy has no gradients.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
import timeit
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import unidev
from unidev.nn import functional

SIZES = (1, 20, 20, 400)
OUTPUTS = SIZES[-1]
ROWS = 1000
"""The rows by default, but for PyTorch's at a batch of up to 100, which are all."""
PUBLISHED = {100: "CPU 11.1 s, GPU 19.5 s", 1000: "CPU 8 min 44 s, GPU 3 min 12 s"}


class Net(NamedTuple):
    """The weight and bias of each layer, and an input of shape ``(batch, 1)``, on one device."""

    layers: list
    x: object

    @property
    def batch(self):
        """The number of samples."""
        return int(self.x.shape[0])


def make(batch):
    """A net, drawn by unidev's generator, on the device of the innermost ``with device:``."""
    layers = [
        (unidev.randn((outputs, inputs)) * float(inputs**-0.5), unidev.zeros(outputs))
        for inputs, outputs in itertools.pairwise(SIZES)
    ]
    return Net(layers, unidev.randn((batch, SIZES[0])))


def outputs_of(x, layers):
    """The net's outputs: ``(batch, 400)``."""
    for weight, bias in layers[:-1]:
        x = functional.tanh(functional.linear(x, weight, bias))
    return functional.linear(x, *layers[-1])


# -- four ways, and a fifth that is PyTorch's own --------------------------------------------------


def forwards(net):
    """All derivatives, of shape ``(batch, 400)``, in one pass: forward mode, by hand.

    Beside each value goes its derivative by the sample's input, which is one number. So this takes
    about twice as long as computing the outputs.
    """
    x, tangent = net.x, unidev.ones(tuple(net.x.shape))
    for weight, bias in net.layers[:-1]:
        x = functional.tanh(functional.linear(x, weight, bias))
        tangent = (x * x * -1.0 + 1.0) * functional.linear(tangent, weight)
    return functional.linear(tangent, net.layers[-1][0])


def chosen(x, layers, samples, output):
    """The sum of some outputs, which ``samples`` and ``output`` choose by ones and zeros."""
    return samples @ outputs_of(x, layers) @ output


def rows(net):
    """Each row of the Jacobian: one output of one sample by all inputs, sample after sample.

    Reverse mode: each is a backward pass through the whole batch, of which all but one sample's
    results are zeros. Each repeats the forward pass.
    """
    by_x = unidev.value_and_grad(chosen)
    columns = np.eye(OUTPUTS, dtype="float32")[:, :, None]
    for row in np.eye(net.batch, dtype="float32")[:, None, :]:
        sample = unidev.array(row)
        for column in columns:
            yield by_x(net.x, net.layers, sample, unidev.array(column))[1]


def summed(net):
    """One output of all samples by their own inputs, of shape ``(batch, 1)``, for each of 400.

    An output depends on its own sample's input alone, so the sum over the samples has all their
    derivatives, as ``vmap(jacrev)`` finds them: 400 backward passes, whatever the batch.
    """
    by_x, samples = unidev.value_and_grad(chosen), unidev.ones((1, net.batch))
    columns = np.eye(OUTPUTS, dtype="float32")[:, :, None]
    return [by_x(net.x, net.layers, samples, unidev.array(column))[1] for column in columns]


def torch_rows(net):
    """The rows as ``torch.autograd.functional.jacobian`` finds them: one forward pass for all."""
    import torch

    x = net.x.detach().requires_grad_()
    found = outputs_of(x, net.layers).flatten()
    for index in range(len(found)):
        yield torch.autograd.grad(found[index], x, retain_graph=True)[0]


def torch_vectorised(net):
    """``vmap(jacrev)``: shape ``(batch, 400)``."""
    from torch.func import jacrev, vmap
    from torch.nn.functional import linear

    def outputs(x):
        for weight, bias in net.layers[:-1]:
            x = linear(x, weight, bias).tanh()
        return linear(x, *net.layers[-1])

    derivatives_of = vmap(jacrev(outputs))
    return lambda: derivatives_of(net.x)[..., 0]


def tensorflow_vectorised(net):
    """``GradientTape.batch_jacobian``, which traces a graph: once, and not at each call."""
    import tensorflow as tf

    @tf.function
    def derivatives():
        with tf.GradientTape() as tape:
            tape.watch(net.x)
            outputs = outputs_of(net.x, net.layers)
        return tape.batch_jacobian(outputs, net.x)[..., 0]

    return derivatives


def jax_vectorised(net):
    """``vmap(jacrev)``, compiled: once, and not at each call."""
    import jax

    def outputs(x, layers):
        return outputs_of(x[None], layers)[0]

    derivatives_of = jax.jit(jax.vmap(jax.jacrev(outputs), in_axes=(0, None)))
    return lambda: derivatives_of(net.x, net.layers)[..., 0]


VECTORISED = {  # each gives a function that applies one gradient to many rows at once
    "torch": torch_vectorised,
    "tensorflow": tensorflow_vectorised,
    "jax": jax_vectorised,
}


# -- the measurements ------------------------------------------------------------------------------


def print_way(name, way, device):
    """Time ``way()``; returns what it takes, and its derivatives, ``(batch, 400)``."""
    if way is None:
        reason = f"{device.backend} cannot apply a gradient to many rows at once"
        print(f"  {name}: {reason}")
        return {"seconds": None, "reason": reason}, None
    found, seconds = way(), None
    if not device.is_simulated:

        def waited():
            kept = way()
            unidev.synchronize(device)
            return kept

        seconds = statistics.median(timeit.repeat(waited, number=1, repeat=5))
    print(f"  {name}: {time_text(seconds)}", flush=True)
    columns = found if isinstance(found, list) else [found]
    return {"seconds": seconds}, np.concatenate(list(map(unidev.to_numpy, columns)), axis=1)


def time_text(seconds):
    """The seconds, unless the device is simulated: then they would be the CPU's."""
    return "no time, simulated" if seconds is None else f"{seconds:.3g} s"


def print_rows(net, device, given, by_row, read):
    """Go row by row, as far as wanted; the numbers are added to ``read`` after each sample."""
    whole = net.batch * OUTPUTS
    is_torch = device.backend == "torch"
    is_quick = is_torch and net.batch <= 100
    wanted = min(whole, given.rows or (whole if given.full or is_quick else ROWS))
    kept, began = [], time.perf_counter()
    try:
        for row in itertools.islice((torch_rows if is_torch else rows)(net), wanted):
            kept.append(row)
            done = len(read) + len(kept)
            if len(kept) == OUTPUTS or done == wanted:
                sample = (done - 1) // OUTPUTS
                read += [unidev.to_numpy(each)[sample, 0] for each in kept]
                kept.clear()
                each_s = (time.perf_counter() - began) / done
                by_row["rows"] = done
                by_row["seconds"] = None if device.is_simulated else each_s * whole
                if given.full and done == OUTPUTS:
                    print(f"  {wanted:,} rows: about {each_s * wanted:.0f} s", flush=True)
    finally:
        again = "one forward pass for all" if is_torch else "each repeats the forward pass"
        scaled = "" if len(read) == whole else f", scaled up from {len(read):,}"
        print(
            f"  row by row, {whole:,} rows{scaled}; {again}: {time_text(by_row['seconds'])}"
            f" (published: {PUBLISHED.get(net.batch, 'nothing')})",
            flush=True,
        )


def find(device, batch, given, found):
    """The Jacobian at one batch on one device, in all ways, printed and added to ``found``."""
    unidev.seed(given.seed)
    read = []
    with device:
        net = make(batch)
        vectorised = VECTORISED[device.backend](net) if device.backend in VECTORISED else None
        ways = {
            "forwards": print_way("forward mode, 1 pass", partial(forwards, net), device),
            "summed": print_way("a row for all samples, 400 passes", partial(summed, net), device),
            "vectorised": print_way("the same, vectorised", vectorised, device),
        }
        exact = ways["forwards"][1]
        found["norm"] = float(np.linalg.norm(exact))
        found.update({name: way for name, (way, _) in ways.items()})
        try:
            print_rows(net, device, given, found["row by row"], read)
        finally:
            others = [each - exact for _, each in ways.values() if each is not None]
            others.append(np.array(read) - exact.flatten()[: len(read)])
            found["difference"] = float(max(abs(each).max(initial=0.0) for each in others))
    print(
        f"  shape {tuple(found['shape'])}, norm {found['norm']:.4g}; the ways agree within "
        f"{found['difference']:.1g}"
    )
    identity = 4 * (batch * OUTPUTS) ** 2
    print(f"  all rows at once, by an identity, would take {identity / 1e9:.3g} GB: not run")


def positive(text):
    """A positive integer, for the command line."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"not a positive integer: {text!r}")
    return int(text)


def output_file(text):
    """A path in a folder that is there, for the command line."""
    if not Path(text).parent.is_dir() or Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"not a file in a folder that is there: {text!r}")
    return Path(text)


def arguments():
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--full", action="store_true", help="the published size: all rows at both batches")
    add("--rows", type=positive, metavar="N",
        help=f"rows to go one by one (default: {ROWS:,}; PyTorch's at 100: all)")  # fmt: skip
    add("--batch", type=positive, nargs="+", default=tuple(PUBLISHED), metavar="N",
        help="the batches (default: 100 1000)")  # fmt: skip
    add("--on", nargs="+", metavar="DEVICE", help="in turn (default: the CPU and the first GPU)")
    add("--seed", type=int, default=0, help="for the weights and the data (default: 0)")
    add("--json", type=output_file, metavar="FILE", help="also write the numbers to this file")
    return parser.parse_args()


def main():
    """Find the Jacobian at each batch on each device; Ctrl-C keeps the results so far."""
    given = arguments()
    devices = list(dict.fromkeys(map(unidev.as_device, given.on or ("cpu", unidev.try_gpu()))))
    unidev.no_grad()  # an error with NumPy, which has no gradients
    runs, code = [], 0
    try:
        for batch, device in itertools.product(given.batch, devices):
            print(f"a batch of {batch:,} on {device}:")
            runs.append({"device": str(device), "batch": batch, "shape": [batch, OUTPUTS, batch, 1],
                         "row by row": {"rows": 0, "seconds": None}})  # fmt: skip
            find(device, batch, given, runs[-1])
    except KeyboardInterrupt:
        code = 130
    if all(device.kind == "cpu" or device.is_simulated for device in devices):
        print("No real GPU took part: this is the CPU's side alone.")
    if given.json:
        given.json.write_text(json.dumps({"backend": devices[0].backend, "runs": runs}) + "\n")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except unidev.UnidevError as error:
        sys.exit(f"jacobian.py: {error}")
