"""What only a process of its own can show: imports, the runtime's start, too late."""

import json

import unidev


def result(done):
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_loading_prints_nothing_to_stdout_and_changes_no_variable_of_its_own(python):
    done = python(
        "import os, json, subprocess, sys\n"
        "code = 'import tensorflow, os, json; print(json.dumps(dict(os.environ)))'\n"
        "alone = json.loads(subprocess.check_output([sys.executable, '-c', code]))\n"
        "import unidev\n"
        "unidev.set_backend('tensorflow'); unidev.ones(3)\n"
        "print(json.dumps(alone == dict(os.environ)))"
    )
    assert result(done) is True


def test_workers_that_are_forked_from_one_draw_their_own_numbers():
    call = {"workers": 3, "backend": "tensorflow", "gpus_per_worker": 0, "start": "fork"}
    for numbers in zip(*unidev.run(drawn, **call), strict=True):
        assert len({*numbers}) == 3


def drawn():
    import keras
    import numpy as np
    import tensorflow as tf

    own = tf.random.uniform(()), keras.random.uniform(()), np.random.rand()
    return [float(each) for each in own]


def test_looking_starts_no_runtime(warm_python):
    done = warm_python(
        "import unidev, json, tensorflow as tf\n"
        "unidev.set_backend('tensorflow')\n"
        "found = [str(d) for d in unidev.list_devices()]\n"
        "unidev.cpu(), unidev.try_gpu(), unidev.try_all_gpus(), unidev.as_device('/CPU:0').name\n"
        "unidev.num_gpus(), unidev.synchronize()\n"
        "from tensorflow.python.eager import context\n"
        "assert not context.context()._initialized\n"
        "cpu = tf.config.list_physical_devices('CPU')[0]\n"
        "split = [tf.config.LogicalDeviceConfiguration()] * 3\n"
        "tf.config.set_logical_device_configuration(cpu, split)\n"
        "later = [str(d) for d in unidev.list_devices() if d.kind == 'cpu']\n"
        "x = unidev.ones(3, device='cpu:2')\n"
        "print(json.dumps([found[0], later, x.device]))"
    )
    expected = ["cpu:0", "cpu:1", "cpu:2"]
    assert result(done) == ["cpu:0", expected, "/job:localhost/replica:0/task:0/device:CPU:2"]


def test_simulating_after_the_runtime_has_started_says_what_to_do(warm_python):
    done = warm_python(
        "import tensorflow as tf; tf.ones(3)\nimport unidev\nunidev.set_backend('tensorflow')",
        UNIDEV_SIMULATE="2",
    )
    assert done.returncode == 1
    assert "SimulationError: too late for 2 simulated GPUs" in done.stderr


def test_simulating_over_a_split_of_the_programs_own_says_what_to_do(warm_python):
    program = (
        "import tensorflow as tf\n"
        "cpu = tf.config.list_physical_devices('CPU')[0]\n"
        "split = [tf.config.LogicalDeviceConfiguration()] * 3\n"
        "tf.config.set_logical_device_configuration(cpu, split)\n"
        "import unidev\nunidev.set_backend('tensorflow'); print(unidev.num_gpus())"
    )
    fitting = warm_python(program, UNIDEV_SIMULATE="2")
    assert fitting.stdout.strip() == "2", fitting.stderr[-2000:]
    done = warm_python(program, UNIDEV_SIMULATE="3")
    assert done.returncode == 1
    assert "this program has configured 3" in done.stderr


def test_sixty_four_devices_work(warm_python):
    done = warm_python(
        "import unidev, json\nunidev.set_backend('tensorflow')\n"
        "x = unidev.ones(3, device='gpu:63')\n"
        "print(json.dumps([unidev.num_gpus(), str(unidev.device_of(x))]))",
        UNIDEV_SIMULATE="64",
    )
    assert result(done) == [64, "gpu:63"]
