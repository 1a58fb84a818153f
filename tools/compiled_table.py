"""What unidev's functions do inside functions that a framework compiles: docs/compiled.md.

Use: ``python tools/compiled_table.py torch --update``, where that framework and its plugin are
installed, for its columns; ``--check`` compares instead, ``--only sgd`` runs some rows.
Exits with 1 if a call gives another result than without the compiler, or an error that is not
unidev's; or, with ``--check``, if the page has something else.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from compiled_calls import ANSWERS, CALLS, DRAWN, GIVEN, PLACES, prepare

import unidev
from unidev.cli.capability_table import columns_of, rendered
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Call = Callable[..., Any]
    Compiler = Callable[[Call], Call]

PAGE = Path(__file__).parent.parent / "docs" / "compiled.md"
ORDER = (
    "`torch.compile`",
    "`tf.function`",
    "`to_static` of Paddle",
    "`to_static(full_graph=True)`",
    "Gluon's `hybridize`",
    "`jax.jit`",
)
"""The columns."""
BEGIN, END = "<!-- compiled -->", "<!-- /compiled -->"
WORKS, EAGER, ONCE, REFUSED = "works", "as eager", "once", "refused"
FOREIGN = "refused by the framework"
"""In the user's own line: unidev was not called, or had returned."""
THERE, ONLY_THERE, IN_SCOPE = "there", "there, or an error", "in the call's scope"
"""Where the result is, if the function names a device: on that one; on that one, or the framework
raises as it compiles for the device of the arguments; on that of the scope around the call."""
BAD = "BAD"
"""Another result, or an error that is not unidev's: a defect of ours."""


class Cell(NamedTuple):
    """What the table says of one call under one compiler."""

    word: str
    reason: str = ""


class Way(NamedTuple):
    """A way to compile; where the compiler may leave parts to Python, also without that."""

    name: str
    usual: Compiler
    whole: Compiler | None = None


def ways_of(backend: str) -> list[Way]:
    """The compilers of a framework that is installed."""
    return {
        "torch": _of_torch,
        "tensorflow": _of_tensorflow,
        "paddle": _of_paddle,
        "mxnet": _of_mxnet,
        "jax": _of_jax,
    }[backend]()


def _of_torch() -> list[Way]:
    torch: Any = import_module("torch")

    def whole(function: Call) -> Call:
        torch._dynamo.reset()
        compiled: Call = torch.compile(function, backend="eager", fullgraph=True)
        return compiled

    def usual(function: Call) -> Call:
        torch._dynamo.reset()
        compiled: Call = torch.compile(function, backend="eager")
        return compiled

    return [Way("`torch.compile`", usual, whole)]


def _of_tensorflow() -> list[Way]:
    tf: Any = import_module("tensorflow")

    return [Way("`tf.function`", tf.function)]


def _of_paddle() -> list[Way]:
    paddle: Any = import_module("paddle")

    def whole(function: Call) -> Call:
        compiled: Call = paddle.jit.to_static(function, full_graph=True)
        return compiled

    def usual(function: Call) -> Call:
        compiled: Call = paddle.jit.to_static(function, full_graph=False)
        return compiled

    return [Way("`to_static` of Paddle", usual, whole), Way("`to_static(full_graph=True)`", whole)]


def _of_mxnet() -> list[Way]:
    mx: Any = import_module("mxnet")

    class Block(mx.gluon.HybridBlock):  # type: ignore[misc]
        """A block that computes a function."""

        def __init__(self, function: Call) -> None:
            super().__init__()
            self._function, self.net = function, GIVEN.net  # a block knows the nets in it

        def hybrid_forward(self, _: Any, *xs: Any) -> Any:
            return self._function(*xs)

    def usual(function: Call) -> Call:
        block = Block(function)
        block.hybridize()
        return block

    return [Way("Gluon's `hybridize`", usual)]


def _of_jax() -> list[Way]:
    jax: Any = import_module("jax")

    return [Way("`jax.jit`", jax.jit)]


