"""``unidev_device``, ``unidev_result_device`` and ``unidev_transfers`` in a library's tests."""

from __future__ import annotations

from fnmatch import fnmatch
from functools import partial

import pytest
from broken_traps import is_red

pytest_plugins = ("pytester",)

LIBRARY = """
    import numpy as np
    import pytest
    import unidev

    def right(x):
        device = unidev.device_of(x)
        return {"y": x + unidev.ones(3, device=device), "at": unidev.arange(3, device=device)}

    def mixed(x):
        return x + unidev.ones(3)

    def stray(x):
        return [x, {"made": unidev.zeros(3)}]

    def back(x):
        return unidev.copy_to(x, "cpu")

    def wide(x):
        return unidev.zeros(3, dtype="float64", device=unidev.device_of(x))

    def own(x):
        return np.zeros(3, "float32")

    def nothing(x):
        return {"y": "no tensor"}

    @pytest.mark.parametrize("f", [right, mixed, stray, back, wide, own, nothing])
    def test_f(f, unidev_backend, unidev_device, unidev_result_device):
        x = unidev.ones(3, device=unidev_device)
        unidev_result_device(f(x), like=x)
"""


def failures(result: pytest.RunResult) -> set[str]:
    """Such as ``gpu:0-stray``."""
    lines = [line.split()[1] for line in result.outlines if line.startswith("FAILED")]
    return {line.partition("[")[2].rstrip("]").replace("numpy-", "") for line in lines}


def test_what_is_made_without_a_device_or_left_behind_is_found_on_each_device(
    pytester, run
) -> None:
    pytester.makepyfile(test_library=LIBRARY)
    result = run("--unidev-simulate", "2", "--unidev-backend", "numpy", "-rf")
    wrong = {
        f"{device}-{f}"
        for device in ("cpu:0", "gpu:0", "gpu:1")
        for f in ("mixed", "stray", "back", "wide", "own", "nothing")
    }
    assert failures(result) == wrong - {"cpu:0-back", "cpu:0-own"}
    text = result.stdout.str()
    for line in (
        "result[1]['made'] is on gpu:1, and the input on gpu:0: it was made without `device=`, at "
        'test_library.py:13 in stray: return [x, {"made": unidev.zeros(3)}]',
        "so, at test_library.py:10 in mixed: return x + unidev.ones(3)\n  called at test_lib",
        "result is on cpu:0, and the input on gpu:1\n",
        "without `device=`, at test_library.py:22 in own: return np.zeros",
        "result is float64, and the input float32",
        "the result, dict, contains no tensor",
        "unidev_device is cpu:0; what is made without `device=` is on gpu:0",
    ):
        assert line in text


POOR = """
    import unidev

    def test_x(unidev_device, unidev_dtype):
        x = unidev.ones(3, dtype=unidev_dtype, device=unidev_device).astype("float32")
        assert (x / 2).dtype == "float32"
        x.astype("float64")
"""


def test_gpus_without_a_dtype_find_its_constants(pytester, run) -> None:
    pytester.makepyfile(test_library=POOR)
    options = ("--unidev-simulate", "2", "--unidev-poor")
    result = run(*options, "no_float64", UNIDEV_BACKEND="numpy")
    result.assert_outcomes(passed=2, failed=2, skipped=2)
    text = "*UnsupportedDtypeError: cannot convert a simulated array to float64*"
    result.stdout.fnmatch_lines([text])
    result = run(*options, "no_float128", UNIDEV_BACKEND="numpy")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["--unidev-poor no_float128: backend numpy: its simulated GPUs *"])
    run("--unidev-poor", "no_int64").stderr.fnmatch_lines(["*: add --unidev-simulate N."])


KNOWN = """
    [[expected]]
    check = "test_library.py::{}"
    condition = "simulated and framework_version >= 1.2"
    reason = "it forgets the device"
    link = "https://example.org/1"
    expires = {}-01-01
"""


KNOWN_SAID = [
    ("test_f[gpu:0-*-stray]", 2999, "15 failed, 5 passed, 1 xfailed"),
    ("test_f", 2999, "*XPASS(strict)*it forgets the device (https://example.org/1; expected*"),
    ("test_g", 2999, "*unidev_expected: there is no test test_library.py::test_g"),
    ("test_f", 2020, "*known.toml: what is said of test_library.py::test_f expired on 2020*"),
]


@pytest.mark.parametrize(("check", "expires", "said"), KNOWN_SAID)
def test_known_failures_pass_until_they_are_mended(pytester, run, check, expires, said) -> None:
    pytester.makepyfile(test_library=LIBRARY)
    pytester.makefile(".toml", known=KNOWN.format(check, expires))
    pytester.makeini("[pytest]\nunidev_expected = known.toml")
    result = run("--unidev-simulate", "2", "--unidev-backend", "numpy", "-rX", "-rf")
    assert any(fnmatch(line, f"*{said}*") for line in result.outlines + result.errlines)


