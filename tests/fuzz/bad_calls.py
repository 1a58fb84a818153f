"""Drawn bad calls of every public function: no abort, no hang, no error that is not unidev's.

    python tests/fuzz/bad_calls.py torch --calls 2000 [--seed 0] [--simulate 2]
    python tests/fuzz/bad_calls.py torch --only 1234  # one call again, in this process

A child process makes the calls, one after another, and is started anew where it has died or hangs.
A call depends only on the seed and its number, so each can be made again on its own. Allowed are a
result, an ``UnidevError``, the ``TypeError`` of a wrong signature, and ``OfTheUser``, which the
functions among the arguments raise.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HANGS_AFTER_S = 60.0
START_S = 300.0
ROOM_BYTES = 3 * 2**30
"""What a child may allocate besides what it has when the backend is loaded."""


class Finding(NamedTuple):
    """A call that did what no call may do."""

    number: int
    call: str
    outcome: str


class OfTheUser(Exception):
    """Raised by the functions among the arguments: it may pass through unidev."""


# -- what is called --------------------------------------------------------------------------------

LEFT_OUT = frozenset(
    # They last for the process, or are for those who write plugins.
    {"simulate", "set_backend", "register_container", "hookimpl", "part", "unsupported"}
)


def functions() -> dict[str, Callable[..., Any]]:
    """Every public function by its name."""
    import unidev
    from unidev import nn

    found: dict[str, Callable[..., Any]] = {}
    for prefix, module in (("", unidev), ("nn.", nn), ("nn.functional.", nn.functional)):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value) and name not in LEFT_OUT:
                found[prefix + name] = value
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
                lambda d=device: backend.probe.cut_short(d),
                lambda d=device: list(backend.probe.specials(d).values()),
                lambda d=device: backend.probe.views(unidev.rand((2, 3), device=d)),
            ):
                self._add(make)
        self._add(lambda: unidev.nn.sequential(unidev.nn.dense(3, 2), unidev.nn.relu()))
        self._add(lambda: backend.probe.models.model())  # noqa: PLW0108  it may have none

        for cls in backend.tensor_types:  # of which the construction may not complete
            for unfinished in (cls, lambda cls=cls: cls(None)):
                with contextlib.suppress(Exception):
                    self._add(unfinished)

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
        return draw.choice(_bad_things())


def _loss(x: Any, *_: Any) -> Any:
    try:
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


def _bad_things() -> list[Any]:
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


# -- one call --------------------------------------------------------------------------------------


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
    from unidev.support.wording import kind_of, shown

    with contextlib.suppress(Exception):
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if isinstance(shape, (tuple, list)):
            return f"<{kind_of(value)} {tuple(shape)} {dtype}>"
    return shown(value)[:200]


def outcome(call: Callable[[], Any]) -> str | None:
    """None if the call did what a call may do, else what it did."""
    from unidev.errors import UnidevError

    try:
        call()
    except (UnidevError, OfTheUser):
        return None
    except OSError as error:
        return None if error.filename is not None else _told(error)  # documented, for paths
    except TypeError as error:
        calls = error.__traceback__.tb_next if error.__traceback__ else None
        if calls is not None and calls.tb_next is None:  # raised by the call itself: its signature
            return None
        return _told(error)
    except Exception as error:  # noqa: BLE001  this is what is looked for
        return _told(error)
    return None


def _told(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    where = " < ".join(f"{Path(each.filename).name}:{each.lineno}" for each in reversed(frames))
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  the frameworks' own may not let themselves be shown
        text = "?"
    return f"{type(error).__module__}.{type(error).__name__}: {text[:300]} [{where}]"


def make_calls(backend_name: str, seed: int, numbers: range, say: Callable[[str], None]) -> None:
    """Make these calls in this process, and say what happens: a line before and one after each."""
    import unidev
    from unidev.registry.loading import load_backend

    with tempfile.TemporaryDirectory() as folder:
        arguments = Arguments(load_backend(backend_name), Path(folder))
        _bad_things()
        _limit_memory()
        say(json.dumps(["ready"]))
        for number in numbers:
            text, call = drawn(number, seed, arguments)
            say(json.dumps(["call", number, text]))
            with unidev.use_backend(backend_name):
                found = outcome(call)
            say(json.dumps(["done", number, found]))


def _limit_memory() -> None:
    # Else a size just below what the machine has would take it all.
    with contextlib.suppress(ImportError, OSError):
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM_BYTES,) * 2)


# -- the parent ------------------------------------------------------------------------------------


def findings(
    backend: str, calls: int, *, seed: int = 0, simulate: int = 2, first: int = 0
) -> Iterator[Finding]:
    """What went wrong in ``calls`` calls from number ``first`` on."""
    number, end = first, first + calls
    while number < end:
        command = [sys.executable, __file__, backend, "--child", "--seed", str(seed)]
        command += ["--first", str(number), "--calls", str(end - number)]
        environment = {**os.environ, "UNIDEV_BACKEND": backend, "UNIDEV_SIMULATE": str(simulate)}
        child = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        at, text = number, "the start"
        lines = _lines(child)
        try:
            wait = START_S
            while (line := lines.get(timeout=wait)) is not None:
                kind, *rest = json.loads(line)
                wait = HANGS_AFTER_S
                if kind == "call":
                    at, text = rest
                    number = at + 1
                elif kind == "done" and rest[1] is not None:
                    yield Finding(at, text, rest[1])
        except queue.Empty:
            yield Finding(at, text, f"no answer within {wait:g} s")
            number = max(number, at + 1)
        finally:
            child.kill()
            child.wait()
        if number < end and line is None:
            yield Finding(at, text, f"the process ended with {child.returncode}")
            if text == "the start":
                return


def _lines(child: subprocess.Popen[str]) -> queue.Queue[str | None]:
    found: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert child.stdout is not None
        with child.stdout:
            for line in child.stdout:
                found.put(line)
        child.wait()  # its exit status, before anything ends it
        found.put(None)

    threading.Thread(target=read, daemon=True).start()
    return found


def main() -> int:
    """The command at the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backend")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--simulate", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what the frameworks print is no answer
        numbers = range(given.first, given.first + given.calls)
        make_calls(
            given.backend, given.seed, numbers, lambda line: print(line, file=out, flush=True)
        )
        return 0
    if given.only is not None:
        os.environ.update(UNIDEV_BACKEND=given.backend, UNIDEV_SIMULATE=str(given.simulate))
        make_calls(given.backend, given.seed, range(given.only, given.only + 1), print)
        return 0
    count = 0
    for found in findings(
        given.backend, given.calls, seed=given.seed, simulate=given.simulate, first=given.first
    ):
        count += 1
        print(f"{found.number}: {found.call}\n    {found.outcome}", flush=True)
    print(f"{given.backend}: {given.calls} calls, {count} of them did what none may do")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
