"""For pytest: traps for libraries that forget the device and the dtype of their input.

    def test_scale(unidev_device, unidev_result_device):
        x = unidev.ones(3, device=unidev_device)
        unidev_result_device(scale(x), like=x)

runs on ``cpu:0``, ``gpu:0`` and ``gpu:1``, each time with another GPU as the default device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from unidev_pytest.devices import (
    BACKEND,
    backend_of,
    check_poor,
    check_traced,
    is_named,
    is_parametrized,
    too_few,
)
from unidev_pytest.guard import GUARD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev import Backend, Device
    from unidev_pytest.strays import Strays

_DEVICE, _DTYPE = "unidev_device", "unidev_dtype"
_DEVICES = ("cpu:0", "gpu:0", "gpu:1")
_MARK = "unidev_transfers"
_LEDGER = pytest.StashKey[Any]()
_TRAP = pytest.StashKey["Strays"]()
"""Of a test: what it has made without a device."""
_BITS = {
    "float64": 64, "complex128": 64, "float32": 32, "complex64": 32, "float16": 16, "bfloat16": 16,
}  # fmt: skip
"""Of one floating-point number of a dtype."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known to ``--strict-markers``, and read the ledger."""
    if file := config.getini("unidev_expected"):
        from unidev_pytest.expectations import ExpectationError, ledger

        try:
            config.stash[_LEDGER] = ledger(config.rootpath / file)
        except ExpectationError as error:
            raise pytest.UsageError(f"unidev_expected: {error}") from error
    config.addinivalue_line(
        "markers",
        f"{_MARK}(count=None, nbytes=None): fail if the test makes more transfers between devices, "
        "or moves more bytes; names their lines.",
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """A setting for the ledger."""
    parser.addini("unidev_expected", "a file of known failures: expectations.toml", default="")


@pytest.hookimpl(tryfirst=True)  # before tests are deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Expect the failures of the ledger: one that passes is an error."""
    if _LEDGER in config.stash:
        from unidev_pytest.expectations import mark_known

        whole = not any("::" in argument for argument in config.args)
        mark_known(config.stash[_LEDGER], items, is_whole=whole)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses ``unidev_device`` on each device, ``unidev_dtype`` in each precision."""
    if _DTYPE in metafunc.fixturenames and not is_parametrized(metafunc.definition, _DTYPE):
        metafunc.parametrize(_DTYPE, ("float32", "float64"), indirect=True)
    if _DEVICE in metafunc.fixturenames and not is_parametrized(metafunc.definition, _DEVICE):
        if BACKEND not in metafunc.fixturenames and metafunc.config.getoption("unidev_poor"):
            from unidev.backends.selection import backend_choice

            check_poor(metafunc.config, [backend_choice().name])
        metafunc.parametrize(_DEVICE, _DEVICES, indirect=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Leave out tests that count or forbid transfers of a backend without a tracer.

    Each is an error at collection; or skipped, if nobody named the backend, which is installed.
    """
    outcome: Any = yield
    found = [] if outcome.excinfo else outcome.get_result().result
    for item in [each for each in found if isinstance(each, pytest.Item)]:
        if (reason := _untraced(item)) and is_named(item):
            found.remove(item)
            report = pytest.CollectReport(item.nodeid, "failed", f"{item.name}: {reason}", [])
            collector.ihook.pytest_collectreport(report=report)
        elif reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def _untraced(item: pytest.Item) -> str | None:
    fixtures = getattr(item, "fixturenames", ())
    for trap in (_MARK, GUARD):
        if item.get_closest_marker(trap) is not None or trap in fixtures:
            from unidev.backends.discovery import backend_specs
            from unidev.contract.backend import Backend

            default: Any = Backend.tracer
            spec = backend_specs().get(backend_of(item))
            if spec is not None and not spec.is_traced:
                return f"{trap} sees no transfers of {spec.name}: {default.reason}"
    return None


@pytest.fixture
def unidev_device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """The device of the test's inputs: runs the test on ``cpu:0``, ``gpu:0`` and ``gpu:1``.

    While the test runs, the default device is another GPU, unidev's and, where the framework has
    one for each thread (PyTorch, JAX, MXNet), the framework's: whatever is made without ``device=``
    is on the wrong device. Where the default device also decides where results are (TensorFlow), it
    is ``unidev_device`` itself. Make inputs with ``device=unidev_device``, or by the framework's
    own calls with ``unidev_device.native``. Skipped where there is no such GPU.
    """
    if not hasattr(request, "param"):
        pytest.fail(
            f"{_DEVICE} runs a test once for each device, which pytest cannot do for a method of "
            "unittest.TestCase or by getfixturevalue: name it among a test function's arguments.",
            pytrace=False,
        )
    if BACKEND in request.fixturenames:
        request.getfixturevalue(BACKEND)  # selects the backend, whichever fixture comes first
    import unidev

    kind, _, index = str(request.param).partition(":")
    there = unidev.num_gpus()
    if kind == "gpu" and int(index) >= there:
        pytest.skip(too_few(int(index) + 1, there, unidev.active_backend()))
    device = unidev.as_device(request.param)
    others = [gpu for gpu in map(unidev.gpu, range(min(there, 2))) if gpu is not device]
    if not others or _decides_where_results_are(others[0], device):
        with device:
            yield device
        return
    from unidev_pytest.strays import Strays  # which imports unidev

    with others[0], Strays(device, others[0]) as strays:
        request.node.stash[_TRAP] = strays
        yield device


@pytest.fixture
def unidev_dtype(request: pytest.FixtureRequest) -> str:
    """Runs the test for ``"float32"`` and ``"float64"``, with ``unidev_device`` on each device.

    Skipped where the device lacks it.
    """
    import unidev

    if BACKEND in request.fixturenames:
        request.getfixturevalue(BACKEND)
    backend = unidev.active_backend()
    used = _DEVICE in request.fixturenames
    device, name = request.getfixturevalue(_DEVICE) if used else backend.cpu, str(request.param)
    if name not in backend.dtypes_on(device):
        pytest.skip(f"{device} has no {name}")
    return name


def _decides_where_results_are(default: Device, device: Device) -> bool:
    """Whether what is computed from tensors on ``device`` is on the default device."""
    import unidev

    x: Any = unidev.ones(1, device=device)
    with default:
        return unidev.device_of(x + x) is not device


@pytest.fixture
def unidev_result_device(request: pytest.FixtureRequest) -> Callable[..., None]:
    """``unidev_result_device(result, like=x)``: fail unless the result is where ``x`` is.

    That is each tensor of ``result``, in containers and models too, on the device of ``x`` and of
    its framework. Unless ``dtype=False``, floating-point and complex tensors have the precision of
    a floating-point tensor of ``x``, if it has one: float32 and complex64, of float32.
    """

    def check(result: object, *, like: object, dtype: bool = True) -> None:
        __tracebackhide__ = True
        import unidev

        device = unidev.device_of(like)
        wrong = _wrong_devices(result, device, request.node.stash.get(_TRAP, None))
        wrong += _wrong_dtypes(result, like) if dtype else []
        if wrong:
            pytest.fail("\n".join(wrong))

    return check


def _tensors(x: object, name: str) -> list[tuple[str, Any, Backend]]:
    from unidev.tensors.containers import named_tensors

    return list(named_tensors(x, name, all_of_models=True))


def _wrong_devices(result: object, device: Device, strays: Strays | None) -> list[str]:
    found = _tensors(result, "result")
    if not found:
        return [f"the result, {type(result).__name__}, contains no tensor"]
    wrong = []
    for path, x, backend in found:
        on = backend.device_of(x)
        if on.backend != device.backend:
            wrong.append(f"{path} is a tensor of {on.backend}, not of {device.backend}")
        elif on is not device:
            origin = None if strays is None else strays.origin([x])
            is_stray = origin is not None or (strays is not None and on is strays.default)
            made = ": it was made without `device=`" * is_stray + f", at {origin}" * bool(origin)
            wrong.append(f"{path} is on {on}, and the input on {device}{made}")
    return wrong


def _wrong_dtypes(result: object, like: object) -> list[str]:
    from unidev.contract.dtypes import portable_name

    names = [(path, portable_name(x.dtype, of)) for path, x, of in _tensors(result, "result")]
    given = dict.fromkeys(portable_name(x.dtype, of) for _, x, of in _tensors(like, ""))
    bits = {_BITS[name] for name in given if name in _BITS}
    return [
        f"{path} is {name}, and the input {', '.join(each for each in given if each in _BITS)}"
        for path, name in names
        if bits and name in _BITS and _BITS[name] not in bits
    ]


@pytest.hookimpl(hookwrapper=True)  # the old kind, which every version of pytest supports
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Count the transfers of a test that has the mark."""
    mark = item.get_closest_marker(_MARK)
    if mark is None:
        yield
        return
    from unidev import InvalidDataError, trace_transfers

    most = _limits(*mark.args, **mark.kwargs)
    if not most or any(type(each) is not int or each < 0 for each in most.values()):
        raise InvalidDataError(
            f"the mark {_MARK} takes count, nbytes or both, non-negative integers: "
            f"{_MARK}(count=0)."
        )
    with trace_transfers() as trace:
        check_traced(item, _MARK)
        outcome: Any = yield
    found = {"count": trace.count, "nbytes": trace.total_bytes}
    if outcome.excinfo is None and any(found[name] > each for name, each in most.items()):
        said = ", ".join(f"{name}={each}" for name, each in most.items())
        more = f"the test moves more than {_MARK}({said}) allows:\n{trace}"
        outcome.force_exception(pytest.fail.Exception(more, pytrace=False))


def _limits(count: int | None = None, nbytes: int | None = None) -> dict[str, int]:
    given = {"count": count, "nbytes": nbytes}
    return {name: each for name, each in given.items() if each is not None}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """Say where the default device was when a test with a trap fails, and what was made there."""
    outcome: Any = yield
    if call.excinfo is not None and _TRAP in item.stash:
        said = item.stash[_TRAP].told(call.excinfo.tb)
        outcome.get_result().sections.append(("unidev's trap", said))
