"""A framework that is newer than what its plugin was tested with: one warning, and no refusal."""

from __future__ import annotations

import pytest

from unidev.backends.versions import release

FRAMEWORK = "__version__ = {version!r}\n"
PLUGIN = """
    import unidev
    from unidev.backends.numpy_backend.backend import NumpyBackend

    def load():
        import strange_framework
        return NumpyBackend

    @unidev.hookimpl
    def unidev_register_backend():
        return unidev.BackendSpec(
            name="theirs", contract_version=3, framework="strange_framework", install="no",
            load=load, tested_until={tested!r},
        )
"""
LOAD = """
    import warnings
    import unidev
    from unidev.errors import UntestedVersionWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", category=UntestedVersionWarning)
        {silence}
        for attempt in range(2):
            unidev.set_backend("theirs")
            unidev.zeros(2)
    for each in caught:
        print(each.category.__name__, each.message)
    print("works", unidev.active_backend().spec.name)
"""


@pytest.fixture
def load(add_plugin, run_python):
    def run(version: str, tested: str | None, silence: str = "pass", **environment: str) -> str:
        add_plugin("strange_framework", FRAMEWORK.format(version=version))
        add_plugin("theirs_plugin", PLUGIN.format(tested=tested))
        program = LOAD.format(silence=silence)
        return run_python(program, UNIDEV_PLUGINS="theirs_plugin", **environment)

    return run


@pytest.mark.parametrize("version", ["3.2.0", "3.2.0rc1+cu130", "4.0", "3.10.1"])
def test_a_newer_framework_is_one_warning_with_both_versions(load, version: str) -> None:
    first, last = load(version, "3.1").splitlines()
    kind, _, message = first.partition(" ")
    assert kind == "UntestedVersionWarning"
    assert f"tested with strange_framework up to 3.1, and this is {version}." in message
    assert "PYTHONWARNINGS='ignore:untested version'" in message
    assert last == "works theirs"


@pytest.mark.parametrize("version", ["3.1", "3.1.7", "3.1.7+cpu", "3.0.9", "2.9", "0.0.0", "dev"])
@pytest.mark.parametrize("tested", ["3.1", None])
def test_others_are_none(load, version: str, tested: str | None) -> None:
    assert load(version, tested) == "works theirs"


def test_it_is_silenced_as_it_says(load) -> None:
    by_filter = 'warnings.filterwarnings("ignore", category=unidev.errors.UntestedVersionWarning)'
    assert load("4.0", "3.1", by_filter) == "works theirs"


def test_the_variable_silences_it(add_plugin, run_python) -> None:
    add_plugin("strange_framework", FRAMEWORK.format(version="4.0"))
    add_plugin("theirs_plugin", PLUGIN.format(tested="3.1"))
    program = """
        import subprocess, sys
        load = "import unidev; unidev.set_backend('theirs'); print('works')"
        done = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True)
        print(done.stdout.strip(), "UntestedVersionWarning" in done.stderr)
    """
    named = {"UNIDEV_PLUGINS": "theirs_plugin"}
    assert run_python(program, **named) == "works True"
    silent = {**named, "PYTHONWARNINGS": "ignore:untested version"}
    assert run_python(program, **silent) == "works False"


def test_where_warnings_are_errors_the_backend_is_loaded_nevertheless(
    add_plugin, run_python
) -> None:
    add_plugin("strange_framework", FRAMEWORK.format(version="4.0"))
    add_plugin("theirs_plugin", PLUGIN.format(tested="3.1"))
    program = """
        import unidev  # with warnings as errors
        try:
            unidev.set_backend("theirs")
        except Warning as warning:
            print(type(warning).__name__)
        unidev.set_backend("theirs")
        print(unidev.num_gpus())
    """
    found = run_python(program, UNIDEV_PLUGINS="theirs_plugin")
    assert found.split() == ["UntestedVersionWarning", "0"]


@pytest.mark.parametrize("tested", ["new", 2.14, "2.14+cpu", ""])
def test_a_spec_that_names_no_release_is_refused(add_plugin, run_python, tested: object) -> None:
    add_plugin("strange_framework", FRAMEWORK.format(version="4.0"))
    add_plugin("theirs_plugin", PLUGIN.format(tested=tested))
    program = """
        import unidev
        try:
            unidev.set_backend("theirs")
        except unidev.BackendError as error:
            print(error)
    """
    found = run_python(program, UNIDEV_PLUGINS="theirs_plugin")
    assert "`tested_until` of its spec is " in found
    assert "it must be a release" in found


def test_the_numbers_of_a_release() -> None:
    assert release("2.14.1+cu130") == (2, 14, 1)
    assert release("2.14.0rc1") == (2, 14, 0)
    assert release("unknown") == ()


def test_a_plugin_of_the_last_version_of_the_contract_is_told_what_changes(
    add_plugin, run_python
) -> None:
    add_plugin("strange_framework", FRAMEWORK.format(version="1.0"))
    plugin = PLUGIN.replace("contract_version=3", "contract_version=2").format(tested=None)
    add_plugin("theirs_plugin", plugin)
    program = LOAD.replace("UntestedVersionWarning", "DeprecationWarning").replace(
        "from unidev.errors import DeprecationWarning", ""
    )
    said, works = run_python(
        program.format(silence="pass"), UNIDEV_PLUGINS="theirs_plugin"
    ).splitlines()
    assert said.startswith("DeprecationWarning theirs_plugin was written for version 2 of")
    assert "`Layers.before` gets function(layer, x), no longer function(x)" in said
    assert works == "works theirs"