def test_without_enough_gpus_a_test_is_skipped_with_the_option(pytester, run) -> None:
    pytester.makepyfile(test_library="def test_x(unidev_device): pass")
    result = run("--unidev-simulate", "1", UNIDEV_BACKEND="numpy")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["*needs 2 GPUs*run pytest with --unidev-simulate 2*"])


def test_the_dtype_need_not_be_the_inputs(pytester, run) -> None:
    pytester.makepyfile(test_library=LIBRARY.replace("like=x", "like=x, dtype=False"))
    result = run("--unidev-simulate", "2", "--unidev-backend", "numpy", "-k", "wide")
    result.assert_outcomes(passed=3, deselected=18)


def test_transfers_above_the_marks_limit_fail_with_their_lines(pytester, run) -> None:
    pytester.makepyfile(
        test_library="""
        import pytest
        import unidev

        def move(times):
            x = unidev.ones(3, device="cpu")
            for _ in range(times):
                unidev.copy_to(x, "gpu:1")

        @pytest.mark.unidev_transfers(count=2)
        def test_few():
            move(2)

        @pytest.mark.unidev_transfers(count=2)
        def test_many():
            move(3)

        @pytest.mark.unidev_transfers(nbytes=12)
        def test_large():
            move(2)

        @pytest.mark.unidev_transfers(nbytes=0)
        def test_that_fails_by_itself():
            move(1)
            assert not "their own error"

        @pytest.mark.unidev_transfers("2")
        def test_of_a_wrong_mark():
            move(2)
        """
    )
    result = run("--unidev-simulate", "2", UNIDEV_BACKEND="numpy")
    result.assert_outcomes(passed=1, failed=4)
    text = result.stdout.str()
    for line in (
        "the test moves more than unidev_transfers(count=2) allows:",
        "the test moves more than unidev_transfers(nbytes=12) allows:",
        "test_library.py:7 in move",
        'assert not "their own error"',
        "the mark unidev_transfers takes count, nbytes or both, non-negative integers",
    ):
        assert line in text
    assert "unidev_transfers(nbytes=0) allows" not in text


def test_a_mark_that_sees_nothing_fails(pytester, run, add_backend) -> None:
    own = "from unidev.backends.numpy_backend.backend import NumpyBackend as Own\n"
    own += "Own.tracer = __import__('unidev').unsupported('no time')"
    add_backend("own", backend=own)
    pytester.makepyfile("import pytest\n@pytest.mark.transfer_guard\ndef test(unidev_backend): 0")
    result = run("--unidev-backend", "own")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*transfer_guard sees no transfers of own: no time*"])


def test_a_unittest_case_hears_how_to_use_it(pytester, run) -> None:
    pytester.makepyfile("def test_x(request): request.getfixturevalue('unidev_device')")
    run().stdout.fnmatch_lines(["*unidev_device runs a test once for each device*"])


IN_LIBRARY = test_what_is_made_without_a_device_or_left_behind_is_found_on_each_device
POOR_GPUS = test_gpus_without_a_dtype_find_its_constants
MARKED = test_transfers_above_the_marks_limit_fail_with_their_lines
MENDED, UNKNOWN, EXPIRED = (
    partial(test_known_failures_pass_until_they_are_mended, check=check, expires=year, said=said)
    for check, year, said in KNOWN_SAID[1:]
)


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        (IN_LIBRARY, "unidev_pytest.strays:Strays._note = lambda *_: None"),
        (IN_LIBRARY, "unidev_pytest.strays:Strays._here = lambda x: was(x).splitlines()[0]"),
        (IN_LIBRARY, "unidev_pytest.traps:_decides_where_results_are = lambda *_: True"),
        (IN_LIBRARY, "unidev_pytest.traps:_DEVICES = was[1:]"),
        (IN_LIBRARY, "unidev_pytest.traps:_tensors = lambda *_: was(*_)[:1]"),
        (IN_LIBRARY, "unidev_pytest.traps:_wrong_devices = lambda *_: []"),
        (IN_LIBRARY, "unidev_pytest.traps:_wrong_dtypes = lambda *_: []"),
        (IN_LIBRARY, "unidev.contract.backend:Backend.watch_made = lambda *_: nullcontext()"),
        (POOR_GPUS, "unidev.contract.backend_spec:SimulatedGpus.lacks = ('float16',)"),
        (POOR_GPUS, "unidev_pytest.traps:check_poor = lambda *_: None"),
        (MARKED, "unidev_pytest.traps:_limits = lambda count=None, nbytes=99: was(count, 999)"),
        (MARKED, "unidev_pytest.traps:_limits = lambda count=9, nbytes=None: was(9, nbytes)"),
        (MENDED, "unidev_pytest.expectations:mark_known = lambda *_, **__: None"),
        (UNKNOWN, "unidev_pytest.expectations:mark_known = lambda *_, **__: was(*_, is_whole=0)"),
        (EXPIRED, "unidev_pytest.expectations:ledger = expectations.read"),
    ],
)
def test_a_broken_trap_is_red(pytester, run, check, broken) -> None:
    is_red(pytester, run, check, broken)
