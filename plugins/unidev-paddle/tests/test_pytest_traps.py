"""Simulated GPUs that lack a dtype, with Paddle's own calls."""

from __future__ import annotations

from typing import Any

import pytest
from broken_traps import is_red, runner

pytest_plugins = ("pytester",)

LIBRARY = """
    import numpy as np
    import pytest
    import unidev

    unidev.set_backend("paddle")  # which simulates GPUs, before Paddle is imported
    import paddle

    GPU = unidev.gpu(0).native
    MADE = [
        lambda x: paddle.to_tensor(1.0, dtype="float64", place=GPU),
        lambda x: x.astype("float64"),
        lambda x: paddle.zeros([2], "float64"),
        lambda x: x + paddle.to_tensor(np.ones(2), place="cpu"),
        lambda x: paddle.to_tensor(np.ones(2), place="cpu").cuda(),
        lambda x: next(iter(paddle.io.DataLoader([np.ones(2)]))),
        lambda x: paddle.to_tensor([1, 2]),
        lambda x: paddle.arange(3),
        lambda x: x.argmax(),
    ]

    @pytest.mark.parametrize("make", MADE)
    def test_made(make):
        x = paddle.to_tensor([1, 2], dtype="float32", place=GPU)
        assert "Tensor" in repr((x.sum() * paddle.nn.Linear(2, 2).weight).mean())
        make(x)

    def test_put(pytestconfig):
        if pytestconfig.getoption("unidev_poor") == "no_float64":
            wide = paddle.to_tensor([1.5], dtype="float64", place="cpu")
            put = unidev.device_put(wide, "gpu", dtype="float32")
            with pytest.raises(unidev.UnsupportedDtypeError, match="gpu:0 has no float64"):
                unidev.copy_to(wide, "gpu")
        with unidev.trace_transfers() as trace:
            paddle.ones([2]).numpy()
        assert trace.count == 1
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    return runner(pytester, monkeypatch)


@pytest.mark.parametrize(
    ("dtype", "failed", "names"),
    [("float64", 6, ("Tensor.astype", "_DataLoader*")), ("int64", 3, ("paddle.arange",))],
)
def test_gpus_without_a_dtype_refuse_it_in_paddles_words(
    pytester: Any, run: Any, dtype: str, failed: int, names: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_library=LIBRARY)
    result = run("--unidev-poor", f"no_{dtype}")
    result.assert_outcomes(passed=10 - failed, failed=failed)
    for name in names:
        said = f"*with key (sim, *, {dtype}) of kernel `{name}` is not registered. Selected wrong*"
        result.stdout.fnmatch_lines_random([said])


@pytest.mark.parametrize(
    "broken",
    [
        "builtins_of=lambda module: ()", "may_hold=lambda module: False", "_ENGINE=()",
        "_METHODS=('_copy_to',)", "_METHODS=('__add__',)", "_FILLING=()",
        "PaddleSimulator=type('Rich', (), {'lacks': ()})",
    ],
)  # fmt: skip
def test_a_poor_gpu_that_takes_the_dtype_is_red(pytester: Any, run: Any, broken: str) -> None:
    module = "unidev_paddle.backend" if "Simulator" in broken else "unidev_paddle.simulator.poor"
    start = "unidev_paddle.simulator:PaddleSimulator.start"  # the modules import Paddle
    change = f"vars(pkgutil.resolve_name('{module}')).update({broken})"

    def check(pytester: Any, run: Any) -> None:
        test_gpus_without_a_dtype_refuse_it_in_paddles_words(pytester, run, "float64", 6, ())

    is_red(pytester, run, check, f"{start} = lambda *_: (was(*_), {change})")
