"""Every bad thing in every parameter of every public function: an error of ours, and no change."""

from __future__ import annotations

import inspect
import os
import pickle
import random

import bad_arguments
import bad_calls
import numpy as np
import pytest

import unidev
from unidev.backends import selection
from unidev.backends.loading import load_backend
from unidev.backends.scopes import stack

FUNCTIONS = {**bad_arguments.functions(), "Device": unidev.Device}
del FUNCTIONS["run"], FUNCTIONS["fastest_device"]  # they do what they are told, if for years


def state() -> object:
    variables = {name: value for name, value in os.environ.items() if name.startswith("UNIDEV_")}
    return list(stack.scopes), selection._chosen, variables, np.geterr()


def snapshot(value: object) -> bytes | None:
    """What can be compared afterwards; None of a function, and of an iterator, which is used up."""
    if hasattr(type(value), "__next__"):
        return None
    try:  # of an exception, whose attributes are made when they are looked at, what it says
        return pickle.dumps(value.args if isinstance(value, Exception) else value)
    except Exception:  # noqa: BLE001  whatever it raises
        return None


@pytest.mark.filterwarnings("ignore")  # of NumPy, about values that nobody should give
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_only_errors_are_unidevs_and_nothing_is_changed(
    two_gpus, tmp_path, monkeypatch, name
) -> None:
    monkeypatch.chdir(tmp_path)  # some bad things are good names of files
    arguments, draw = bad_arguments.Arguments(load_backend("numpy"), tmp_path), random.Random(name)
    function, things, before = FUNCTIONS[name], bad_arguments.bad_things(), state()
    kept = [snapshot(each) for each in things]
    signature = inspect.signature(function)

    def call(**given: object) -> None:
        bound = signature.bind_partial()
        bound.arguments.update(given)
        made = function(*bound.args, **bound.kwargs)
        if hasattr(type(made), "__enter__"):
            with made:
                pass

    for bad in signature.parameters.values():
        for number, thing in enumerate(things):
            given = {
                each.name: arguments.good(each.name, draw)
                for each in signature.parameters.values()
                if each.default is each.empty
                and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
            }
            wrapped = {bad.VAR_POSITIONAL: (thing,), bad.VAR_KEYWORD: {"x": thing}}
            is_callable = bad.name == "function" and callable(thing)  # it raises what it likes
            given[bad.name] = bad_arguments._raises if is_callable else wrapped.get(bad.kind, thing)
            assert bad_calls.outcome(lambda given=given: call(**given)) is None, (bad.name, number)
            assert state() == before, (bad.name, number)
    assert [snapshot(each) for each in things] == kept
