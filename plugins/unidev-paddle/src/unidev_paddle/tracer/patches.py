"""Which attributes of Paddle's are others while a scope is open in any thread."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev_paddle.importing import import_paddle
from unidev_paddle.tracer.operations import index_hook, operation_hook, operator_hook
from unidev_paddle.tracer.readings import Calls, engine_hook, hook
from unidev_paddle.tracer.transfers import Sight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from unidev.contract import Backend
    from unidev_paddle.tracer.transfers import Transfers

    Function = Callable[..., Any]

paddle: Any = import_paddle()
core: Any = paddle.base.core
Tensor: Any = paddle.Tensor

_OPERATIONS = (paddle._C_ops, paddle._legacy_C_ops)
_OPERATORS = (
    "add", "radd", "sub", "rsub", "mul", "rmul", "div", "rdiv", "truediv", "rtruediv", "floordiv",
    "rfloordiv", "mod", "rmod", "pow", "rpow", "matmul", "rmatmul", "eq", "ne", "lt", "le", "gt",
    "ge",
)  # fmt: skip
_PACKAGES = ("paddle", "unidev_paddle")
_ELSEWHERE = ("paddle._pir_ops", "paddle.base.libpaddle")
"""Modules that hold operations for static graphs alone, or Paddle's own list of them."""


class _Patch(NamedTuple):
    owner: Any
    name: str
    original: Any
    replacement: Any


class Patches:
    """Puts them in place for the first scope of all threads, and takes them out after the last."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._users = 0
        self._patches: list[_Patch] = []
        self._of_operation: dict[int, _Patch] = {}
        """By the operation's id, and by that of what takes its place."""
        self._seen: set[str] = set()

    def start(self) -> None:
        """Put them in place, unless they are."""
        with self._lock:
            if not self._users:
                if not self._patches:
                    self._prepare()
                self._find_holders()
                try:
                    for patch in self._patches:
                        setattr(patch.owner, patch.name, patch.replacement)
                except BaseException:  # Ctrl-C
                    self._restore()
                    raise
            self._users += 1

    def stop(self) -> None:
        """The other half of ``start``: after the last, all is as it was."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._find_holders()
                try:
                    self._restore()
                except BaseException:  # as above
                    self._restore()
                    raise

    def _restore(self) -> None:
        for patch in self._patches:
            setattr(patch.owner, patch.name, patch.original)

    def _prepare(self) -> None:
        sight = Sight(self._backend)
        calls = Calls(sight)
        special: dict[str, Callable[..., Transfers]] = {
            "copy_to": calls.copy_to,
            "memcpy_d2h": calls.to_host,
            "assign_value_": calls.assign_value,
        }
        for module in _OPERATIONS:
            for name, original in _builtins_of(module):
                if id(original) in self._of_operation:
                    continue
                see = special.get(name)
                made = hook(original, see) if see else operation_hook(name, original, sight)
                patch = _Patch(module, name, original, made)
                self._of_operation[id(original)] = self._of_operation[id(made)] = patch
        self._patches = [
            _Patch(owner, name, vars(owner)[name], made)
            for owner, name, made in self._methods(sight, calls)
        ]

    def _methods(self, sight: Sight, calls: Calls) -> Iterator[tuple[Any, str, Function]]:
        for name in (f"__{operator}__" for operator in _OPERATORS):
            yield Tensor, name, operator_hook(name, vars(Tensor)[name], sight)
        for name, called in (
            ("_getitem_dygraph", "__getitem__"),
            ("_setitem_dygraph", "__setitem__"),
        ):
            yield Tensor, name, index_hook(called, vars(Tensor)[name], sight)
        for owner, name, see in (
            (Tensor, "numpy", calls.numpy),
            (Tensor, "_getitem_from_offset", calls.element),
            (Tensor, "_copy_to", calls.copy_to),
            (Tensor, "copy_", calls.take),
            (Tensor, "set_tensor", calls.take),
            (Tensor, "__init__", calls.make),
            (core.eager, "tensor_copy", calls.tensor_copy),
            (core.DenseTensor, "__array__", calls.dense_numpy),
            (core.DenseTensor, "set", calls.dense_set),
            (core.DenseTensor, "_copy", calls.copy_to),
            (core.DenseTensor, "_copy_from", calls.dense_take),
            *_elements("_get_", calls.dense_get_element),
            *_elements("_set_", calls.dense_set_element),
        ):
            yield owner, name, hook(vars(owner)[name], see)
        for name in ("run_backward", "run_partial_grad"):
            original = vars(core.eager)[name]
            yield core.eager, name, engine_hook(original, self._backend.framework_errors)

    def _find_holders(self) -> None:
        """Modules that have an operation among their names, also those imported meanwhile."""
        for name, module in list(sys.modules.items()):
            if name in self._seen or _is_being_imported(module):
                continue
            self._seen.add(name)
            if name.partition(".")[0] in _PACKAGES and not name.startswith(_ELSEWHERE):
                self._patches += self._held_by(module)

    def _held_by(self, module: ModuleType) -> Iterator[_Patch]:
        for name, value in list(vars(module).items()):
            patch = self._of_operation.get(id(value))
            if patch is not None:
                yield patch._replace(owner=module, name=name)


def _elements(prefix: str, see: Callable[..., Transfers]) -> list[tuple[Any, str, Any]]:
    names = [name for name in vars(core.DenseTensor) if name.endswith("_element")]
    return [(core.DenseTensor, name, see) for name in names if name.startswith(prefix)]


def _is_being_imported(module: Any) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _builtins_of(module: Any) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if type(value).__name__ == "builtin_function_or_method":
            yield name, value
