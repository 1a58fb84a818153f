"""The attributes of JAX and NumPy that are replaced while a scope is open in any thread."""

from __future__ import annotations

import sys
from functools import partial, wraps
from inspect import isfunction
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import Patches
from unidev_jax.arrays import TRACER, is_tracing
from unidev_jax.framework import jax, jnp
from unidev_jax.tracer.transfers import Transfers, is_array
from unidev_jax.variables import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from unidev.contract import Backend, PlannedTransfer
    from unidev_jax.tracer.recording import JaxRecording

    Function = Callable[..., Any]
    Planned = Sequence[PlannedTransfer]

_READS = {
    "__array__": "Array.__array__",
    "__bool__": "Array.__bool__",
    "__complex__": "Array.__complex__",
    "__float__": "Array.__float__",
    "__format__": "Array.__format__",
    "__index__": "Array.__index__",
    "__int__": "Array.__int__",
    "__reduce__": "pickle",
    "__repr__": "Array.__repr__",
    "__str__": "Array.__str__",
    "copy_to_host_async": "Array.copy_to_host_async",
    "item": "Array.item",
    "tobytes": "Array.tobytes",
    "tolist": "Array.tolist",
}
"""Methods that read all of an array, and their names for users."""
_OF_ONE = {"__bool__", "__complex__", "__float__", "__index__", "__int__"}
"""Those that JAX refuses for more than one element."""
_OPERATORS = (
    "add", "and", "divmod", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow", "rshift",
    "sub", "truediv", "xor",
)  # fmt: skip
_COMPARISONS = ("eq", "ge", "gt", "le", "lt", "ne")
_METHODS = ("choose", "clip", "compress", "dot", "repeat", "searchsorted", "take")
"""Methods that take other arrays."""
_UPDATES = ("add", "divide", "max", "min", "multiply", "power", "set", "subtract")
"""Methods of ``x.at[index]``."""
_NUMPY = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray")
_BY_DTYPE = ("can_cast", "iscomplexobj", "isrealobj", "ndim", "result_type", "shape", "size")
"""NumPy's functions that read no values of an array which has a shape and a dtype."""
_MAKERS = ("array", "asarray")
_NOT_MOVING = {
    "broadcast_shapes", "einsum_path", "from_dlpack", "frompyfunc", "get_printoptions",
    "iscomplexobj", "isdtype", "isrealobj", "isscalar", "issubdtype", "iterable", "load", "ndim",
    "printoptions", "promote_types", "result_type", "set_printoptions", "shape", "size",
    "vectorize",
}  # fmt: skip
"""Functions of ``jax.numpy`` that read at most shapes and dtypes, or take a function."""
_MODULES = (
    (jnp, "jnp"), (jnp.linalg, "jnp.linalg"), (jnp.fft, "jnp.fft"), (jax.nn, "jax.nn"),
)  # fmt: skip
_TRAINER = "keras.src.backend.jax.trainer"
_ELSEWHERE = ("backend", "device", "in_shardings", "out_shardings")
"""Options of ``jax.jit`` that decide where it computes."""


