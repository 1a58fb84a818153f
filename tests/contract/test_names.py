"""``unidev.contract``: what a type checker finds there is what an import finds there."""

from __future__ import annotations

import ast
import importlib
import inspect
from typing import TYPE_CHECKING

from unidev import contract
from unidev.contract import backend, layers, probe

if TYPE_CHECKING:
    from types import ModuleType


def for_type_checkers(module: ModuleType) -> list[ast.stmt]:
    """The statements below ``if TYPE_CHECKING:``."""
    tree = ast.parse(inspect.getsource(module))
    (block,) = [
        each
        for each in tree.body
        if isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING"
    ]
    return block.body


def listed(block: list[ast.stmt]) -> list[str]:
    (names,) = [
        ast.literal_eval(each.value)
        for each in block
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__all__"
    ]
    return list(names)


ALIASES = {
    ast.unparse(each.targets[0]): module.__name__
    for module in (layers, probe)
    for each in for_type_checkers(module)
    if isinstance(each, ast.Assign)
} | {"Children": backend.__name__}
"""Types that have a name for type checkers alone."""


def test_a_type_checker_exports_what_an_import_finds() -> None:
    names = listed(for_type_checkers(contract))
    assert sorted(names) == sorted(contract.HOMES.keys() | ALIASES.keys())


def test_a_type_checker_looks_in_the_module_that_an_import_loads() -> None:
    imports = {
        alias.name: each.module
        for each in for_type_checkers(contract)
        if isinstance(each, ast.ImportFrom) and (each.module or "").startswith("unidev.")
        for alias in each.names
    }
    homes = {name: f"unidev.{module}" for name, module in contract.HOMES.items()}
    assert imports == homes | ALIASES


def test_each_name_is_found_in_its_module() -> None:
    for name, module in contract.HOMES.items():
        assert getattr(contract, name) is getattr(importlib.import_module(f"unidev.{module}"), name)
