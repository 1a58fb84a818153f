from __future__ import annotations

from textwrap import dedent

import pytest
from turns import in_a_thread

import unidev
from unidev.backends import selection

PLUGIN = """
    import unidev
    from unidev.backends.numpy_backend.backend import NumpyBackend

    class Mine(NumpyBackend):
        tensor_types = ()

    @unidev.hookimpl
    def unidev_register_backend():
        return unidev.BackendSpec(name="{name}", contract_version=3, framework="{framework}",
                                  install="-", load=lambda: Mine)
"""

CHOICE = """
    import sys, unidev
    from unidev.backends.selection import backend_choice
    try:
        before = backend_choice()
        print(unidev.active_backend().name, "|", before.reason, "|", backend_choice().reason)
    except unidev.UnidevError as error:
        print(type(error).__name__, error)
"""


@pytest.fixture
def two_frameworks(add_plugin, tmp_path) -> None:
    """Backends ``one`` and ``two`` for frameworks that are installed."""
    for name in ("one", "two"):
        framework = f"{name}frame"
        (tmp_path / f"{framework}.py").write_text("")
        add_plugin(
            f"plugin_{name}", PLUGIN.format(name=name, framework=framework), entry_point=name
        )


def test_numpy_is_chosen_where_there_is_nothing_else(run_python) -> None:
    assert run_python(CHOICE) == "numpy | {0} | {0}".format(
        "no other framework is installed with its plugin"
    )


def test_the_one_framework_installed_with_its_plugin_is_chosen(two_frameworks, run_python) -> None:
    reason = "the one framework installed with its plugin"
    said = run_python(CHOICE, UNIDEV_DISABLED_PLUGINS="two")
    assert said == f"one | {reason} | {reason}"


def test_a_plugin_without_its_framework_is_no_candidate(
    two_frameworks, tmp_path, run_python
) -> None:
    (tmp_path / "oneframe.py").unlink()
    (tmp_path / "oneframe").mkdir()  # nor is a folder of that name
    assert run_python(CHOICE).startswith("two | ")


def test_a_backend_for_use_by_name_is_no_candidate(add_plugin, run_python, tmp_path) -> None:
    (tmp_path / "oneframe.py").write_text("")
    source = PLUGIN.format(name="one", framework="oneframe")
    add_plugin("plugin_one", source.replace('install="-"', 'install="-", is_automatic=False'))
    for program in (CHOICE, "import oneframe\n" + dedent(CHOICE)):
        assert run_python(program, UNIDEV_PLUGINS="plugin_one").startswith("numpy | ")
    named = {"UNIDEV_PLUGINS": "plugin_one", "UNIDEV_BACKEND": "one"}
    assert run_python(CHOICE, **named).startswith("one | ")


def test_the_one_framework_that_is_imported_is_chosen(two_frameworks, run_python) -> None:
    reason = "the one framework imported"
    assert run_python("    import twoframe" + CHOICE) == f"two | {reason} | {reason}"


def test_two_candidates_are_an_error_that_lists_them_and_says_how_to_choose(
    two_frameworks, run_python
) -> None:
    said = run_python(CHOICE)
    assert said.startswith("AmbiguousBackendError several frameworks are installed: one, two.")
    assert "UNIDEV_BACKEND=one, unidev.set_backend('one'), or `with unidev.use_backend" in said
    both = run_python("    import oneframe, twoframe" + CHOICE)
    assert both.startswith("AmbiguousBackendError several frameworks are imported: one, two.")


