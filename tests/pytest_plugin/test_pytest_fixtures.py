"""``unidev_backend`` and ``unidev_gpus`` in a user's tests: each run is a pytest of its own."""

from __future__ import annotations

import pytest
from needed import need

pytest_plugins = ("pytester",)


# -- unidev_backend --------------------------------------------------------------------------------


TWO = """
    import unidev

    def test_two(unidev_backend, unidev_gpus):
        a, b = unidev_gpus(2)
        assert (str(a), str(b)) == ("gpu:0", "gpu:1")
        assert a.backend == b.backend == unidev_backend.name == unidev.active_backend().name
        assert unidev.device_of(unidev.ones(2, device=b)) is b
"""


def said(result: pytest.RunResult) -> str:
    return " ".join([*result.outlines, *result.errlines])


def test_a_test_runs_on_each_backend_that_is_installed(pytester, run, add_backend) -> None:
    add_backend("own")
    pytester.makepyfile(test_own=TWO)
    result = run("--unidev-simulate", "2", UNIDEV_DISABLED_PLUGINS="torch,tensorflow,paddle,mxnet")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_two?numpy?*PASSED*", "*test_two?own?*PASSED*"])


def test_backends_can_be_named(pytester, run, add_backend) -> None:
    add_backend("own")
    pytester.makepyfile(test_own=TWO)
    result = run("--unidev-simulate", "2", "--unidev-backend", "own")
    result.assert_outcomes(passed=1)
    assert "test_two[own]" in said(result)
    run("--unidev-simulate", "2", "--unidev-backend", "own, numpy,own").assert_outcomes(passed=2)


def test_a_tests_own_parametrize_comes_first(pytester, run, add_backend) -> None:
    add_backend("own")
    pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.parametrize("n, unidev_backend", [(1, "own")], indirect=["unidev_backend"])
        def test_x(unidev_backend, n):
            assert unidev_backend.name == "own"
        """
    )
    run().assert_outcomes(passed=1)


def test_a_backend_that_does_not_load_is_skipped_with_the_reason(
    pytester, run, add_backend
) -> None:
    add_backend("broken", "json", "raise OSError('libcuda.so is gone')")
    pytester.makepyfile(test_own="def test_x(unidev_backend): pass")
    without = {"UNIDEV_DISABLED_PLUGINS": "torch,tensorflow,paddle,mxnet"}
    result = run(**without)
    result.assert_outcomes(passed=1, skipped=1)
    assert "test_own.py:1: backend 'broken' does not load: OSError: libcuda.so is gone" in said(
        result
    )
    result = run("--unidev-backend", "broken")
    result.assert_outcomes(errors=1)
    assert "libcuda.so is gone" in said(result)


def test_a_framework_that_is_not_installed_is_left_out_and_refused_by_name(
    pytester, run, add_backend
) -> None:
    add_backend("absent", framework="not_installed_here")
    pytester.makepyfile(test_own="def test_x(unidev_backend): pass")
    result = run(UNIDEV_DISABLED_PLUGINS="torch,tensorflow,paddle,mxnet")
    result.assert_outcomes(passed=1)
    result = run("--unidev-backend", "absent")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "needs not_installed_here, which is not installed. Install it with:" in said(result)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("numpyy", "there is no backend 'numpyy'; there are: numpy"),
        ("numpy,cuda", "there is no backend 'cuda'"),
        (" , ", "name at least one backend of: numpy"),
    ],
)
def test_an_unknown_backend_is_refused(pytester, run, given, message) -> None:
    pytester.makepyfile(test_own="def test_x(): pass")
    result = run("--unidev-backend", given)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: --unidev-backend {given}: {message}" in said(result)


@pytest.mark.parametrize(
    "source",
    [
        "def test_x(request): request.getfixturevalue('unidev_backend')",
        "import pytest, unittest\n\n@pytest.mark.usefixtures('unidev_backend')\n"
        "class TestX(unittest.TestCase):\n    def test_x(self): pass",
    ],
)
def test_where_a_test_cannot_be_repeated_it_says_so(pytester, run, source) -> None:
    pytester.makepyfile(test_own=source)
    result = run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "unidev_backend runs a test once for each backend, which pytest cannot do" in (
        said(result)
    )


def test_a_fixture_of_the_users_can_use_it(pytester, run, add_backend) -> None:
    add_backend("own")
    pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.fixture
        def net(unidev_backend):
            return unidev_backend.name

        def test_x(net):
            assert net in ("numpy", "own")
        """
    )
    run("--unidev-backend", "numpy,own").assert_outcomes(passed=2)


