"""Pickling between ``run`` and its workers: plain pickle, which refuses tensors and models."""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any

from unidev.errors import InvalidDataError, NotATensorError
from unidev.system.wording import kind_of, shown
from unidev.tensors.kinds import MODEL, TENSOR, classify

_MAIN = b"_main__"  # also of ``__mp_main__``, as a child of multiprocessing calls it


class _Pickler(pickle.Pickler):
    """Refuses what must not travel; asked for each object but numbers, strings and the like."""

    def reducer_override(self, obj: Any) -> Any:
        kind, backend = (None, None) if isinstance(obj, type) else classify(obj)
        if kind == MODEL:
            raise NotATensorError(
                f"a {kind_of(obj)} cannot be sent between processes: make the model in each "
                "worker, and keep the trained one by save_parameters."
            )
        if kind == TENSOR and type(obj).__module__.partition(".")[0] != "numpy":
            assert backend is not None
            raise NotATensorError(
                f"a tensor of {backend.name} cannot be sent between processes: pass "
                "unidev.to_numpy(x), and use unidev.array(…) at the other end."
            )
        return NotImplemented


def packed(what: Any, name: str) -> bytes:
    """``what`` as bytes; ``name`` is for messages: "the arguments"."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(what)
    except NotATensorError as error:
        raise NotATensorError(f"{name}: {error}") from None
    except Exception as error:  # objects' own code runs
        reason = (str(error).strip() or kind_of(error)).splitlines()[0]
        raise InvalidDataError(
            f"{name} cannot be pickled, as {shown(what)} must be to travel between processes: "
            f"{reason}"
        ) from error
    return buffer.getvalue()


def packed_call(function: Any, arguments: tuple[Any, ...]) -> bytes:
    """A function with its arguments, for workers that import it."""
    if not callable(function):
        raise InvalidDataError(f"run needs a function, not {shown(function)}.")
    _check_importable(function)
    call = packed(function, "the function"), packed(arguments, "the arguments")
    if any(_MAIN in part for part in call) and not _main_can_be_imported():
        raise InvalidDataError(
            f"{_name_of(function)} is defined in an interactive session, with `python -c` or in a "
            "program on standard input, where the workers cannot import it: put it into a file."
        )
    return pickle.dumps(call)


def preparation(call: bytes) -> dict[str, Any]:
    """Data for ``multiprocessing.spawn.prepare``: a worker finds the same modules by them."""
    from multiprocessing.spawn import get_preparation_data

    found = get_preparation_data("unidev")
    found.pop("authkey", None)
    found.pop("start_method", None)
    if _MAIN not in call:
        found.pop("init_main_from_name", None)
        found.pop("init_main_from_path", None)
    return found


def _main_can_be_imported() -> bool:
    main = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is not None:
        return True
    file = getattr(main, "__file__", None)
    return file is not None and not file.startswith(("<stdin>", "/dev/"))


def _check_importable(function: Any) -> None:
    name = getattr(function, "__qualname__", "")
    if "<lambda>" in name or "<locals>" in name:
        what = "a lambda" if "<lambda>" in name else "defined inside a function"
        raise InvalidDataError(
            f"{_name_of(function)} is {what}, which workers cannot import: define it with `def` at "
            "the top of a module."
        )


def _name_of(function: Any) -> str:
    name = getattr(function, "__qualname__", None)
    return shown(function) if name is None else f"{function.__module__}.{name}"
