"""``torch.cuda.FloatTensor`` and the like as constructors and as the default tensor type.

Both are compiled out of torch's C++ for Python ("Torch not compiled with CUDA enabled"). Its
classes stay, since ``isinstance`` compares them in C++: they get another constructor, in their C
struct.
"""

from __future__ import annotations

import ctypes
import gc
import warnings
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from unidev_torch_simulator.cuda.refused import refusing

if TYPE_CHECKING:
    from collections.abc import Iterator

_TP_NEW = 65
"""``Py_tp_new`` in ``typeslots.h``."""


def apply(torch: Any) -> None:
    """Patch the classes, and the function that sets the default type."""
    for each in torch._tensor_classes:
        if each.is_cuda:
            _set_constructor(each)
    set_default = torch._C._set_default_tensor_type

    def _set_default_tensor_type(kind: Any) -> None:
        is_cuda = kind in torch._tensor_classes and kind.is_cuda
        with _as_if_of_the_cpu(kind) if is_cuda else nullcontext():
            set_default(kind)

    torch._C._set_default_tensor_type = _set_default_tensor_type


class _WithConstructor:
    def __new__(cls, *given: Any, **named: Any) -> Any:
        import torch

        _warn_once()
        kind: Any = cls
        like: Any = torch.empty(0, dtype=kind.dtype, layout=kind.layout, device="cuda")
        return like.new(*given, **named)  # the same legacy constructor


@cache
def _warn_once() -> None:
    warnings.warn(  # torch's words
        "The torch.cuda.*DtypeTensor constructors are no longer recommended. It's best to use "
        "methods such as torch.tensor(data, dtype=*, device='cuda') to create tensors.",
        stacklevel=3,
    )


def _set_constructor(kind: Any) -> None:
    """Give a static type ``__new__`` as a class has it, which Python's own assignment refuses."""
    slot = ctypes.pythonapi.PyType_GetSlot
    slot.restype, slot.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    own = slot(kind, _TP_NEW)
    words = (ctypes.c_void_p * (kind.__basicsize__ // ctypes.sizeof(ctypes.c_void_p))).from_address(
        id(kind)
    )
    (place,) = (number for number, word in enumerate(words) if word == own)
    words[place] = slot(_WithConstructor, _TP_NEW)  # looks `__new__` up
    (namespace,) = gc.get_referents(kind.__dict__)
    namespace["__new__"] = _WithConstructor.__dict__["__new__"]
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


@contextmanager
def _as_if_of_the_cpu(kind: Any) -> Iterator[None]:
    """Clear ``is_cuda`` in the C struct of a class: torch refuses the default type by it alone."""
    struct = (ctypes.c_char * kind.__basicsize__).from_address(id(kind))
    name = struct.raw.find(f"{kind.__module__}.{kind.__name__}\0".encode())
    for place in range(name - 8, name):  # it stands before the name
        if name > 0 and struct[place] == b"\1":
            struct[place] = b"\0"
            try:
                if not kind.is_cuda:
                    return (yield)
            finally:
                struct[place] = b"\1"
    refusing("default tensor type", "use torch.set_default_device('cuda')")()
