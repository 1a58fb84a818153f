"""For pytest: tests of code for several devices or frameworks, on a machine that has one or none.

    def test_a_batch_is_split(unidev_backend, unidev_gpus):
        parts = unidev.split_batch(unidev.ones((6, 2)), unidev_gpus(2))
        assert [len(part) for part in parts] == [3, 3]

``pytest --unidev-simulate 2`` runs it with two simulated GPUs, on each framework that is installed.
Tests that use neither fixture are not affected.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev import Backend, Device

_VARIABLE, _NAME, _LIKE = "UNIDEV_SIMULATE", "UNIDEV_SIMULATE_AS", "UNIDEV_SIMULATE_LIKE"
_MOST = 64
BACKEND = "unidev_backend"
_SOURCE = pytest.StashKey[tuple[str, int]]()
"""The source of the number of simulated GPUs, and that number."""
_SOURCE_OF_NAME = pytest.StashKey[str]()
"""The source of their name."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options and settings for tests of code that uses unidev."""
    group = parser.getgroup("unidev", "unidev: frameworks and devices")
    group.addoption(
        "--unidev-backend", metavar="NAME,…",
        help="run tests that use the fixture unidev_backend on these backends (default: each whose "
        "framework is installed); with --pyargs unidev_conformance, the backend to judge",
    )  # fmt: skip
    group.addoption(
        "--unidev-simulate", metavar="N", type=_count,
        help="simulate N GPUs in place of the machine's; 0: use the machine's own (default: the "
        "setting unidev_simulate, else UNIDEV_SIMULATE)",
    )  # fmt: skip
    group.addoption(
        "--unidev-simulate-as", metavar="NAME",
        help="the framework's name for the simulated GPUs: cuda, on the CPU build of PyTorch "
        "(default: the setting unidev_simulate_as, else UNIDEV_SIMULATE_AS)",
    )  # fmt: skip
    group.addoption(
        "--unidev-poor", metavar="no_float64|no_int64",
        help="simulate GPUs that refuse these dtypes, as MPS float64 (UNIDEV_SIMULATE_LIKE)",
    )  # fmt: skip
    group.addoption(
        "--unidev-late", action="store_true",
        help="fail a test that has a race, with its lines (UNIDEV_SIMULATE_LATE=report)",
    )  # fmt: skip
    parser.addini("unidev_simulate", "simulate this many GPUs: see --unidev-simulate", default="")
    parser.addini("unidev_simulate_as", "their name: see --unidev-simulate-as", default="")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Set the number of simulated GPUs and their name, before a ``conftest.py`` is imported."""
    count, source = _simulated(early_config)
    name, source_of_name = _given(early_config, "unidev_simulate_as")
    if count is not None:
        _check_nothing_is_loaded(count, source)
        early_config.stash[_SOURCE] = source, count
        _set(early_config, _VARIABLE, str(count))
    if name is not None:
        _set(early_config, _NAME, name)
        early_config.stash[_SOURCE_OF_NAME] = source_of_name
    elif count == 0 and os.environ.get(_NAME):
        _set(early_config, _NAME, None)  # the machine's own GPUs have their own
    poor = early_config.known_args_namespace.unidev_poor
    if poor is not None:
        _set(early_config, _LIKE, poor)
    late = early_config.known_args_namespace.unidev_late
    if late:
        _set(early_config, "UNIDEV_SIMULATE_LATE", "report")
    if (late or (name or poor) is not None) and not os.environ.get(_VARIABLE, "").strip(" 0"):
        raise pytest.UsageError(
            f"{source_of_name or ('--unidev-poor' if poor else '--unidev-late')} is about "
            "simulated GPUs, and none are simulated: add --unidev-simulate N."
        )
    if os.environ.get(_NAME):
        _prepare_for_name(source_of_name or _NAME)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse unknown backends, and a number of simulated GPUs changed by a ``conftest.py``."""
    _check_number(config)
    given = config.getoption("unidev_backend")
    # Which judges one backend, also one that does not load.
    suite = config.pluginmanager.get_plugin("unidev_conformance.pytest_plugin")
    if given is None or (suite is not None and suite.is_for_suite(config)):
        return
    from unidev import UnidevError

    try:
        _check_names(_names_in(given))
    except UnidevError as error:
        raise pytest.UsageError(f"--unidev-backend {given}: {error}") from error


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say that GPUs are simulated, and why."""
    source, count = config.stash.get(_SOURCE, ("", 0))
    said = [f"{_VARIABLE}={count} by {source}"] if source else []
    if source := config.stash.get(_SOURCE_OF_NAME, ""):
        said.append(f"{_NAME}={os.environ.get(_NAME)} by {source}")
    return f"unidev: {', '.join(said)}" if said else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Check the number of simulated GPUs again: the files of tests are imported now."""
    _check_number(session.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses ``unidev_backend`` once for each backend."""
    if BACKEND not in metafunc.fixturenames or is_parametrized(metafunc.definition, BACKEND):
        return
    given = metafunc.config.getoption("unidev_backend")
    names = _installed() if given is None else _names_in(given)
    check_poor(metafunc.config, names)
    metafunc.parametrize(BACKEND, names, indirect=True)


def check_poor(config: pytest.Config, backends: list[str]) -> None:
    """Fail, at collection, if one of the backends cannot have the GPUs of ``--unidev-poor``."""
    poor = config.getoption("unidev_poor")
    if poor is None:
        return
    from unidev.backends.discovery import backend_spec
    from unidev.backends.loading import refusal_of
    from unidev.backends.simulation import simulated_gpus

    gpus: Any = simulated_gpus()
    for name in backends:
        if reason := refusal_of(backend_spec(name), gpus):
            able = "or name those that can with --unidev-backend"
            pytest.fail(f"--unidev-poor {poor}: backend {name}: {reason}, {able}", pytrace=False)


@pytest.fixture
def unidev_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Runs the test once for each backend, which is selected meanwhile; its ``unidev.Backend``.

    By default these are the backends whose framework is installed, and one that does not load is
    skipped, with the reason. With ``--unidev-backend torch,numpy`` these are used, and one that
    does not load is an error.
    """
    if not hasattr(request, "param"):
        pytest.fail(
            "unidev_backend runs a test once for each backend, which pytest cannot do for a "
            "method of unittest.TestCase or by getfixturevalue: name it among a test function's "
            "arguments, or use `with unidev.use_backend(name):`.",
            pytrace=False,
        )
    import unidev

    try:
        scope = unidev.use_backend(request.param)
    except (unidev.BackendError, unidev.SimulationError) as error:
        if request.config.getoption("unidev_backend") is not None:
            raise
        pytest.skip(str(error))
    with scope as backend:
        yield backend


@pytest.fixture
def unidev_gpus(request: pytest.FixtureRequest) -> Callable[[int], list[Device]]:
    """``unidev_gpus(2)``: the first two GPUs, real or simulated, of the selected backend.

    Where there are fewer, the test is skipped, with the option that simulates them.

    Raises:
        InvalidDataError: the number is not a positive integer.
    """
    if BACKEND in request.fixturenames:
        request.getfixturevalue(BACKEND)  # selects the backend, whichever fixture comes first

    def gpus(count: int, /) -> list[Device]:
        __tracebackhide__ = True  # pytest reports the test's line as the place of the skip
        import unidev

        if type(count) is not int or count < 1:
            raise unidev.InvalidDataError(
                f"unidev_gpus takes a positive integer, such as unidev_gpus(2), not {count!r}."
            )
        there = unidev.num_gpus()
        if there < count:
            pytest.skip(too_few(count, there, unidev.active_backend()))
        return [unidev.gpu(index) for index in range(count)]

    return gpus


# -- how many simulated GPUs -----------------------------------------------------------------------


def _simulated(config: pytest.Config) -> tuple[int | None, str]:
    """The number, and what gave it; None: neither the command line nor a file of settings."""
    given, source = _given(config, "unidev_simulate")
    if not isinstance(given, str):
        return given, source
    try:
        count = _count(given)
    except argparse.ArgumentTypeError as error:
        raise pytest.UsageError(f"{source}: {error}") from None
    variable = os.environ.get(_VARIABLE, "").strip()
    if variable and variable != str(count):
        raise pytest.UsageError(
            f"{source} is {count}, but {_VARIABLE}={variable} is in the environment: remove one of "
            f"them, or pass --unidev-simulate N, which is used instead of both."
        )
    return count, source


def _given(config: pytest.Config, setting: str) -> tuple[Any, str]:
    """The option of that name, else the text in a file of settings, and which; None: neither."""
    option = getattr(config.known_args_namespace, setting)
    if option is not None:
        return option, f"--{setting.replace('_', '-')}"
    text = str(config.getini(setting)).strip()
    return (text, f"the setting {setting} in {config.inipath}") if text else (None, "")


def _prepare_for_name(source: str) -> None:
    """Have frameworks look for the name, which they do only while they are imported."""
    try:
        from unidev.backends.import_hook import activate_name, check_possible
        from unidev.backends.simulation import simulated_gpus

        gpus = simulated_gpus()
        if gpus is not None:
            check_possible(gpus)
        activate_name()
    except RuntimeError as error:  # a SimulationError, also of `import unidev` itself
        raise pytest.UsageError(f"{source}: {error}") from error


def _count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else -1
    if not 0 <= number <= _MOST:
        raise argparse.ArgumentTypeError(
            f"the number of simulated GPUs must be an integer from 0 to {_MOST}, not {text!r}; 0 "
            "means the machine's own GPUs"
        )
    return number


def _check_nothing_is_loaded(count: int, source: str) -> None:
    """A backend that is loaded already keeps the number that it was loaded with."""
    loading = sys.modules.get("unidev.backends.loading")
    loaded: dict[str, Backend] = {} if loading is None else loading.loaded_backends
    for name, backend in loaded.items():
        if backend.simulated_count != count:
            raise pytest.UsageError(
                f"{source} is {count}, but backend {name!r} was loaded with "
                f"{backend.simulated_count or 'no'} simulated GPUs before pytest read its options, "
                f"by another plugin or the program that started pytest: set {_VARIABLE}={count} in "
                "the environment."
            )


def _check_number(config: pytest.Config) -> None:
    source, count = config.stash.get(_SOURCE, ("", 0))
    now = os.environ.get(_VARIABLE, "")
    if source and now.strip() != str(count):
        raise pytest.UsageError(
            f"{source} is {count}, but {_VARIABLE} has become {now or 'unset'} since, by "
            "unidev.simulate or os.environ in a conftest.py, a test's file or another plugin: "
            "remove that, or pass the same number."
        )


def _set(config: pytest.Config, variable: str, value: str | None) -> None:
    """Set a variable, which processes that tests start inherit, until pytest ends."""
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    if value is None:
        patch.delenv(variable, raising=False)
    else:
        patch.setenv(variable, value)


def too_few(count: int, there: int, backend: Backend) -> str:
    """Why a test is skipped for lack of GPUs, and how to have them."""
    from unidev.backends.loading import refusal_of
    from unidev.backends.simulation import simulated_gpus
    from unidev.contract.backend import Unsupported

    gpus = "1 GPU" if count == 1 else f"{count} GPUs"
    simulated = " simulated" if backend.simulated_count else ""
    found = f"needs {gpus}, and {backend.name} has {there or 'none'}{simulated}"
    if isinstance(backend.spec.simulator, Unsupported):
        return f"{found}; none can be simulated: {backend.spec.simulator.reason}"
    if count > _MOST:
        return f"{found}: run it on a machine that has them"
    wanted: Any = simulated_gpus({**os.environ, _VARIABLE: str(count)})
    if reason := refusal_of(backend.spec, wanted):
        return f"{found}; no more can be simulated: {reason}"
    return f"{found}: run pytest with --unidev-simulate {count}"


# -- which backends --------------------------------------------------------------------------------


def _names_in(given: str) -> list[str]:
    return list(dict.fromkeys(name for name in map(str.strip, given.split(",")) if name))


def _check_names(names: list[str]) -> None:
    from unidev import BackendNotFoundError, list_backends
    from unidev.backends.discovery import backend_spec
    from unidev.backends.loading import check_installed

    if not names:
        raise BackendNotFoundError(f"name at least one backend of: {', '.join(list_backends())}.")
    for name in names:
        check_installed(backend_spec(name))


def _installed() -> list[str]:
    """The backends whose framework is installed; imports none of them."""
    from unidev.backends.discovery import backend_specs
    from unidev.backends.loading import is_installed

    return sorted(name for name, spec in backend_specs().items() if is_installed(spec.framework))


def is_parametrized(item: pytest.Item, fixture: str) -> bool:
    """Whether the test's own ``parametrize`` names that fixture."""
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs.get("argnames", ())
        if fixture in (map(str.strip, names.split(",")) if isinstance(names, str) else names):
            return True
    return False


def backend_of(item: Any) -> str:
    """The backend that the test's parameters select, else UNIDEV_BACKEND's, else ""."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return str(parameters.get(BACKEND) or os.environ.get("UNIDEV_BACKEND", ""))


def is_named(item: pytest.Item) -> bool:
    """Whether the test or the user names its backend, which runs not just as it is installed."""
    if BACKEND not in getattr(item, "fixturenames", ()) or is_parametrized(item, BACKEND):
        return True
    return item.config.getoption("unidev_backend") is not None


def check_traced(item: pytest.Item, trap: str) -> None:
    """Fail, within a trace or guard, if it does not see the transfers of the test's backend."""
    from unidev.tracing.recorder import current

    recorder = current()
    reason = None if recorder is None else recorder.missed().get(backend_of(item))
    if reason is not None:
        pytest.fail(f"{trap} sees no transfers of {backend_of(item)}: {reason}", pytrace=False)