def columns(backend: str, labels: Iterable[str]) -> dict[str, dict[str, Cell]]:
    """The cells of a backend, by the names of its compilers and the labels of their rows."""
    unidev.set_backend(backend)
    unidev.active_backend()
    ways = ways_of(backend)
    found: dict[str, dict[str, Cell]] = {way.name: {} for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "net.safetensors"))
        prepare(file)
        unidev.save_parameters(GIVEN.net, file)
        for label in labels:
            expected = _outcome(label, _uncompiled, file)
            for way in ways:
                found[way.name][label] = _cell(label, expected, way, file)
    return found


def places(backend: str) -> dict[str, dict[str, Cell]]:
    """The rows about devices: where the results are of functions that name one of two GPUs."""
    unidev.set_backend(backend)
    return {
        way.name: {label: _place(function, way.usual) for label, function in PLACES.items()}
        for way in ways_of(backend)
    }


def _place(function: Callable[[Any], Any], compiler: Compiler) -> Cell:
    GIVEN.device, GIVEN.net = unidev.gpu(1), None
    near, far = (_found(function, compiler, source) for source in (GIVEN.device, unidev.gpu(0)))
    with GIVEN.device:
        scoped = _found(function, compiler, unidev.gpu(0))
    if isinstance(near, Exception):
        return _judged_error(near)
    if near and isinstance(far, Exception):
        return Cell(ONLY_THERE)
    if near and far:
        return Cell(THERE)
    return Cell(IN_SCOPE) if scoped is True else Cell(BAD, "elsewhere, also in its scope")


def _found(function: Call, compiler: Compiler, source: Any) -> bool | Exception:
    """Whether all results are on the device that the function names; or what was raised."""
    x = unidev.ones((2, 2), device=source)
    try:
        found = compiler(function)(x)
    except Exception as error:  # noqa: BLE001  as in _outcome
        return error
    results = found if isinstance(found, (list, tuple)) else [found]
    return all(unidev.device_of(each) is GIVEN.device for each in results)


