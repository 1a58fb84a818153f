from __future__ import annotations

import inspect
import pickle

import pytest

import unidev
from unidev import errors
from unidev.backends.framework_errors import framework_error
from unidev.backends.loading import load_backend
from unidev.system.wording import shown

CLASSES = [
    cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, unidev.UnidevError)
]


def test_every_error_is_public() -> None:
    assert {cls.__name__ for cls in CLASSES} <= set(unidev.__all__)


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_survives_the_way_back_from_a_worker_process(cls: type[Exception]) -> None:
    made = {
        unidev.UnsupportedOperation: lambda: cls("what", "why", "link"),
        unidev.WorkerFailedError: lambda: cls("message", rank=1, host="here", output=["a line"]),
    }
    error = made.get(cls, lambda: cls("message"))()
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is cls
    assert (str(back), vars(back)) == (str(error), vars(error))


def test_what_an_error_says_stands_in_its_attributes() -> None:
    error = pickle.loads(pickle.dumps(unidev.DeviceMismatchError("m", devices={"x": unidev.cpu()})))
    assert error.devices == {"x": unidev.cpu()}
    assert pickle.loads(pickle.dumps(unidev.BackendError("m", backend="b"))).backend == "b"
    assert unidev.DeviceSpecError("m", spec=5).spec == 5
    unsupported = unidev.UnsupportedOperation("flying", "no wings", "https://example.org")
    assert str(unsupported) == "flying is not supported: no wings (https://example.org)"
    assert (unsupported.operation, unsupported.reason) == ("flying", "no wings")


@pytest.mark.parametrize(
    ("error", "cls"),
    [
        (MemoryError(), unidev.OutOfDeviceMemoryError),
        (RuntimeError("CUDA Out Of Memory"), unidev.OutOfDeviceMemoryError),
        (RuntimeError("bad"), unidev.FrameworkError),
    ],
)
def test_what_a_framework_raises_is_told_with_its_type(error: Exception, cls: type) -> None:
    made = framework_error(error, "torch", "a copy")
    assert type(made) is cls
    assert type(error).__name__ in str(made)
    assert "torch" in str(made)
    assert "a copy" in str(made)


class Mute:
    def __repr__(self) -> str:
        raise ZeroDivisionError


def test_whatever_is_shown_in_a_message_is_short_and_never_raises() -> None:
    circular: list[object] = []
    circular.append(circular)
    assert shown("a") == "'a'"
    assert shown([1, 2]) == "[1, 2]"
    assert shown(10**5000) == "<int>"
    for value in ("x" * 10**6, [Mute()] * 1000, circular, Mute(), {"a": [[[["b" * 500]]]]}):
        assert 0 < len(shown(value)) < 700
    assert "Mute" in shown(Mute())


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_says_in_a_line_what_it_is(cls: type) -> None:
    assert (inspect.getdoc(cls) or "").splitlines()[0].endswith((".", "else."))


@pytest.mark.parametrize(
    "said",
    [
        "CUDA out of memory. Tried to allocate 2 GiB",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "HIP error: hipErrorOutOfMemory",
        "CUDA error: cudaErrorMemoryAllocation",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "failed to create cublas handle: the resource allocation failed",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
        "ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY",
    ],
)
def test_the_vendors_words_for_no_memory_are_known(said) -> None:
    error = framework_error(RuntimeError(said), "theirs", "making a tensor")
    assert isinstance(error, unidev.OutOfDeviceMemoryError)
    assert said in str(error)


@pytest.mark.parametrize(
    "said",
    [
        "CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle)`",
        "CUDA error: an illegal memory access was encountered",
        "index 3 is out of bounds for dimension 0",
        "out of resource: shared memory, Required: 131072, Hardware limit: 101376",
        "Dst tensor is not initialized.",
        "Create cublas handle failed",
        "DefaultCPUAllocator: can't allocate memory",
        "RESOURCE_EXHAUSTED: OOM when allocating",
        "",
    ],
)
def test_other_failures_of_a_gpu_are_not_lack_of_memory(said) -> None:
    error = framework_error(RuntimeError(said), "theirs", "making a tensor")
    assert type(error) is unidev.FrameworkError


def test_a_backend_adds_its_own_words_for_no_memory(monkeypatch) -> None:
    backend = load_backend("numpy")
    said = RuntimeError("Check failed: THE_POOL has run dry")
    assert type(framework_error(said, "numpy", "a copy")) is unidev.FrameworkError
    monkeypatch.setattr(backend, "out_of_memory_words", ("the pool has run dry",))
    assert type(framework_error(said, "numpy", "a copy")) is unidev.OutOfDeviceMemoryError
    assert type(framework_error(said, "theirs", "a copy")) is unidev.FrameworkError
