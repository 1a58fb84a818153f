"""Loops of ``training_table.py``: each in one process without unidev's group, and in its workers.

Both begin with the same weights and read the same rows, which a seed draws.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import unidev
from unidev import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Array = np.ndarray[Any, Any]
    Batch = tuple[Any, Any]
    Values = list[Array]
    """Parameters, losses of all steps and outputs of all rows; or an accuracy and outputs."""

MOST_WORKERS = 4
_FEATURES, _HIDDEN, _CLASSES = 4, 8, 3
_BATCH = 12
"""Rows of a batch: the same number for each of 1 to 4 workers."""
_LEFT = 2
"""Rows of the last batch: fewer than three or four workers, each of which has one all the same."""
_ROWS = 3 * _BATCH + _LEFT
_EPOCHS = 2
_RATE = 0.3


class Data(NamedTuple):
    """The rows, and how some loops read them."""

    inputs: Array
    labels: Array
    uneven: list[int]
    """The sizes of uneven batches; none has fewer rows than there are workers."""


class Loop(NamedTuple):
    """A training loop: the batches that one process reads, and those that a worker reads."""

    whole: Callable[[Data, int], Iterable[Batch]]
    """NumPy arrays; for the number of workers, on which the end of a shard depends."""
    own: Callable[[Data], Iterable[tuple[Batch, bool]]]
    """Tensors on the worker's device, and whether their step only accumulates."""
    has_norms: bool = False
    """Whether the net has batch normalisation, which is then synchronized."""


def drawn_data(seed: int) -> Data:
    """Rows whose labels follow from them, with some noise; one class is frequent."""
    rng = np.random.default_rng([seed, 27])
    inputs = rng.standard_normal((_ROWS, _FEATURES)).astype("float32")
    noise = rng.standard_normal((_ROWS, _CLASSES))
    labels = (inputs[:, :_CLASSES] + noise / 2 + [1.0, 0.0, -0.5]).argmax(1)
    return Data(inputs, labels, rng.integers(MOST_WORKERS, _BATCH + 2, size=7).tolist())


# -- one process -----------------------------------------------------------------------------------


def in_one_process(kinds: Sequence[str], seed: int, workers: int) -> dict[str, list[Values]]:
    """For each kind of loop the values at its beginning, and at its end in one process."""
    found = {}
    for kind in kinds:
        data = drawn_data(seed)
        if kind == EVALUATION:
            found[kind] = [[], _evaluated_whole(_net(), data)]
            continue
        loop, losses = LOOPS[kind], []
        net = _net(has_norms=loop.has_norms)
        begun = _parameters(net)
        for batch in loop.whole(data, workers):
            loss, gradients = unidev.value_and_grad(_loss)(net, *_placed(batch))
            unidev.sgd(net, gradients, lr=_RATE)
            losses.append(unidev.to_numpy(loss).item())
        found[kind] = [begun, _ended(net, losses, data)]
    return found


def _evaluated_whole(net: Any, data: Data) -> Values:
    outputs = _outputs(net, data.inputs)
    return [(outputs.argmax(1) == data.labels).mean(), outputs]


def _slices(data: Data, sizes: Sequence[int]) -> Iterator[Batch]:
    """Batches of these sizes, which begin anew after the last row."""
    for size, stop in zip(sizes, np.cumsum(sizes), strict=True):
        rows = np.arange(stop - size, stop) % _ROWS
        yield data.inputs[rows], data.labels[rows]


def _even(data: Data, _: int = 1) -> Iterator[Batch]:
    return _slices(data, [_BATCH] * 6)


def _uneven(data: Data, _: int = 1) -> Iterator[Batch]:
    return _slices(data, data.uneven)


def _double(data: Data, _: int = 1) -> Iterator[Batch]:
    return _slices(data, [2 * _BATCH] * 4)