def _on_two_gpus(backend: str) -> dict[str, dict[str, Cell]]:
    """``places``, of a process with two simulated GPUs."""
    done = subprocess.run(
        [sys.executable, __file__, backend, "--places"],
        env={**os.environ, "UNIDEV_SIMULATE": "2"}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    return {
        name: {label: Cell(*cell) for label, cell in cells.items()} for name, cells in found.items()
    }


def _cell(label: str, expected: Any, way: Way, file: str) -> Cell:
    if way.whole is not None:
        cell = _judged(label, expected, _outcome(label, way.whole, file))
        if cell.word == WORKS:
            return cell
    cell = _judged(label, expected, _outcome(label, way.usual, file))
    if cell.word == WORKS and way.whole is not None:
        return Cell(EAGER)
    return cell


def _uncompiled(function: Call) -> Call:
    return function


def _outcome(label: str, compiler: Compiler, file: str) -> list[Any] | Exception:
    """What two calls with other values return, and the net's parameters then; or an error."""
    prepare(file)
    found = []
    try:
        function = compiler(CALLS[label])
        for start in (1, 2):
            arrays = (
                np.arange(6, dtype="float32").reshape(shape) / 4 + start
                for shape in ((3, 2), (2, 3))
            )
            w, x = map(unidev.array, arrays)
            y = unidev.full((2, 2), float(start))
            found.append(_read(function(w, x, y)))
        found.append(_read(unidev.parameters(GIVEN.net)))
    except Exception as error:  # noqa: BLE001  whatever it raises is what the table is about
        return error
    return found


def _read(made: Any) -> Any:
    """Containers as lists, tensors as arrays."""
    if isinstance(made, dict):
        return [_read(made[key]) for key in sorted(made)]
    if isinstance(made, (list, tuple)):
        return [_read(each) for each in made]
    return np.squeeze(unidev.to_numpy(made))


def _judged(label: str, expected: Any, found: Any) -> Cell:
    if isinstance(found, Exception):
        return _judged_error(found)
    if isinstance(expected, Exception):
        return Cell(BAD, f"uncompiled, it raises {type(expected).__name__}: {expected}")
    if label in DRAWN:
        return Cell(ONCE) if _equal(found[0], found[1]) else Cell(WORKS)
    if _equal(expected, found):
        return Cell(WORKS)
    if label in ANSWERS and _equal(expected, _other_answer(found)):
        return Cell(ANSWERS[label])
    return Cell(BAD, f"{found} instead of {expected}")


def _judged_error(found: Exception) -> Cell:
    if isinstance(found, unidev.FrameworkError):  # a call that should have been refused
        return Cell(BAD, str(found)[:2000])
    if isinstance(found, unidev.UnidevError):
        reason = found.reason if isinstance(found, UnsupportedOperation) else ""
        return Cell(REFUSED, reason or _said(found))
    if _is_foreign(found):
        return Cell(FOREIGN, _said(found))
    return Cell(BAD, f"{type(found).__name__}: {found}"[:2000])


def _said(error: Exception) -> str:
    """The message, without the code that to_static of Paddle puts around it."""
    message = str(error).strip()
    own = re.findall(rf"^\s*(?:[\w.]+\.)?{type(error).__name__}: (.*)$", message, re.MULTILINE)
    return own[-1].rpartition("is not supported: ")[2] if own else message.splitlines()[0]


def _other_answer(found: list[Any]) -> list[Any]:
    """The results, had the call answered True: the factor is then 2, and not 3."""
    *results, parameters = found
    return [*(result * np.float32(2 / 3) for result in results), parameters]


def _is_foreign(error: Exception) -> bool:
    """Whether an error comes from a call of the framework's outside of unidev."""
    own = [
        Path(module.__file__ or "").parent
        for name, module in sys.modules.items()
        if name == "unidev" or (name.startswith("unidev_") and "." not in name)
    ]
    # Paddle's to_static raises errors anew, with the files in the message.
    files = [each.filename for each in traceback.extract_tb(error.__traceback__)]
    return not any(f"{folder}{os.sep}" in file for file in [*files, str(error)] for folder in own)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return one.dtype == other.dtype and bool(np.allclose(one, other, rtol=1e-6))


class Table:
    """The page's table: columns by the names of compilers, rows by label."""

    def __init__(self, text: str) -> None:
        self._before, _, rest = text.partition(BEGIN)
        table, _, self._after = rest.partition(END)
        self.columns = {
            head: {label: Cell(*cell) for label, cell in cells.items()}
            for head, cells in columns_of(table).items()
        }

    def text(self) -> str:
        """The page."""
        heads = sorted(self.columns, key=ORDER.index)
        table = rendered({head: self.columns[head] for head in heads}, [*CALLS, *PLACES])
        return f"{self._before}{BEGIN}\n{table}{END}{self._after}"


def main(words: Sequence[str]) -> int:
    """Run a backend's calls, and print, write or compare its column."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backend")
    parser.add_argument("--only", default="", metavar="WORD", help="rows that have this word")
    does = parser.add_mutually_exclusive_group()
    does.add_argument("--update", action="store_true")
    does.add_argument("--check", action="store_true")
    does.add_argument("--places", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.places:
        print(json.dumps(places(given.backend)))
        return 0
    found = columns(given.backend, [label for label in CALLS if given.only in label])
    for way, cells in _on_two_gpus(given.backend).items():
        found[way].update({label: cell for label, cell in cells.items() if given.only in label})
    table = Table(PAGE.read_text(encoding="utf-8"))
    has_bad = differs = False
    for way, cells in found.items():
        known = table.columns.setdefault(way, {})
        for label, cell in cells.items():
            is_other = known.get(label) != cell
            has_bad |= cell.word == BAD
            differs |= is_other
            if cell.word == BAD or (is_other if given.check else not given.update):
                print(f"{way}, {label}: {cell.word} {cell.reason}".rstrip())
                if given.check:
                    print(f"    the page has: {known.get(label)}")
        known.update(cells)
    if given.update and not has_bad:
        PAGE.write_text(table.text(), encoding="utf-8")
    return 1 if has_bad or (given.check and differs) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