class JaxPatches(Patches):
    """Reads, copies, operands, and what ``jax.jit`` compiles meanwhile."""

    def __init__(self, backend: Backend, recording: JaxRecording) -> None:
        super().__init__()
        self._backend = backend
        self._recording = recording
        self._compiled = type(jax.jit(lambda: None))
        self._known: set[str] = set()
        self._functions: dict[int, Any] = {}
        self._patches: list[tuple[Any, str, Any]] = []
        self._before: list[tuple[Any, str, Any]] = []
        self._sizes: Sequence[object] = ()

    def replacements(self) -> list[tuple[Any, str, Any]]:
        """Made once, which takes 8 ms, and again if JAX's attributes have become others."""
        self._known = set(sys.modules)
        sizes = [sys.modules.get(_TRAINER), *(len(vars(module)) for module, _ in _MODULES)]
        if sizes != self._sizes or any(
            names.get(name) is not original for names, name, original in self._before
        ):
            self._patches = list(self._replacements(Transfers(self._backend)))
            self._before = [
                (vars(owner), name, vars(owner).get(name)) for owner, name, _ in self._patches
            ]
            self._functions = {
                id(made): original
                for (_, _, made), (_, _, original) in zip(self._patches, self._before, strict=True)
                if original is not None
            }
            self._sizes = sizes
        return self._patches

    def late_holders(self) -> Iterator[tuple[Any, str, Any]]:
        """The names in modules imported meanwhile, as by ``from jax import device_put``."""
        for name in set(sys.modules) - self._known:
            module = sys.modules.get(name)
            for attribute, value in list(getattr(module, "__dict__", {}).items()):
                if id(value) in self._functions:
                    yield module, attribute, self._functions[id(value)]

    def _replacements(self, moves: Transfers) -> Iterator[tuple[Any, str, Any]]:
        array = type(jax.device_put(np.zeros(1, np.float32), self._backend.cpu.native))
        yield from self._readings(array, moves)
        yield from self._copies(array, moves)
        yield from self._operators(array, moves)
        yield from self._functions_of_numpy(moves)
        yield jax, "jit", self._jit(jax.jit, moves)
        trainer: Any = sys.modules.get(_TRAINER)
        if trainer is not None and trainer.jit is jax.jit:  # by which Keras's `fit` compiles
            yield trainer, "jit", self._jit(jax.jit, moves)

    # -- reading into Python and NumPy -------------------------------------------------------------

    def _readings(self, array: type, moves: Transfers) -> Iterator[tuple[Any, str, Any]]:
        for name, operation in _READS.items():
            arrays_of = _itself_if_one if name in _OF_ONE else _itself
            yield array, name, self._reading(getattr(array, name), arrays_of, operation, moves)
        yield jax, "device_get", self._reading(jax.device_get, _leaves, "jax.device_get", moves)
        # NumPy takes the buffer of an array on a CPU, and so on a simulated GPU, without a method.
        for name in _NUMPY:
            original = getattr(np, name)
            yield np, name, self._reading(original, _first, f"numpy.{name}", moves)
        if self._backend.simulated_count:
            yield array, "__array_function__", self._array_function(array, moves)

    def _reading(
        self, original: Function, arrays_of: Function, operation: str, moves: Transfers
    ) -> Function:
        return self._recording.reading(original, arrays_of, lambda x: moves.read(x, operation))

    def _array_function(self, array: type, moves: Transfers) -> Function:
        """``__array_function__``, which JAX's arrays lack: NumPy calls this instead.

        Where an array has a method of that name, NumPy calls it, and it computes on the device.
        """

        def dispatch(_: Any, function: Any, __: Any, arguments: Any, options: Any) -> Any:
            implementation = function._implementation
            if function.__name__ in _BY_DTYPE or hasattr(array, function.__name__):
                return implementation(*arguments, **options)
            name = f"numpy.{function.__name__}"
            read = self._reading(implementation, _leaves, name, moves)
            return read(*arguments, **options)

        return dispatch

    # -- copying to devices ------------------------------------------------------------------------

    def _copies(self, array: type, moves: Transfers) -> Iterator[tuple[Any, str, Any]]:
        def put(x: Any, device: Any = None, **_: Any) -> Planned:
            return [
                each
                for leaf, wanted in _with_devices(x, device)
                for each in moves.put(plain(leaf), wanted, "jax.device_put")
            ]

        def to_device(x: Any, device: Any, **_: Any) -> Planned:
            return moves.put(x, device, "Array.to_device")

        yield jax, "device_put", self._recording.wrap(jax.device_put, put)
        original = array.to_device  # type: ignore[attr-defined]
        yield array, "to_device", self._recording.wrap(original, to_device)
        for name in _MAKERS:
            original = getattr(jnp, name)
            making = partial(self._made, moves, f"jnp.{name}", original)
            yield jnp, name, self._recording.wrap(original, making)

    def _made(
        self, moves: Transfers, operation: str, original: Function, value: Any, *arguments: Any,
        **options: Any,
    ) -> Planned:  # fmt: skip
        """``jnp.asarray`` moves NumPy's arrays, lists of numbers, and arrays for another device."""
        device = options.pop("device", None)
        if is_array(value):
            return moves.put(value, device, operation)
        if not isinstance(value, (np.ndarray, list, tuple)) or is_tracing():
            return []
        if any(isinstance(x, jax.Array) for x in jax.tree_util.tree_leaves(value)):
            return []  # packed by an operation
        made = jax.eval_shape(lambda: original(value, *arguments, **options))
        return moves.put(np.broadcast_to(np.zeros((), made.dtype), made.shape), device, operation)

    # -- operands ----------------------------------------------------------------------------------

    def _operators(self, array: type, moves: Transfers) -> Iterator[tuple[Any, str, Any]]:
        for name in (*_OPERATORS, *_COMPARISONS):
            for owner in (array, TRACER):  # the latter's, while it is differentiated
                for method in (f"__{name}__", f"__r{name}__"):
                    if original := vars(owner).get(method):
                        yield owner, method, self._computing(original, name, moves)
        for name in _METHODS:
            yield array, name, self._computing(getattr(array, name), name, moves)
        index = vars(array)["__getitem__"]
        getitem = self._computing(index, "Array.__getitem__", moves, is_operation=False)
        yield array, "__getitem__", getitem
        updating = type(jnp.zeros(1).at[0])
        for name in _UPDATES:
            original = getattr(updating, name)

            def update(at: Any, *given: Any, name: str = name, **options: Any) -> Planned:
                leaves = jax.tree_util.tree_leaves((at.array, at.index, given, options))
                return moves.operands(leaves, f"Array.at.{name}", is_operation=False)

            yield updating, name, self._recording.wrap(original, update)

    def _functions_of_numpy(self, moves: Transfers) -> Iterator[tuple[Any, str, Any]]:
        """``jax.numpy``'s, its ``linalg``'s and ``fft``'s, ``jax.nn``'s; ``jnp.add`` by its class.

        Not ``jax.lax``: ``reduce_window`` compares the function it is given with ``lax.max``.
        """
        for module, prefix in _MODULES:
            for name, original in list(vars(module).items()):
                is_public = not name.startswith("_") and name not in (*_NOT_MOVING, *_MAKERS)
                if is_public and (isfunction(original) or isinstance(original, self._compiled)):
                    made = self._computing(original, f"{prefix}.{name}", moves)
                    yield module, name, self._with_stages(made, original)

        def of_ufunc(ufunc: Any, *arguments: Any, **options: Any) -> Planned:
            leaves = jax.tree_util.tree_leaves((arguments, options))
            return moves.operands(leaves, f"jnp.{ufunc.__name__}")

        yield jnp.ufunc, "__call__", self._recording.wrap(jnp.ufunc.__call__, of_ufunc)

    def _computing(
        self, original: Function, name: str, moves: Transfers, *, is_operation: bool = True
    ) -> Function:
        def operands(*arguments: Any, **options: Any) -> Planned:
            leaves = jax.tree_util.tree_leaves((arguments, options))
            return moves.operands(leaves, name, is_operation=is_operation)

        return self._recording.wrap(original, operands)

    # -- compiling ---------------------------------------------------------------------------------

    def _jit(self, original: Function, moves: Transfers) -> Function:
        """``jax.jit`` of a thread with a scope; what it makes reports its operands in scopes."""

        @wraps(original)
        def jit(*functions: Any, **options: Any) -> Any:
            made = original(*functions, **options)
            chosen = jax.tree_util.tree_leaves([options.get(name) for name in _ELSEWHERE])
            if not self._recording.scopes or chosen:
                return made
            if not isinstance(made, self._compiled):  # a decorator, made of options alone
                return lambda function: jit(function, **options)
            name = getattr(made, "__name__", "a function")
            computing = self._computing(made, f"jax.jit({name})", moves, is_operation=False)
            return self._with_stages(computing, made)

        return jit

    def _with_stages(self, made: Function, original: Any) -> Function:
        """``made``, with the methods of a compiled function, such as ``lower``."""
        if isinstance(original, self._compiled):
            for name in ("lower", "trace", "eval_shape", "clear_cache"):
                setattr(made, name, getattr(original, name))
        return made


