"""Traces and guards of JAX's calls by the user's line, and what is left as it was.

The transfers of each call are examples of the conformance suite: ``probe/transfers.py``.
"""

import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import unidev

HERE, THERE = unidev.gpu(0).native, unidev.gpu(1).native
TRACER = unidev.active_backend().tracer


def recorded(call):
    with unidev.trace_transfers() as trace:
        call()
    return [
        (each.operation, str(each.source), str(each.target), each.nbytes, each.shape)
        for each in trace.transfers
    ]


def square(native=HERE):
    """Two by two, of float32: 16 bytes."""
    return jax.device_put(np.array([[1, 2], [3, 4]], np.float32), native)


# -- a script whose transfers are known ------------------------------------------------------------


def script():
    x = jax.device_put(np.ones((2, 2), np.float32), HERE)
    w = jnp.ones((2, 2), device=HERE)
    y = (x @ w) * np.full((2, 2), 2, np.float32)
    z = jax.device_put(y, THERE)
    total = 0.0
    for row in z:
        total += row.sum().item()
    if (z > 3).any():
        z = z + 1
    print(f"{total:.1f}", z)  # noqa: T201  a way to read
    return np.asarray(z)


SCRIPT = [
    ("jax.device_put", "cpu:0", "gpu:0", 16, (2, 2)),
    ("mul of mixed operands", "cpu:0", "gpu:0", 16, (2, 2)),
    ("jax.device_put", "gpu:0", "gpu:1", 16, (2, 2)),
    ("Array.item", "gpu:1", "cpu:0", 4, ()),
    ("Array.item", "gpu:1", "cpu:0", 4, ()),
    ("Array.__bool__", "gpu:1", "cpu:0", 1, ()),
    ("Array.__str__", "gpu:1", "cpu:0", 16, (2, 2)),
]  # and no `asarray`: JAX has the values on the host by then


def test_a_trace_has_each_of_them_by_its_line():
    with unidev.trace_transfers() as trace:
        script()
    found = [
        (each.operation, str(each.source), str(each.target), each.nbytes, each.shape)
        for each in trace.transfers
    ]
    assert found == SCRIPT
    sources = [each.line.source for each in trace.transfers]
    assert sources[1:5] == [
        "y = (x @ w) * np.full((2, 2), 2, np.float32)",
        "z = jax.device_put(y, THERE)",
        *["total += row.sum().item()"] * 2,
    ]
    assert all(each.line.file == __file__ for each in trace.transfers)


# -- what is compiled ------------------------------------------------------------------------------


def test_a_function_compiled_within_a_trace_keeps_its_methods():
    x, host = square(), np.ones((2, 2), np.float32)
    with unidev.trace_transfers():
        step = jax.jit(lambda x, y: x + y)
        assert step.lower(x, host).compile()(x, x).shape == (2, 2)
        assert step.eval_shape(x, x).shape == (2, 2)
    assert recorded(lambda: step(x, host)) == [("jax.jit(<lambda>)", "cpu:0", "gpu:0", 16, (2, 2))]
    np.testing.assert_array_equal(step(x, host), [[2, 3], [4, 5]])  # outside of a trace


def test_a_method_compiled_within_a_trace_is_bound():
    x, host = square(), np.ones((2, 2), np.float32)

    def program():
        class Net:
            @jax.jit
            def __call__(self, x, y):
                return x + y

        jax.tree_util.register_pytree_node(Net, lambda net: ((), None), lambda *_: Net())
        return Net()(x, host)

    assert [each[0] for each in recorded(program)] == ["jax.jit(__call__)"]


def test_what_was_compiled_before_is_a_blind_spot_that_is_declared():
    x, host = square(), np.ones((2, 2), np.float32)
    step = jax.jit(lambda x, y: x + y)
    assert recorded(lambda: step(x, host)) == []
    assert any("before the trace began" in spot for spot in TRACER.blind_spots)


