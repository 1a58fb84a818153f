"""Calls that are drawn: which function, and with which arguments, most of them bad ones."""

from __future__ import annotations

import contextlib
import inspect
import os
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class OfTheUser(Exception):
    """Raised by the functions among the arguments: it may pass through unidev."""


# -- what is called --------------------------------------------------------------------------------

LEFT_OUT = frozenset(
    # They last for the process, or are for those who write plugins.
    {"simulate", "set_backend", "register_container", "hookimpl", "part", "unsupported"}
)


def functions() -> dict[str, Callable[..., Any]]:
    """Every public function by its name, and classes and methods that take what a user gives."""
    import unidev
    from unidev import nn

    found: dict[str, Callable[..., Any]] = {}
    for prefix, module in (("", unidev), ("nn.", nn), ("nn.functional.", nn.functional)):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value) and name not in LEFT_OUT:
                found[prefix + name] = value
    for name in ("DataParallel", "trace_transfers", "transfer_guard", "use_backend"):
        found[name] = getattr(unidev, name)
    for name in ("all_reduce", "broadcast", "gather_rows", "shard"):
        found[f"group().{name}"] = getattr(unidev.group(), name)
    return found


class Arguments:
    """Draws arguments: good ones by the parameter's name, and bad ones of every kind."""

    def __init__(self, backend: Any, folder: Path) -> None:
        import unidev

        self.folder = folder
        self.devices = unidev.list_devices()
        self.fitting: list[tuple[str, list[Any]]] = [
            ("device spec devices", [*self.devices, "cpu", "gpu:1", "gpu", ["cpu"]]),
            ("shape kernel_size stride padding", [(2, 3), 3, (), (0, 2), 1]),
            ("dtype", ["float32", "int64", "bool", "float16", "uint8", "bfloat16", "complex64"]),
            ("path", [folder / "a.safetensors", str(folder / "b"), str(folder / "no/c")]),
            ("function", [_loss, _raises, lambda *x: x[:1]]),
            ("index n start stop step value lr rate repeat momentum", [0, 1, 3, 0.5, -1]),
            ("in_channels out_channels inputs outputs features", [1, 3, 4]),
            ("mode name", ["log", "disallow", "numpy", "error", backend.name]),
            ("bias non_blocking", [True, False]),
        ]
        self.makers: list[Callable[[random.Random], Any]] = []
        for device in self.devices:
            for make in (
                lambda d=device: unidev.rand((2, 3), device=d),
                lambda d=device: unidev.arange(3, device=d),
                lambda d=device: unidev.zeros((0, 2), device=d),
                lambda d=device: unidev.ones((), device=d),
                lambda d=device: unidev.rand((1, 1, 4, 4), device=d),
                lambda d=device: unidev.array([True, False], device=d),
                lambda d=device: backend.probe.deleted(d),
                lambda d=device: list(backend.probe.cut_short(d).values()),
                lambda d=device: list(backend.probe.specials(d).values()),
                lambda d=device: backend.probe.views(unidev.rand((2, 3), device=d)),
            ):
                self._add(make)
        self._add(lambda: unidev.nn.sequential(unidev.nn.dense(3, 2), unidev.nn.relu()))
        self._add(lambda: backend.probe.models.model())  # noqa: PLW0108  it may have none

        for cls in backend.tensor_types:  # of which the construction may not complete
            for unfinished in (cls, lambda cls=cls: cls(None)):
                try:
                    backend.device_of(unfinished())
                except unidev.DeletedTensorError:  # noqa: PERF203
                    self.makers.append(lambda _, make=unfinished: make())
                except Exception:  # noqa: BLE001  no such thing, or not one of a user's
                    continue

    def _add(self, make: Callable[[], Any]) -> None:
        from unidev.errors import UnidevError

        try:
            made = make()
        except UnidevError:  # this backend has no such thing
            return
        if isinstance(made, dict):
            made = list(made.values())
        if isinstance(made, list):
            self.makers.extend(lambda _, x=each: x for each in made)
        else:
            self.makers.append(lambda _: make())

    def tensor(self, draw: random.Random) -> Any:
        """A tensor of the backend, a model, or a container of them."""
        x = draw.choice(self.makers)(draw)
        wraps = (lambda x: x, lambda x: x, lambda x: [x], lambda x: {"a": x, 1: (x, None)})
        return draw.choice(wraps)(x)

    def good(self, name: str, draw: random.Random) -> Any:
        """What fits a parameter of that name."""
        for names, values in self.fitting:
            if name in names.split():
                return draw.choice(values)
        return self.tensor(draw)

    def bad(self, draw: random.Random) -> Any:
        """Anything."""
        return draw.choice(bad_things())


