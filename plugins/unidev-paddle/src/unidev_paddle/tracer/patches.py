"""The scopes of each thread, and the attributes of Paddle's that are replaced while one is open."""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, Any

from unidev.contract import Patches, Recording
from unidev_paddle.framework import core, paddle
from unidev_paddle.tracer.operations import by_index, by_operation, by_operator
from unidev_paddle.tracer.readings import Calls
from unidev_paddle.tracer.transfers import Sight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from unidev.contract import Backend
    from unidev_paddle.tracer.transfers import Transfers

    Patch = tuple[Any, str, Any]

Tensor: Any = paddle.Tensor

OPERATIONS = (paddle._C_ops, paddle._legacy_C_ops)
OPERATORS = (
    "add", "radd", "sub", "rsub", "mul", "rmul", "div", "rdiv", "truediv", "rtruediv", "floordiv",
    "rfloordiv", "mod", "rmod", "pow", "rpow", "matmul", "rmatmul", "eq", "ne", "lt", "le", "gt",
    "ge",
)  # fmt: skip
_PACKAGES = ("paddle", "unidev_paddle")
_ELSEWHERE = ("paddle._pir_ops", "paddle.base.libpaddle")
"""Modules whose operations are for static graphs only, and Paddle's own list of them."""


class PaddleRecording(Recording):
    """Keeps the last error that a ``begin`` raised."""

    error: BaseException | None = None

    def refused(self, error: BaseException) -> None:
        """See ``Recording``."""
        self.error = error

    def wrap_engine(
        self, function: Callable[..., Any], errors: tuple[type[Exception], ...]
    ) -> Callable[..., Any]:
        """A replacement for a function that runs the graph backwards.

        Paddle's engine turns an error of a Python function in the graph into an ``OSError``: the
        replacement raises the original error of a ``begin`` instead.
        """

        @wraps(function)
        def wrapper(*arguments: Any, **options: Any) -> Any:
            self.error = None
            try:
                return function(*arguments, **options)
            except errors as error:
                refused = self.error
                if refused is None or refused is error:
                    raise
                raise refused from None
            finally:
                self.error = None

        return wrapper


recording = PaddleRecording()


class PaddlePatches(Patches):
    """Paddle's operations, under every name in Paddle's modules, and methods."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self._backend = backend
        self._patches: list[Patch] = []
        self._operations: dict[int, tuple[Any, Any]] = {}
        """The original and its replacement, by the ids of both."""
        self._seen: set[str] = set()
        self._modules: list[str] = []
        """All names of modules, as they were when each of them had been seen."""

    def replacements(self) -> list[Patch]:
        """See ``Patches``; replacements are created once."""
        if not self._patches:
            self._prepare()
        self._find_holders()
        return self._patches

    def late_holders(self) -> Iterator[Patch]:
        """Modules of Paddle's that were imported inside a scope."""
        for module, name, replacement in self._find_holders():
            yield module, name, self._operations[id(replacement)][0]

    def _prepare(self) -> None:
        sight = Sight(self._backend)
        calls = Calls(sight)
        special: dict[str, Callable[..., Transfers]] = {
            "copy_to": calls.copy_to,
            "memcpy_d2h": calls.to_host,
            "assign_value_": calls.assign_value,
        }
        for module in OPERATIONS:
            for name, original in builtins_of(module):
                if id(original) in self._operations:
                    continue
                transfers_of = special.get(name) or by_operation(name, sight)
                pair = original, recording.wrap(original, transfers_of)
                self._operations.update((id(each), pair) for each in pair)
        errors = self._backend.framework_errors
        self._patches = [
            (owner, name, recording.wrap(vars(owner)[name], transfers_of))
            for owner, name, transfers_of in _methods(sight, calls)
        ] + [
            (core.eager, name, recording.wrap_engine(vars(core.eager)[name], errors))
            for name in ("run_backward", "run_partial_grad")
        ]

    def _find_holders(self) -> list[Patch]:
        """Operations among the names of modules not seen before."""
        modules = list(sys.modules)
        if modules == self._modules:  # takes a quarter of the time of a set's difference
            return []
        found: list[Patch] = []
        for name in set(modules) - self._seen:
            module = sys.modules.get(name)
            if module is None or _is_being_imported(module):
                continue
            self._seen.add(name)
            if may_hold(name):
                found += self._held_by(module)
        self._modules = modules if self._seen.issuperset(modules) else []
        if found:
            self._patches = self._patches + found
        return found

    def _held_by(self, module: ModuleType) -> Iterator[Patch]:
        for name, value in list(vars(module).items()):
            if id(value) in self._operations:
                yield module, name, self._operations[id(value)][1]


def _methods(sight: Sight, calls: Calls) -> Iterator[tuple[Any, str, Callable[..., Transfers]]]:
    for name in OPERATORS:
        yield Tensor, f"__{name}__", by_operator(name, sight)
    yield Tensor, "_getitem_dygraph", by_index("__getitem__", sight)
    yield Tensor, "_setitem_dygraph", by_index("__setitem__", sight)
    yield Tensor, "numpy", calls.numpy
    yield Tensor, "_getitem_from_offset", calls.element
    yield Tensor, "_copy_to", calls.copy_to
    yield Tensor, "copy_", calls.take
    yield Tensor, "set_tensor", calls.take
    yield Tensor, "__init__", calls.make
    yield core.eager, "tensor_copy", calls.tensor_copy
    yield core.DenseTensor, "__array__", calls.dense_numpy
    yield core.DenseTensor, "set", calls.dense_set
    yield core.DenseTensor, "_copy", calls.copy_to
    yield core.DenseTensor, "_copy_from", calls.dense_take
    for name in vars(core.DenseTensor):  # _get_float_element and the like
        if name.endswith("_element"):
            is_read = name.startswith("_get")
            transfers_of = calls.dense_get_element if is_read else calls.dense_set_element
            yield core.DenseTensor, name, transfers_of


def _is_being_imported(module: Any) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def may_hold(module: str) -> bool:
    """Whether a module of that name may have imported operations, for its own use."""
    return module.partition(".")[0] in _PACKAGES and not module.startswith(_ELSEWHERE)


def builtins_of(module: Any) -> Iterator[tuple[str, Any]]:
    """The C functions of a module, which ``poor`` may have wrapped."""
    for name, value in vars(module).items():
        if type(getattr(value, "__wrapped__", value)).__name__ == "builtin_function_or_method":
            yield name, value
