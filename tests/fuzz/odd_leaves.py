"""Tensors that are none in full, as leaves: keys, tracers, nested, lazy, sparse and symbolic ones.

python tests/fuzz/odd_leaves.py torch  # each of them in each parameter of every public function
"""

from __future__ import annotations

import inspect
import os
import random
import sys
import tempfile
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def odd_leaves(backend: str) -> dict[str, Any]:
    """By what they are."""
    made: dict[str, Any] = globals()[f"_of_{backend}"]()
    return made


def _of_numpy() -> dict[str, Any]:
    import numpy as np

    return {
        "masked": np.ma.array([1.0, 2], mask=[0, 1]), "objects": np.array([None, 1]),
        "record": np.zeros(2, "i4,f4"), "dates": np.zeros(2, "M8[s]"), "text": np.array(["a"]),
        "0-d": np.array(1.0), "long": np.ones(2, "g"),
    }  # fmt: skip


def _of_torch() -> dict[str, Any]:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    kept: list[Any] = []
    torch.func.vmap(lambda x: kept.append(x) or x * 2)(torch.ones(2, 3))
    torch.func.grad(lambda x: kept.append(x) or (x * x).sum())(torch.ones(2))
    two = [torch.ones(2), torch.ones(3)]
    with FakeTensorMode():
        fake = torch.ones(2, 3)
    emptied = torch.ones(3)
    emptied.untyped_storage().resize_(0)
    return {
        "nested": torch.nested.nested_tensor(two), "batched": kept[0], "of grad": kept[1],
        "jagged": torch.nested.nested_tensor(two, layout=torch.jagged), "fake": fake,
        "lazy parameter": torch.nn.parameter.UninitializedParameter(), "emptied": emptied,
        "lazy buffer": torch.nn.parameter.UninitializedBuffer(), "lazy": torch.nn.LazyLinear(2),
        "coo": torch.eye(2).to_sparse(), "csr": torch.eye(2).to_sparse_csr(),
        "bsr": torch.eye(2).to_sparse_bsr((1, 1)), "meta": torch.ones(2, 3, device="meta"),
        "masked": torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False])),
        "conjugate": torch.ones(2, dtype=torch.complex64).conj(), "0-d": torch.tensor(1.0),
        "zero": torch._efficientzerotensor(2), "mkldnn": torch.ones(2).to_mkldnn(),
    }  # fmt: skip


def _of_jax() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    from jax.experimental import sparse

    kept: list[Any] = []
    for trace in (jax.jit, jax.vmap, jax.grad, jax.eval_shape):
        given = (lambda x: kept.append(x) or (x * x).sum(), jnp.ones(3))
        trace(*given) if trace is jax.eval_shape else trace(given[0])(given[1])
    jax.jit(lambda x: kept.append(x) or x)(jax.random.key(0))
    jax.jit(lambda x: kept.append(x) or x)(jnp.arange(3))
    names = ("of jit", "of vmap", "of grad", "of eval_shape", "key of jit", "integer of jit")
    return {
        **dict(zip(names, kept, strict=True)), "key": jax.random.key(0), "0-d": jnp.float32(1),
        "keys": jax.random.split(jax.random.key(0), 3), "int4": jnp.ones(3, "int4"),
        "shape": jax.ShapeDtypeStruct((2,), "float32"), "coo": sparse.BCOO.fromdense(jnp.eye(2)),
    }  # fmt: skip


def _of_tensorflow() -> dict[str, Any]:
    import keras
    import tensorflow as tf

    kept: list[Any] = []
    tf.function(lambda x: kept.append(x) or x * 2)(tf.ones(3))
    return {
        "ragged": tf.ragged.constant([[1.0], [2.0, 3.0]]), "symbolic": keras.Input((3,)),
        "sparse": tf.sparse.from_dense([[1.0, 0.0]]), "of function": kept[0],
        "string": tf.constant(["a"]), "resource": tf.Variable([1.0]).handle,
        "variant": tf.data.Dataset.range(3)._variant_tensor, "0-d": tf.constant(1.0),
        "slices": tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0]), tf.constant([2, 2])),
        "of any shape": tf.Variable(1.0, shape=tf.TensorShape(None)), "spec": tf.TensorSpec((2,)),
    }  # fmt: skip