def test_the_variable_comes_before_what_is_imported(two_frameworks, run_python) -> None:
    said = run_python("    import twoframe" + CHOICE, UNIDEV_BACKEND=" one ")
    assert said == "one | UNIDEV_BACKEND=one | UNIDEV_BACKEND=one"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        (
            "tesnorflow",
            "Each framework needs its own plugin: run `pip install . "
            "'./plugins/unidev-tensorflow[framework]'`",
        ),
        (
            "tinygrad",
            "unidev has plugins for jax, mxnet, paddle, tensorflow, torch: run, for example, `pip "
            "install . './plugins/unidev-torch[framework]'` in unidev's repository.",
        ),
    ],
)
def test_a_wrong_name_in_the_variable_never_falls_back_and_says_where_it_stands(
    name: str, advice: str, run_python
) -> None:
    said = run_python(CHOICE, UNIDEV_BACKEND=name)
    assert said.startswith(
        f"BackendNotFoundError UNIDEV_BACKEND={name}: there is no backend {name!r}; there are: "
        f"numpy. {advice}"
    )


def test_an_automatic_choice_once_made_stays(two_frameworks, run_python) -> None:
    said = run_python(
        """
        import os, unidev
        import oneframe
        print(unidev.active_backend().name)
        import twoframe
        os.environ["UNIDEV_BACKEND"] = "two"
        print(unidev.active_backend().name)
        """
    )
    assert said.split() == ["one", "one"]


def test_the_order_of_with_set_backend_and_the_variable(two_frameworks, run_python) -> None:
    said = run_python(
        """
        import unidev
        def name():
            return unidev.active_backend().name
        print(name())
        unidev.set_backend("one")
        print(name())
        with unidev.use_backend("two") as backend:
            print(name(), backend is unidev.active_backend())
            with unidev.Device("numpy", "cpu", 0):
                print(name(), unidev.cpu().backend)
            print(unidev.cpu().backend)
        print(name())
        """,
        UNIDEV_BACKEND="numpy",
    )
    assert said.splitlines() == ["numpy", "one", "two True", "numpy numpy", "two", "one"]


def test_a_tensor_goes_to_its_own_backend_whatever_is_selected(two_frameworks, run_python) -> None:
    said = run_python(
        """
        import numpy, unidev
        unidev.set_backend("one")
        x = numpy.zeros(3)
        for y in (x, unidev.copy_to(x, unidev.device_of(x)), unidev.zeros_like(x)):
            print(unidev.device_of(y).backend)
        """
    )
    assert said.split() == ["numpy"] * 3


def test_set_backend_that_fails_leaves_what_was_selected() -> None:
    unidev.set_backend("numpy")
    with pytest.raises(unidev.BackendNotFoundError):
        unidev.set_backend("nobody")
    assert selection._chosen is unidev.active_backend()
    assert selection.backend_choice().reason == "set_backend"


@pytest.mark.parametrize("name", [None, 1, [], object(), b"numpy"])
def test_what_is_no_name_is_refused_and_named(name: object) -> None:
    for ask in (unidev.set_backend, unidev.use_backend):
        with pytest.raises(unidev.BackendNotFoundError, match=r"there are: numpy") as caught:
            ask(name)  # type: ignore[arg-type]
        assert repr(name) in str(caught.value)


def test_use_backend_refuses_at_once_and_not_inside_the_block() -> None:
    with pytest.raises(unidev.BackendNotFoundError):
        unidev.use_backend("nobody")


def test_use_backend_stays_in_its_thread_and_ends_on_an_exception() -> None:
    seen: list[object] = []
    with unidev.use_backend("numpy"):
        assert selection.backend_choice().reason == "the innermost `with`"
        in_a_thread(lambda: seen.append(list(selection.stack.scopes)))
    assert seen == [[]]
    with pytest.raises(ZeroDivisionError), unidev.use_backend("numpy"):
        raise ZeroDivisionError
    assert not selection.stack.scopes


def test_asking_for_the_choice_imports_no_framework(two_frameworks, run_python) -> None:
    said = run_python(
        """
        import sys
        from unidev.backends.selection import backend_choice
        print(backend_choice().name, "twoframe" in sys.modules, "numpy" in sys.modules)
        """,
        UNIDEV_BACKEND="two",
    )
    assert said == "two False False"