def _dropped(data: Data, workers: int) -> Iterator[Batch]:
    sizes = [_BATCH] * (_ROWS // _BATCH) + [_LEFT] * (workers <= _LEFT)
    for _ in range(_EPOCHS):
        yield from _slices(data, sizes)


def _in_order(data: Data, _: int = 1) -> Iterator[Batch]:
    return _dropped(data, 1)


# -- workers ---------------------------------------------------------------------------------------


def in_workers(kinds: Sequence[str], seed: int) -> dict[str, Values]:
    """For each kind of loop the values of this worker at its end."""
    found = {}
    for kind in kinds:
        data = drawn_data(seed)
        if kind == EVALUATION:
            found[kind] = _evaluated(_net(), data)
            continue
        loop, losses = LOOPS[kind], []
        net = _net(unidev.group().rank, has_norms=loop.has_norms)
        parallel = unidev.DataParallel(
            net, batch_norm="synchronized" if loop.has_norms else "local"
        )
        for batch, accumulates in loop.own(data):
            with parallel.accumulate() if accumulates else nullcontext():
                loss, gradients = unidev.value_and_grad(_loss)(parallel, *batch)
            if not accumulates:
                unidev.sgd(parallel, gradients, lr=_RATE)
                losses.append(unidev.to_numpy(loss).item())
        found[kind] = _ended(net, losses, data)
    return found


def _evaluated(net: Any, data: Data) -> Values:
    """Also where a row is repeated for a worker: it does not count."""
    group = unidev.group()
    shard = group.shard((data.inputs, data.labels), batch_size=_BATCH)
    accuracy = unidev.evaluate_accuracy(net, unidev.prefetch(shard, group.device))
    outputs = []
    for (inputs, _), padded in zip(shard, shard.padding, strict=True):
        with group.device:
            own = net(_placed(inputs))
        outputs.append(unidev.to_numpy(group.gather_rows(own, padded=padded)))
    return [np.array(accuracy), np.concatenate(outputs)]


def _split(whole: Iterable[Batch]) -> Iterator[tuple[Batch, bool]]:
    for batch in whole:
        yield unidev.group().split_batch(_placed(batch)), False


def _accumulated(data: Data) -> Iterator[tuple[Batch, bool]]:
    """Each worker takes one more step than the one before it, and the first piece is larger."""
    group = unidev.group()
    weights = [2.0] + [1.0] * (group.rank + 1)
    for own, _ in _split(_double(data)):
        *pieces, last = unidev.split_batch(own, [group.device] * len(weights), weights=weights)
        yield from ((piece, True) for piece in pieces)
        yield last, False


def _sharded(data: Any, **options: Any) -> Iterator[tuple[Batch, bool]]:
    group = unidev.group()
    shard = group.shard(data, **options)
    for _ in range(_EPOCHS):
        for batch in unidev.prefetch(shard, group.device):
            yield batch, False


def _sequence(data: Data) -> list[Batch]:
    return list(zip(data.inputs, data.labels, strict=True))


def _loader(data: Data) -> Any:
    """The framework's own, which reads the rows in their order."""
    make: dict[str, Callable[[Data], Any]] = {
        "torch": _torch_loader, "tensorflow": _tensorflow_loader,
        "paddle": _paddle_loader, "mxnet": _mxnet_loader,
    }  # fmt: skip
    return make[unidev.active_backend().name](data)


def _torch_loader(data: Data) -> Any:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    rows = TensorDataset(torch.from_numpy(data.inputs), torch.from_numpy(data.labels))
    return DataLoader(rows, batch_size=_BATCH)


def _tensorflow_loader(data: Data) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((data.inputs, data.labels)).batch(_BATCH)


def _paddle_loader(data: Data) -> Any:
    import paddle
    from paddle.io import DataLoader, TensorDataset

    rows = TensorDataset([paddle.to_tensor(data.inputs), paddle.to_tensor(data.labels)])
    return DataLoader(rows, batch_size=_BATCH)


def _mxnet_loader(data: Data) -> Any:
    import mxnet as mx
    from mxnet.gluon.data import ArrayDataset, DataLoader

    mx.util.set_np()  # batches of mx.np, as unidev's tensors on MXNet
    return DataLoader(ArrayDataset(data.inputs, data.labels), batch_size=_BATCH)


# -- both ------------------------------------------------------------------------------------------


def _net(rank: int = 0, *, has_norms: bool = False) -> Any:
    """Other weights on each worker: those of worker 0 count."""
    unidev.seed(1 + rank)
    first = [nn.dense(_FEATURES, _HIDDEN, bias=not has_norms)]  # a norm takes a bias away
    first += [nn.batch_norm(_HIDDEN)] * has_norms
    net = nn.sequential(*first, nn.tanh(), nn.dense(_HIDDEN, _CLASSES))
    return unidev.place(net, unidev.group().device)


def _loss(net: Any, inputs: Any, labels: Any) -> Any:
    return nn.functional.softmax_cross_entropy(net(inputs), labels)


def _outputs(net: Any, inputs: Array) -> Array:
    with unidev.group().device:
        outputs: Array = unidev.to_numpy(nn.eval_mode(net)(_placed(inputs)))
    return outputs


def _ended(net: Any, losses: Sequence[float], data: Data) -> Values:
    """Outputs are those of evaluation, which depend on running statistics, too."""
    return [*_parameters(net), np.array(losses), _outputs(net, data.inputs)]


def _parameters(net: Any) -> Values:
    return [unidev.to_numpy(x).copy() for x in unidev.parameters(net).values()]


def _placed(batch: Any) -> Any:
    device = unidev.group().device
    if isinstance(batch, tuple):
        return tuple(unidev.array(x, device=device) for x in batch)
    return unidev.array(batch, device=device)


EVALUATION, NORMS = "evaluation", "norms"
LOOPS = {
    "even": Loop(_even, lambda data: _split(_even(data))),
    "uneven": Loop(_uneven, lambda data: _split(_uneven(data))),
    "padded": Loop(_in_order, lambda data: _sharded(_sequence(data), batch_size=_BATCH)),
    "dropped": Loop(
        _dropped, lambda data: _sharded(_sequence(data), batch_size=_BATCH, last="drop")
    ),
    "loader": Loop(_in_order, lambda data: _sharded(_loader(data))),
    "accumulate": Loop(_double, _accumulated),
    NORMS: Loop(_uneven, lambda data: _split(_uneven(data)), has_norms=True),
}
