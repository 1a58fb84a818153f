"""Several threads at once, and a fork among them, on every backend that is installed here."""

import os
import subprocess
import sys
import textwrap

import pytest
from running_examples import HERE

PROGRAM = textwrap.dedent(
    """
    import faulthandler, os, signal, sys, threading, time, unidev
    from unidev import nn
    from unidev.backends.loading import being_loaded

    faulthandler.enable()
    name = sys.argv[1]
    loading = threading.Thread(target=unidev.set_backend, args=(name,))
    loading.start()
    while loading.is_alive() and not being_loaded:  # NumPy may be there before it is seen
        time.sleep(0)
    child = os.fork()
    if not child:
        signal.alarm(100)
        unidev.set_backend(name)
        os._exit(unidev.to_numpy(unidev.ones(3)).tolist() != [1.0, 1.0, 1.0])
    loading.join()
    assert os.waitpid(child, 0)[1] == 0, "the child of a fork hangs, or failed"

    if name == "numpy":
        net = {"weight": unidev.ones((50, 50)), "bias": unidev.ones(50)}
    else:
        with unidev.cpu():
            net = nn.sequential(*[nn.dense(50, 50) for _ in range(6)])
    before = {key: unidev.to_numpy(x) for key, x in unidev.parameters(net).items()}
    start, errors = threading.Barrier(4), []

    def work(number):
        start.wait()
        for turn in range(40):
            try:
                unidev.place(net, ("cpu", "gpu:0", "gpu:1")[(number + turn) % 3])
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]
    unidev.device_of(net)
    for key, x in unidev.parameters(net).items():
        assert (unidev.to_numpy(x) == before[key]).all(), key
    """
)

LOOKING = """
import os, signal, sys, threading, unidev

looking = threading.Thread(target=unidev.num_gpus)
looking.start()
while "unidev.backends.discovery" not in sys.modules:  # there while it is being imported
    pass
child = os.fork()
if not child:
    signal.alarm(60)
    os._exit(unidev.num_gpus())
looking.join()
assert os.waitpid(child, 0)[1] == 0, "the child hangs: a module is being imported for ever"
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows cannot fork")
def test_a_fork_beside_another_threads_first_look_at_the_devices() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", LOOKING]
    environment = {**os.environ, "UNIDEV_BACKEND": "numpy", "UNIDEV_SIMULATE": ""}
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows cannot fork")
@pytest.mark.parametrize("backend", HERE)
def test_a_fork_while_a_backend_is_loaded_and_a_model_that_several_threads_place(
    backend: str,
) -> None:
    variables = {"UNIDEV_BACKEND": backend, "UNIDEV_SIMULATE": "2"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, backend],
        env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