def test_workers_of_xdist_have_the_same_devices_and_backends(pytester, run) -> None:
    need("tools", "xdist", install="pip install pytest-xdist")
    pytester.makeini("[pytest]\nunidev_simulate = 3\n")
    pytester.makepyfile(test_own=TWO)
    options = ("-p", "xdist", "-n", "2", "--unidev-backend", "numpy", "--unidev-simulate", "2")
    run(*options).assert_outcomes(passed=1)


# -- unidev_gpus -----------------------------------------------------------------------------------


def test_too_few_gpus_skip_the_test_and_name_the_option(pytester, run) -> None:
    pytester.makepyfile(test_own=TWO)
    result = run("--unidev-backend", "numpy")
    result.assert_outcomes(skipped=1)
    assert (
        "test_own.py:4: needs 2 GPUs, and numpy has none: run pytest with --unidev-simulate 2"
        in (said(result))
    )
    result = run("--unidev-backend", "numpy", "--unidev-simulate", "1")
    result.assert_outcomes(skipped=1)
    assert "needs 2 GPUs, and numpy has 1 simulated: run pytest with --unidev-simulate 2" in (
        said(result)
    )


def test_a_backend_without_a_simulator_says_so(pytester, run, add_backend) -> None:
    add_backend("own", simulates=False)
    pytester.makepyfile(test_own=TWO)
    result = run("--unidev-backend", "own")
    assert "own has none; none can be simulated: the backend has no simulator" in said(result)


def test_more_gpus_than_can_be_simulated_need_a_machine(pytester, run) -> None:
    pytester.makepyfile(test_own="def test_x(unidev_gpus): unidev_gpus(65)")
    result = run("--unidev-simulate", "2", UNIDEV_BACKEND="numpy")
    assert "needs 65 GPUs, and numpy has 2 simulated: run it on a machine" in said(result)


@pytest.mark.parametrize("count", ["0", "-1", "True", "'2'", "None"])
def test_a_number_of_gpus_that_is_none_is_refused(pytester, run, count) -> None:
    pytester.makepyfile(test_own=f"def test_x(unidev_gpus): unidev_gpus({count})")
    result = run(UNIDEV_BACKEND="numpy")
    result.assert_outcomes(failed=1)
    assert f"unidev_gpus takes a positive integer, such as unidev_gpus(2), not {count}." in (
        said(result)
    )


def test_gpus_belong_to_the_backend_whichever_fixture_comes_first(
    pytester, run, add_backend
) -> None:
    add_backend("own")
    pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.fixture
        def gpu(unidev_gpus):
            return unidev_gpus(1)[0]

        def test_x(gpu, unidev_backend):
            assert gpu.backend == unidev_backend.name == "own"
        """
    )
    options = ("--unidev-backend", "own", "--unidev-simulate", "1")
    run(*options, UNIDEV_BACKEND="numpy").assert_outcomes(passed=1)


def test_a_stopped_transfer_shows_the_tests_own_lines(pytester, run) -> None:
    pytester.makepyfile(
        test_own="""
        import pytest, unidev

        def read(x):
            return unidev.to_numpy(x)

        @pytest.mark.transfer_guard("forbid")
        def test_x():
            read(unidev.ones(3, device="gpu:0"))

        def test_y():
            with unidev.transfer_guard("forbid"):
                unidev.ones(3, device="gpu:0")[0].item()
        """
    )
    options = ("--unidev-simulate", "1")
    result = run(*options, UNIDEV_BACKEND="numpy")
    result.assert_outcomes(failed=2)
    text = said(result)
    assert ">       return unidev.to_numpy(x)".replace(" ", "") in text.replace(" ", "")
    assert "test_own.py:4: TransferForbiddenError" in text
    assert "recorder.py" not in text
    assert "own_call" not in text
    assert "recorder.py" in said(run(*options, "--full-trace", UNIDEV_BACKEND="numpy"))
