"""Is a GPU worth it for a Jacobian? The forum's question, the same on every framework.

The whole Jacobian of a net of 1 to 20 to 20 to 400 at a batch of 100 and of 1,000, in four ways:

    UNIDEV_BACKEND=torch python examples/jacobian.py

- row by row, as ``torch.autograd.functional.jacobian`` does: a backward pass for each output of
  each sample, 40,000 and 400,000 of them;
- with a row for all samples at once, since an output depends on its own sample alone: 400 passes;
- the same, vectorised by the framework (``vmap(jacrev)``), where it can;
- forward mode: one pass, since the input is one number.

``--rows`` limits the first, which is then scaled up. ``docs/questions.md`` has the published
figures. The computation itself is ``unidev/bench/jacobian.py``. The backend is torch, tensorflow,
paddle, mxnet or jax; NumPy has no gradients.
"""

import itertools
import time
from functools import partial

import numpy as np
from multi_gpu import seconds_of
from questions import (
    Attempt,
    announce,
    check_gradients,
    chosen_devices,
    counting,
    options,
    run,
    say_what_is_missing,
    seconds_or_none,
    time_text,
    waited,
    write_json,
)
from train_digits import integer_from

import unidev
from unidev.bench import jacobian
from unidev.bench.measuring import measure

ROWS = 1000
"""The rows by default, but for PyTorch's at a batch of up to 100, which are all."""
PUBLISHED = {100: "CPU 11.1 s, GPU 19.5 s", 1000: "CPU 8 min 44 s, GPU 3 min 12 s"}


def torch_rows(net):
    """The rows as ``torch.autograd.functional.jacobian`` finds them: one forward pass for all."""
    import torch

    x = net.x.detach().requires_grad_()
    found = jacobian.outputs_of(x, net.layers).flatten()
    for index in range(len(found)):
        yield torch.autograd.grad(found[index], x, retain_graph=True)[0]


def torch_vectorised(net):
    """``vmap(jacrev)``: shape ``(batch, 400)``."""
    from torch.func import jacrev, vmap
    from torch.nn.functional import linear

    def outputs_of(x):
        for weight, bias in net.layers[:-1]:
            x = linear(x, weight, bias).tanh()
        return linear(x, *net.layers[-1])

    derivatives_of = vmap(jacrev(outputs_of))
    return lambda: derivatives_of(net.x)[..., 0]


def tensorflow_vectorised(net):
    """``GradientTape.batch_jacobian``, which traces a graph: once, and not at each call."""
    import tensorflow as tf

    @tf.function
    def derivatives():
        with tf.GradientTape() as tape:
            tape.watch(net.x)
            outputs = jacobian.outputs_of(net.x, net.layers)
        return tape.batch_jacobian(outputs, net.x)[..., 0]

    return derivatives


def jax_vectorised(net):
    """``vmap(jacrev)``, compiled: once, and not at each call."""
    import jax

    def outputs_of(x, layers):
        return jacobian.outputs_of(x[None], layers)[0]

    derivatives_of = jax.jit(jax.vmap(jax.jacrev(outputs_of), in_axes=(0, None)))
    return lambda: derivatives_of(net.x, net.layers)[..., 0]


VECTORISED = {
    "torch": torch_vectorised,
    "tensorflow": tensorflow_vectorised,
    "jax": jax_vectorised,
}


def vectorised(net):
    """The framework's own way to apply one gradient to many rows at once."""
    name = unidev.device_of(net.x).backend
    if name not in VECTORISED:
        raise unidev.UnsupportedOperation(
            "vectorised reverse mode", f"{name} cannot apply a gradient to many rows at once"
        )
    return VECTORISED[name](net)


