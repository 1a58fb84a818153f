"""Contexts as devices."""

import copy
import pickle

import mxnet as mx
import pytest
from turns import in_threads

import unidev
from unidev import DeletedTensorError, DeviceSpecError, UnsupportedOperation
from unidev.backends import driver_memory
from unidev.contract import Build
from unidev.system.facts import NO_LIBRARY, WORKS, Driver, Gpu
from unidev_mxnet.installation import MxnetInstallation


def current():
    return mx.context.current_context()


def test_without_simulation_mx_cpu_1_is_not_there(python):
    done = python(
        "import unidev\n"
        "backend = unidev.active_backend()\n"
        "import mxnet as mx\n"
        "assert [str(d) for d in unidev.list_devices()] == ['cpu:0']\n"
        "assert unidev.try_gpu().kind == 'cpu' and backend.parse_native('gpu(1)') == ('gpu', 1)\n"
        "for spec in (mx.cpu(1), 'cpu(1)', mx.gpu(0), 'gpu:0'):\n"
        "    try:\n"
        "        unidev.as_device(spec)\n"
        "    except unidev.DeviceNotFoundError as error:\n"
        "        assert 'cpu:0' in str(error)\n"
        "    else:\n"
        "        raise SystemExit(f'{spec} was taken')\n"
        "assert str(unidev.device_of(mx.np.ones(2, ctx=mx.cpu(5)))) == 'cpu:5'\n"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("spec", ["cpu_pinned(0)", mx.cpu_pinned(), mx.gpu(0), "gpu(0)", "cuda:0"])
def test_what_is_no_place_for_a_tensor_here_is_refused(spec):
    with pytest.raises(DeviceSpecError):
        unidev.as_device(spec)


def test_an_array_on_a_real_gpu_is_not_taken_for_a_simulated_one():
    backend = unidev.active_backend()
    kind, index = 2, 0
    with pytest.raises(UnsupportedOperation, match="UNIDEV_SIMULATE"):
        backend._named_device(kind | index << 32)


def test_a_native_device_is_saved_as_mxnets_own():
    native = unidev.gpu(1).native
    for made in (pickle.loads(pickle.dumps(native)), copy.deepcopy(native)):
        assert type(made) is mx.Context
        assert made == native


def test_many_threads_ask_at_once_and_each_is_told_its_own():
    arrays = [mx.np.ones(2, ctx=mx.cpu(i)) for i in range(5)]
    devices = [unidev.cpu(), *(unidev.gpu(i) for i in range(4))]
    wrong = []

    def ask(i):
        wrong.extend(1 for _ in range(20_000) if unidev.device_of(arrays[i]) is not devices[i])

    in_threads(ask, range(5))
    assert not wrong


def test_an_array_without_memory_is_an_error_and_no_crash():
    none = mx.nd.NDArray(mx.nd.ndarray._new_empty_handle())
    for x in (none, mx.np.ndarray(None), mx.nd.NDArray(mx.base.NDArrayHandle())):
        for ask in (unidev.device_of, unidev.to_numpy, lambda x: unidev.shares_memory(x, x)):
            with pytest.raises(DeletedTensorError):
                ask(x)
        with pytest.raises(DeletedTensorError):
            unidev.copy_to(x, "gpu:0")


def test_cudas_own_failure_to_count_is_an_error_of_unidevs(python):
    done = python(
        "import unidev\n"
        "unidev.active_backend()\n"
        "import mxnet as mx\n"
        "def fail():\n"
        "    raise mx.MXNetError('CUDA: unknown error')\n"
        "mx.context.num_gpus = fail\n"
        "try:\n"
        "    unidev.num_gpus()\n"
        "except unidev.FrameworkError as error:\n"
        "    assert 'unknown error' in str(error)\n"
        "else:\n"
        "    raise SystemExit('no error')\n"
    )
    assert done.returncode == 0, done.stderr


def test_memory_of_a_cpu_is_unsupported_with_the_reason():
    with pytest.raises(UnsupportedOperation, match="does not count"):
        unidev.memory("cpu")
    unidev.synchronize()


def test_a_card_has_the_drivers_name_as_mxnet_has_none(monkeypatch):
    backend, device = unidev.active_backend(), unidev.gpu(0)
    card = Gpu("cuda", 0, "NVIDIA H200")
    monkeypatch.setattr(backend, "simulated_count", 0)
    monkeypatch.setattr(MxnetInstallation, "build", lambda self: Build(accelerator="cuda"))
    monkeypatch.setattr(driver_memory, "ask_nvml", lambda *_: Driver("cuda", WORKS, gpus=(card,)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert device.name == "NVIDIA H200"
    monkeypatch.setattr(driver_memory, "ask_nvml", lambda *_: Driver("cuda", NO_LIBRARY))
    assert device.name == backend.native_name("gpu", 0) == "gpu(0)"
