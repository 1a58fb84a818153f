from __future__ import annotations

import subprocess
import sys

import pytest

USE_EACH = """
import os
import unidev
devices = unidev.list_devices()
assert [str(d) for d in devices] == ["cpu:0", *(f"gpu:{i}" for i in range({count}))], devices
source = unidev.arange(5, device=devices[-1])
for device in devices:
    x = unidev.copy_to(source, device)
    assert unidev.device_of(x) is device
    assert unidev.to_numpy(x + x).tolist() == [0, 2, 4, 6, 8]
    assert unidev.device_of(x + x) is device
print("done")
"""


@pytest.mark.parametrize("count", [1, 16, 17, 64])
def test_every_simulated_gpu_can_be_used(run_python, count):
    done = run_python(USE_EACH.replace("{count}", str(count)), UNIDEV_SIMULATE=str(count))
    assert done.stdout == "done\n", done.stderr


def test_no_simulated_gpus_unless_asked_for(run_python):
    done = run_python("import unidev; print(unidev.list_devices())", UNIDEV_SIMULATE=None)
    assert done.stdout == "[<Device cpu:0 of paddle>]\n", done.stderr


def test_paddle_imported_before_is_an_error_that_says_what_to_do(run_python):
    done = run_python("import paddle, unidev; unidev.num_gpus()")
    assert "SimulationError: Paddle is imported already" in done.stderr
    assert 'unidev.set_backend("paddle")' in done.stderr


def test_without_a_compiler_the_error_says_what_to_install(run_python, tmp_path):
    done = run_python(
        "import unidev; unidev.num_gpus()", PATH=str(tmp_path), UNIDEV_CACHE=str(tmp_path)
    )
    assert "SimulationError" in done.stderr
    assert "apt install g++" in done.stderr


def test_a_compiler_that_fails_is_an_error_that_shows_its_words(run_python, tmp_path):
    compiler = tmp_path / "bad++"
    compiler.write_text(
        "#!/bin/sh\ncase $1 in --version) echo 1;; *) echo no such >&2; exit 3;; esac\n"
    )
    compiler.chmod(0o755)
    done = run_python(
        "import unidev; unidev.num_gpus()", CXX=str(compiler), UNIDEV_CACHE=str(tmp_path / "cache")
    )
    assert "exit 3" in done.stderr
    assert "no such" in done.stderr


def test_the_environment_is_as_it_was(run_python):
    done = run_python(
        """
        import os
        before = dict(os.environ)
        import unidev
        unidev.set_backend("paddle")
        after = dict(os.environ)
        names = {*before, *after} - {"OMP_NUM_THREADS"}  # which Paddle sets, simulated or not
        print({name for name in names if before.get(name) != after.get(name)})
        """,
        CUSTOM_DEVICE_ROOT="/somewhere",
        FLAGS_free_idle_chunk=None,
    )
    assert done.stdout == "set()\n", done.stderr


def test_paddle_logs_nothing_while_it_is_imported(run_python):
    run_python("import unidev; unidev.num_gpus()")  # builds, if that is still to do
    done = run_python("import unidev; unidev.num_gpus()", GLOG_minloglevel=None)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_users_own_logging_stays(run_python):
    done = run_python("import unidev; unidev.num_gpus()", GLOG_minloglevel="0")
    assert "CustomDevice" in done.stderr or "custom" in done.stderr.lower()


def test_two_processes_that_build_at_once_both_get_devices(tmp_path):
    program = (
        "import os; os.environ.update(UNIDEV_SIMULATE='2', UNIDEV_BACKEND='paddle',"
        f" UNIDEV_CACHE={str(tmp_path)!r}); import unidev; print(unidev.num_gpus())"
    )
    command = [sys.executable, "-W", "ignore", "-c", program]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=300)[0] for process in both] == ["2\n", "2\n"]
    assert len(list(tmp_path.glob("*/unidev_simulator.so"))) == 1


def test_the_default_device_is_the_accelerator_as_it_is_on_hardware(run_python):
    program = """
        import unidev
        unidev.set_backend("paddle")
        import paddle
        print(paddle.device.get_device(), paddle.ones([2]).place)
        """
    for count in ("2", "33"):
        assert run_python(program, UNIDEV_SIMULATE=count).stdout == "sim:0 Place(sim:0)\n"