def test_flax_is_named_as_the_user_called_it():
    net = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
    nnx.update(net, jax.device_put(nnx.state(net), HERE))
    host = np.ones((1, 2), np.float32)
    with jax.default_device(HERE):
        found = recorded(lambda: net(host))
    # Twice: Flax makes an array of each argument to find the dtype, and another to compute with.
    assert found == [("Linear.__call__", "cpu:0", "gpu:0", 8, (1, 2))] * 2
    step = recorded(lambda: nnx.jit(lambda net, x: net(x))(net, host))
    assert [each[1:] for each in step] == [("cpu:0", "gpu:0", 8, (1, 2))]


# -- what JAX and NumPy are afterwards -------------------------------------------------------------


def test_a_module_imported_within_a_trace_gets_jaxs_own_functions_back(monkeypatch):
    module = types.ModuleType("imported_within")
    original = jax.device_put
    with unidev.trace_transfers():
        module.put, module.asarray = jax.device_put, jnp.asarray
        monkeypatch.setitem(sys.modules, "imported_within", module)
        assert module.put is not original
    assert module.put is original
    assert module.asarray is jnp.asarray


def test_what_a_program_has_put_in_jaxs_place_since_the_last_trace_is_called(monkeypatch):
    recorded(square)
    monkeypatch.setattr(jnp, "sum", lambda x: "its own")
    found = []
    recorded(lambda: found.append(jnp.sum(square())))
    assert [*found, jnp.sum(square())] == ["its own"] * 2


def test_pooling_is_differentiable_within_a_trace():
    """`reduce_window` compares the function that it is given with `jax.lax.max`."""
    x = jax.device_put(np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1), HERE)

    def loss(x):
        return nnx.max_pool(x, (2, 2), strides=(2, 2)).sum()

    expected = jax.grad(loss)(x)
    with unidev.trace_transfers():
        found = jax.grad(loss)(x)
    np.testing.assert_array_equal(found, expected)


def test_an_array_read_before_the_trace_is_known_only_where_jax_kept_its_values():
    x = square()
    np.asarray(x)
    assert len(recorded(lambda: np.asarray(x))) == 1  # a simulated GPU's memory is the host's
    x = square()
    assert len(recorded(lambda: (x.tolist(), str(x), np.array(x)))) == 1


def refused(error, call):
    with pytest.raises(error):
        call()


def test_errors_of_jax_report_nothing():
    x, y = square(), square(THERE)
    assert recorded(lambda: refused(TypeError, lambda: float(x))) == []
    assert recorded(lambda: refused(ValueError, lambda: x + y)) == []


def test_deleted_arrays_raise_jaxs_own_error():
    x = square()
    x.delete()
    assert recorded(lambda: refused(RuntimeError, lambda: np.asarray(x))) == []
    assert recorded(lambda: refused(RuntimeError, lambda: x + 1)) == []


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("jax.default_backend", lambda: jax.default_backend()),  # noqa: PLW0108  replaced meanwhile
        ("jax.devices", lambda: refused(RuntimeError, lambda: jax.devices("gpu"))),
        (
            "jax.local_devices",
            lambda: refused(RuntimeError, lambda: jax.local_devices(backend="gpu")),
        ),
    ],
)
def test_a_trace_names_what_sees_no_simulated_gpu(name, ask):
    with unidev.trace_transfers() as trace:
        ask()
    assert list(trace.gpu_queries) == [name]
    assert "CpuDevice(id=1)" in trace.gpu_queries[name]


def test_listing_all_devices_asks_for_no_gpu():
    with unidev.trace_transfers() as trace:
        assert len(jax.devices()) == jax.device_count()
    assert trace.gpu_queries == {}


def test_random_keys_are_used_and_moved():
    key = jax.device_put(jax.random.key(0), HERE)
    assert recorded(lambda: jax.random.normal(key, (2,))) == []
    assert recorded(lambda: jax.device_put(key, HERE)) == []