def _loss(x: Any, *_: Any) -> Any:
    from unidev.backends.loading import backend_of_type

    try:
        if (backend := backend_of_type(type(x))) is not None:
            backend.check_memory(x)  # what the user's own function does with it is the user's
        return (x * x).sum()
    except Exception as error:
        raise OfTheUser from error


def _raises(*_: Any, **__: Any) -> Any:
    raise OfTheUser


class Hostile:
    """Every question that Python asks of it ends the process, or would if it were a tensor."""

    def __repr__(self) -> str:
        os.abort()

    __str__ = __repr__


class Failing:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise OfTheUser(name)

    def __index__(self) -> int:
        raise OfTheUser

    __float__ = __len__ = __iter__ = __eq__ = __index__  # type: ignore[assignment]
    __hash__ = object.__hash__


def _circular() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def _deep() -> list[Any]:
    items: list[Any] = []
    for _ in range(5000):
        items = [items]
    return items


_BAD: list[Any] = []


def bad_things() -> list[Any]:
    import numpy as np

    import unidev

    if not _BAD:
        _BAD.extend([
            None, True, 0, -1, 2**62, 2**63, 10**30, 10**5000, -(10**5000), 1.5, float("nan"),
            float("inf"), -1e308, 1j, "", "cpu", "gpu:0", "gpu:9", "gpu:-1", "gpu:" + "9" * 5000,
            "cuda:0", "/GPU:0", "numpy", "\udc80", "\0", "a" * 100_000, "float32", "complex64", "O",
            b"cpu", bytearray(b"x"), memoryview(b"xyz"), range(3), ..., object(), type, int, len,
            unidev, Hostile(), [Hostile()], {"a": Hostile()}, Failing(), [Failing()], Exception(),
            set(), {1}, iter([1]), (i for i in range(3)), slice(1), [], (), {}, [[]], [1, [2]],
            [1, "a"], [None], {"a": 1}, _circular(), _deep(), (2**62, 2**62), (2**59,), (2, -1),
            (0, 10**30), (1,) * 100, [1] * 70, "../..", "/", "/proc/nowhere/x", np.float32(1),
            np.int64(-3), np.zeros(3), np.zeros(()), np.zeros((0, 3)), np.zeros(3, "O"),
            np.array(["a"]), np.zeros(2, "M8[s]"), np.zeros(2, "i4,f4"), np.ma.masked,
            np.ma.array([1.0, 2], mask=[0, 1]), np.dtype("f4"), np.dtype("O"), np.longdouble(1),
            np.arange(6)[::-2], np.zeros(3, ">f8"), np.broadcast_to(np.zeros(1), (4,)), np.integer,
            unidev.Device("numpy", "gpu", 77), unidev.Device("nobody", "cpu", 0), unidev.Device,
            unidev.UnidevError, unidev.Backend, _raises, _loss,
        ])  # fmt: skip
    return _BAD


def drawn(number: int, seed: int, arguments: Arguments) -> tuple[str, Callable[[], Any]]:
    """The call of that number: what it is, and a function that makes it."""
    draw = random.Random(f"{seed}:{number}")
    name, function = draw.choice(sorted(functions().items()))
    positional, named = [], {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not parameter.empty and draw.random() < 0.4:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        is_good = draw.random() < 0.6
        value = arguments.good(parameter.name, draw) if is_good else arguments.bad(draw)
        if parameter.name == "function" and not is_good and callable(value):
            value = _raises  # whatever a function raises is the user's own
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            positional.append(value)
    if draw.random() < 0.03:
        positional.append(arguments.bad(draw))
    follow = [arguments.tensor(draw) if draw.random() < 0.7 else arguments.bad(draw)]

    def call() -> Any:
        made = function(*positional, **named)
        if hasattr(type(made), "__enter__"):
            with made:
                pass
        if name == "value_and_grad":
            made(*follow)

    given = [_brief(each) for each in positional]
    given += [f"{key}={_brief(each)}" for key, each in named.items()]
    return f"{name}({', '.join(given)})", call


def _brief(value: object) -> str:
    from unidev.backends.loading import backend_of_type
    from unidev.system.wording import kind_of, shown

    with contextlib.suppress(Exception):
        if (backend := backend_of_type(type(value))) is not None:
            backend.check_memory(value)
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if isinstance(shape, (tuple, list)):
            return f"<{kind_of(value)} {tuple(shape)} {dtype}>"
    return shown(value)[:200]