def _of_paddle() -> dict[str, Any]:
    import paddle

    paddle.enable_static()
    program = paddle.static.Program()  # without it, Paddle ends the process that asks its values
    with paddle.static.program_guard(program):
        static, unknown = paddle.static.data("x", [2, 3]), paddle.static.data("y", [None, 3])
    paddle.disable_static()
    embedding = paddle.nn.Embedding(5, 3, sparse=True)
    embedding(paddle.to_tensor([1, 2])).sum().backward()
    return {
        "coo": paddle.eye(2).to_sparse_coo(2), "csr": paddle.eye(2).to_sparse_csr(),
        "static": static, "unknown": unknown, "rows": embedding.weight.grad,
        "0-d": paddle.to_tensor(1.0), "unmade": paddle.Tensor(), "program": program,
    }  # fmt: skip


def _of_mxnet() -> dict[str, Any]:
    import mxnet as mx

    lazy = mx.gluon.nn.Dense(2)
    lazy.initialize()
    return {
        "csr": mx.nd.ones((2, 2)).tostype("csr"), "rows": mx.nd.ones((2, 2)).tostype("row_sparse"),
        "symbol": mx.sym.Variable("x"), "numpy symbol": mx.sym.np.ones((2,)), "lazy": lazy,
        "lazy weight": lazy.weight, "0-d": mx.np.array(1.0), "legacy": mx.nd.ones((2,)),
    }  # fmt: skip


def more_functions() -> dict[str, Callable[..., Any]]:
    """Of a group, and what their results are used for."""
    from bad_arguments import _loss

    import unidev

    own, net = unidev.group(), unidev.nn.sequential(unidev.nn.dense(3, 2))
    names = ("gather_rows", "all_gather", "all_reduce", "broadcast", "split_batch")
    x = unidev.arange(6)

    def differentiated(x: Any) -> Any:
        return unidev.value_and_grad(_loss)(x)

    return {
        **{f"group.{name}": getattr(own, name) for name in names},
        "shard": lambda data: list(own.shard(data, batch_size=2)),
        "shard.last": lambda last: own.shard(x, batch_size=2, last=last),
        "shard.seed": lambda seed: own.shard(x, batch_size=2, seed=seed),
        "y": lambda y: unidev.evaluate_accuracy(net, [(unidev.ones((2, 3)), [y, 1])]),
        "reduction": lambda reduction: unidev.DataParallel(net, reduction=reduction),
        "batch_norm": lambda batch_norm: unidev.DataParallel(net, batch_norm=batch_norm),
        "reduce_dtype": lambda reduce_dtype: unidev.DataParallel(net, reduce_dtype=reduce_dtype),
        "value_and_grad": differentiated,
        "fetched": lambda x: list(unidev.prefetch([x], "cpu")),
    }  # fmt: skip


def calls(backend: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each function with each leaf, alone and in a list, in each parameter; the rest is good."""
    from bad_arguments import Arguments, functions

    from unidev.backends.loading import load_backend

    leaves, arguments = odd_leaves(backend), Arguments(load_backend(backend), Path.cwd())
    every = {**functions(), **more_functions()}
    for name in every.keys() - {"run", "fastest_device"}:
        signature = inspect.signature(every[name])
        named = [
            each for each in signature.parameters.values()
            if each.kind is not each.VAR_KEYWORD and each.name != "function"
        ]  # fmt: skip
        for odd, leaf, wrap in product(named, leaves, (False, True)):
            given, draw = [leaves[leaf]] if wrap else leaves[leaf], random.Random(name + leaf)
            bound = signature.bind_partial()
            for each in signature.parameters.values():
                if each.default is each.empty and each.kind < each.VAR_POSITIONAL:
                    bound.arguments[each.name] = arguments.good(each.name, draw)
            bound.arguments[odd.name] = (given,) if odd.kind is odd.VAR_POSITIONAL else given
            said = f"{name}, {odd.name} is {'in a list: ' * wrap}{leaf}"
            yield said, partial(every[name], *bound.args, **bound.kwargs)


def findings(backend: str) -> Iterator[str]:
    """The calls in this process that ended with an error that is not unidev's."""
    import bad_calls

    import unidev

    unidev.set_backend(backend)
    for said, call in calls(backend):

        def entered(call: Callable[[], Any] = call) -> None:
            made = call()
            if hasattr(type(made), "__enter__"):
                with made:
                    pass

        if found := bad_calls.outcome(entered):
            yield f"{said}: {found}"


if __name__ == "__main__":
    os.environ.setdefault("UNIDEV_SIMULATE", "2")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        listed = list(findings(sys.argv[1]))
        os.chdir("/")
    print(*listed, sep="\n")
    sys.exit(1 if listed else 0)