def _itself(x: Any, *_: Any, **__: Any) -> list[Any]:
    return [x] if is_array(x) else []


def _itself_if_one(x: Any, *_: Any) -> list[Any]:
    return [x] if is_array(x) and x.size == 1 else []


def _first(x: Any = None, *_: Any, **__: Any) -> list[Any]:
    """What NumPy makes an array of: one argument, or each part of a list."""
    if isinstance(x, (list, tuple)):
        return [each for part in x for each in _first(part)]
    return _itself(plain(x))


def _leaves(*arguments: Any, **options: Any) -> list[Any]:
    found = map(plain, jax.tree_util.tree_leaves((arguments, options)))
    return [x for x in found if is_array(x)]


def _with_devices(x: Any, device: Any) -> Iterator[tuple[Any, Any]]:
    """Each leaf of ``x`` with its device, of a tree whose leaves may stand for whole branches."""
    leaves = jax.tree_util.tree_leaves(x)
    if not isinstance(device, (tuple, list, dict)):
        return zip(leaves, [device] * len(leaves), strict=True)
    spread = jax.tree.broadcast(device, x, is_leaf=_is_device)
    return zip(leaves, jax.tree_util.tree_leaves(spread, is_leaf=_is_device), strict=True)


def _is_device(x: Any) -> bool:
    return x is None or isinstance(x, (jax.Device, jax.sharding.Sharding)) or hasattr(x, "sharding")
