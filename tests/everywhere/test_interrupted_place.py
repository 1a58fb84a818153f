"""A barrage of signals while a model is placed, on every backend that is installed here."""

import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec

import pytest

from unidev.registry.discovery import backend_specs

HERE = [name for name, spec in backend_specs().items() if find_spec(spec.framework) is not None]
PROGRAM = textwrap.dedent(
    """
    import random, signal, sys, unidev
    from unidev import nn
    from unidev.registry.loading import load_backend

    name = sys.argv[1]
    with unidev.cpu():
        if name == "numpy":
            net = {str(number): unidev.ones(3) for number in range(12)}
        else:
            net = nn.sequential(*[nn.dense(3, 3) for _ in range(6)])
    models = load_backend(name).models
    before = {key: unidev.to_numpy(x) for key, x in models.parameters(net).items()}
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1]
    calls = raised = 0
    moments = set()

    def handler(*_):
        raise KeyboardInterrupt

    def press():
        global calls
        calls += 1
        if calls in moments:
            signal.raise_signal(draw.choice(numbers))

    def pressed(method):
        def call(*arguments):
            press()
            result = method(*arguments)
            press()
            return result
        return call

    for number in numbers:
        signal.signal(number, handler)
    models.swap, models.is_on, models.finish = map(
        pressed, (models.swap, models.is_on, models.finish)
    )
    for seed in range(80):
        draw, calls = random.Random(seed), 0
        source = unidev.device_of(models.tensors(net))
        target = unidev.gpu(1) if source is not unidev.gpu(1) else unidev.gpu(0)
        moments = {draw.randrange(120) for _ in range(10)}
        try:
            unidev.place(net, target)
        except KeyboardInterrupt:
            raised += 1
        found = {unidev.device_of(x) for x in models.tensors(net).values()}
        assert found in ({source}, {target}), f"torn with seed {seed}: {found}"
        for number in numbers:
            assert signal.getsignal(number) is handler, f"{number} is not restored"
    moments = set()
    for key, x in models.parameters(net).items():
        assert (unidev.to_numpy(x) == before[key]).all(), key
    assert raised > 40, raised
    """
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has not these signals")
@pytest.mark.parametrize("backend", HERE)
def test_ten_signals_whose_handlers_raise_leave_a_model_whole(backend: str) -> None:
    variables = {"UNIDEV_BACKEND": backend, "UNIDEV_SIMULATE": "2"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, backend],
        env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
