"""Faults that can be made in a module, by cosmic-ray's operators and two of our own."""

from __future__ import annotations

import ast
import difflib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    Position = tuple[int, int]


class RemoveStatement(Operator):  # type: ignore[misc]  # cosmic-ray has no types
    """A call or an assignment to an attribute or element, left out: a step that is forgotten."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Position, Position]]:
        """Statements whose effect is not a name."""
        if node.parent is None or node.parent.type != "simple_stmt":
            return
        is_call = node.type in ("atom_expr", "power") and node.get_last_leaf().value == ")"
        is_write = node.type == "expr_stmt" and node.children[0].type != "name"
        if (is_call or is_write) and node.children[0].type != "string":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, _index: int) -> Any:
        """``pass`` in its place."""
        return _in_place_of(node, "pass", "keyword")

    @classmethod
    def examples(cls) -> tuple[Any, ...]:
        """None: they are tested beside the tool."""
        return ()


class RemoveOption(Operator):  # type: ignore[misc]
    """A keyword argument of a call, left out: the framework's default in its place."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Position, Position]]:
        """Arguments ``name=value`` beside others."""
        if node.type == "argument" and node.parent.type == "arglist" and node.children[1] == "=":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, _index: int) -> Any:
        """Nothing, unpacked, in its place."""
        return _in_place_of(node, "f(x, **{})", "argument")

    @classmethod
    def examples(cls) -> tuple[Any, ...]:
        """None, as above."""
        return ()


def _in_place_of(node: Any, code: str, kind: str) -> Any:
    """The first node of ``kind`` in ``code``, with the white space before ``node``."""
    found = [parso.parse(code)]  # type: ignore[no-untyped-call, unused-ignore]
    while found[0].type != kind:
        found[:1] = getattr(found[0], "children", [])
    found[0].get_first_leaf().prefix = node.get_first_leaf().prefix
    return found[0]


_OWN = {"own/RemoveStatement": RemoveStatement, "own/RemoveOption": RemoveOption}


def _operators() -> dict[str, Operator]:
    found = {name: get_operator(name) for name in operator_names()}
    # Those with arguments replace variables that a project names; we name none.
    plain = {name: each for name, each in found.items() if not each.arguments()}
    return {name: each() for name, each in sorted({**plain, **_OWN}.items())}


@dataclass(frozen=True)
class Fault:
    """One fault in one module."""

    module: str
    """Path from the root of the checkout."""
    operator: str
    occurrence: int
    """Which of the places in the module where the operator applies."""
    line: int
    function: str
    """Qualified name of the function or class that contains it; empty at the module's level."""
    diff: str
    """Removed and added lines."""
    code: str
    """The mutated module."""

    @property
    def key(self) -> str:
        """Identifies the fault as long as its line, and those before it in the function, stay."""
        return f"{self.module}:{self.function}: {self.diff}"


def sample(root: Path, modules: Iterable[Path], count: int, seed: int) -> list[Fault]:
    """``count`` faults, drawn by ``seed``: first a place, then what goes wrong there.

    So a sum, which operators replace in a dozen ways, is not drawn more often than a call. The
    order of drawing follows from the text of each place, not from its number: an edit of one
    function leaves the sample elsewhere as it was.
    """
    places: dict[tuple[str, Position, Position], list[tuple[str, int]]] = {}
    sources = {str(module): (root / module).read_text(encoding="utf-8") for module in modules}
    for module, source in sources.items():
        for operator, occurrence, start, end in _positions(source):
            places.setdefault((module, start, end), []).append((operator, occurrence))
    order = sorted(places, key=lambda place: _drawn(seed, _text(sources[place[0]], *place)))
    found: list[Fault] = []
    for place in order:
        module, start, _ = place
        text = _text(sources[module], *place)
        kinds = sorted(places[place], key=lambda kind: _drawn(seed, f"{text} {kind[0]}"))
        made = (_fault(module, sources[module], start[0], *kind) for kind in kinds)
        found += [fault for fault in made if fault][:1]
        if len(found) == count:
            break
    return found


def _positions(source: str) -> Iterator[tuple[str, int, Position, Position]]:
    nodes = list(ast_nodes(get_ast(source)))
    skipped = list(_without_effect(source))
    for name, operator in _operators().items():
        spans = (span for node in nodes for span in operator.mutation_positions(node))
        for occurrence, (start, end) in enumerate(spans):
            if not any(first <= start and end <= last for first, last in skipped):
                yield name, occurrence, start, end


def _without_effect(source: str) -> Iterator[tuple[Position, Position]]:
    """Annotations, which are not evaluated, and imports that only a type checker makes.

    And the star among parameters, which cosmic-ray takes for a product.
    """
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.AST | None] = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts = [node.returns]
            for number in range(node.lineno, node.body[0].lineno):
                at = lines[number - 1].find("*,")
                if at >= 0:
                    yield (number, at), (number, at + 1)
        elif isinstance(node, (ast.arg, ast.AnnAssign)):
            parts = [node.annotation]
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            parts = [node]
        for part in parts:
            if isinstance(part, (ast.expr, ast.stmt)) and part.end_lineno is not None:
                yield (
                    (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset or 0)
                )  # fmt: skip


def _fault(module: str, source: str, line: int, operator: str, occurrence: int) -> Fault | None:
    code = mutate_code(source, _operators()[operator], occurrence)
    if code is None or not _is_other_program(code, source):
        return None
    changed = difflib.unified_diff(source.splitlines(), code.splitlines(), lineterm="", n=0)
    diff = "\n".join(line for line in list(changed)[2:] if not line.startswith("@@"))
    return Fault(module, operator, occurrence, line, function_at(source, line), diff, code)


def _is_other_program(code: str, source: str) -> bool:
    try:
        return ast.dump(ast.parse(code)) != ast.dump(ast.parse(source))
    except SyntaxError:  # Python itself refuses it
        return False


def function_at(source: str, line: int) -> str:
    """The qualified name of the innermost function or class around a line; empty for none."""
    names = [node.name for node in definitions_at(source, line)]
    return ".".join(names)


def definitions_at(
    source: str, line: int
) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """The functions and classes around a line, the outermost first."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    around = [node for node in found if node.lineno <= line <= (node.end_lineno or node.lineno)]
    return sorted(around, key=lambda node: node.lineno)


def _text(source: str, module: str, start: Position, end: Position) -> str:
    lines = source.splitlines()
    where = f"{start[1]} {end[0] - start[0]} {end[1]}"
    return f"{module} {function_at(source, start[0])} {lines[start[0] - 1].strip()} {where}"


def _drawn(seed: int, text: str) -> str:
    return hashlib.sha256(f"{seed} {text}".encode()).hexdigest()