def print_rows(net, device, given, attempt):
    """Go row by row, as far as wanted; returns the seconds for all, and the numbers found."""
    whole = net.batch * jacobian.OUTPUTS
    own = torch_rows if device.backend == "torch" else jacobian.rows
    wanted = min(whole, given.rows or (whole if given.full or is_quick(net, device) else ROWS))
    if given.full:
        few = min(wanted, 100)
        seconds = seconds_of(lambda: list(itertools.islice(own(net), few)))
        announce(f"{wanted:,} rows at a batch of {net.batch:,} on {device}", seconds / few * wanted)
    read, kept, done, began = [], [], 0, time.perf_counter()
    with attempt, counting(f"rows at a batch of {net.batch:,} on {device}", wanted) as count:
        for row in itertools.islice(own(net), wanted):
            kept.append(row)
            done += 1
            if len(kept) == jacobian.OUTPUTS or done == wanted:
                sample = (done - 1) // jacobian.OUTPUTS
                read += [unidev.to_numpy(each)[sample, 0] for each in kept]
                kept.clear()
                count(done)
    done = len(read)
    if not done:
        return {"rows": 0, "seconds": None}, read
    seconds = (time.perf_counter() - began) / done * whole
    again = "one forward pass for all" if own is torch_rows else "each repeats the forward pass"
    scaled = "" if done == whole else f", scaled up from {done:,}"
    print(
        f"  row by row, {whole:,} rows{scaled}; {again}: {time_text(device, seconds)}"
        f" (published: {PUBLISHED.get(net.batch, 'nothing')})",
        flush=True,
    )
    return {"rows": done, "seconds": seconds_or_none(device, seconds)}, np.array(read)


def is_quick(net, device):
    """Whether all rows take seconds."""
    return device.backend == "torch" and net.batch <= 100


def print_way(name, make, device, net):
    """Time ``make(net)``; returns what it takes, and its derivatives, ``(batch, 400)``."""
    try:
        way = make(net)
        found = way()
    except unidev.UnsupportedOperation as error:
        print(f"  {name}: {error}")
        return {"seconds": None, "reason": str(error)}, None
    seconds = None if device.is_simulated else measure(waited(device, way)).median_s
    print(f"  {name}: {time_text(device, seconds)}", flush=True)
    if isinstance(found, list):
        found = np.concatenate([unidev.to_numpy(column) for column in found], axis=1)
    else:
        found = unidev.to_numpy(found)
    return {"seconds": seconds_or_none(device, seconds)}, found


def find(device, batch, given, attempt):
    """The Jacobian at one batch on one device, in all ways; prints and returns what was found."""
    unidev.seed(given.seed)
    ways = {
        "forward mode, 1 pass": lambda net: partial(jacobian.forwards, net),
        "a row for all samples, 400 passes": lambda net: partial(jacobian.summed, net),
        "the same, vectorised": vectorised,
    }
    with device:
        net = jacobian.make(batch)
        found = [print_way(name, make, device, net) for name, make in ways.items()]
        by_row, read = print_rows(net, device, given, attempt)
    (forwards, exact), (summed, _), (mapped, _) = found
    others = [derivatives for _, derivatives in found[1:] if derivatives is not None]
    differences = [abs(each - exact).max() for each in others]
    if len(read):
        differences.append(abs(read - exact.flatten()[: len(read)]).max())
    norm, difference = float(np.linalg.norm(exact)), float(max(differences))
    shape = (batch, jacobian.OUTPUTS, *net.x.shape)
    print(f"  shape {shape}, norm {norm:.4g}; the ways agree within {difference:.1g}")
    identity = 4 * (batch * jacobian.OUTPUTS) ** 2
    print(f"  all rows at once, by an identity, would take {identity / 1e9:.3g} GB: not run")
    return {
        "device": str(device), "batch": batch, "shape": list(shape), "norm": norm,
        "difference": difference, "row by row": by_row, "summed": summed, "vectorised": mapped,
        "forwards": forwards,
    }  # fmt: skip


def arguments():
    """Parse the command line."""
    parser = options(__doc__, "all rows at both batches")
    add = parser.add_argument
    add("--rows", type=integer_from(1), metavar="N",
        help=f"rows to go one by one (default: {ROWS:,}; PyTorch's at 100: all)")  # fmt: skip
    add("--batch", type=integer_from(1), nargs="+", default=jacobian.BATCHES, metavar="N",
        help="the batches (default: 100 1000)")  # fmt: skip
    given = parser.parse_args()
    return given, chosen_devices(parser, given.on)


def main():
    """Find the Jacobian at each batch on each device, and report."""
    given, devices = arguments()
    check_gradients()
    attempt, runs = Attempt(), []
    for batch, device in itertools.product(given.batch, devices):
        if not attempt.is_stopped:
            print(f"a batch of {batch:,} on {device}:")
            with attempt:
                runs.append(find(device, batch, given, attempt))
    say_what_is_missing(devices)
    write_json(given.json, {"backend": devices[0].backend, "runs": runs})
    return attempt.is_stopped


if __name__ == "__main__":
    run("jacobian", main)
