"""``visible_gpus``: by a made-up nvidia-ml-py, by the drivers' files, and by none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_nvml import FakeNvml

from unidev.contract import visible_gpus
from unidev.system import machine, nvml
from unidev.system.visible import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Setting = Callable[..., None]


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Setting:
    """Puts files, a module and variables in the place of the machine's own."""

    def put(
        module: FakeNvml | None = None, system: str = "Linux", /, *files: str, **variables: str
    ) -> None:
        for path in files:
            name, _, content = path.partition("=")
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        for name in {each for names in VARIABLES.values() for each in names}:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(nvml, "import_nvml", lambda: module)
        monkeypatch.setattr(machine, "_ROOT", tmp_path)
        monkeypatch.setattr(machine.platform, "system", lambda: system)
        machine._driver_counts.cache_clear()

    yield put
    machine._driver_counts.cache_clear()


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (None, 3), ("", 0), ("-1", 0), ("1", 1), ("2,0", 2), ("0,7,1", 1), ("GPU-3", 1),
        ("GPU-9", 0), ("1,1", 0), ("0,1,2", 3),
    ],
)  # fmt: skip
def test_the_environment_is_read_as_cuda_reads_it(
    setting: Setting, value: str | None, count: int
) -> None:
    module = FakeNvml(gpus=3)
    setting(module, **({} if value is None else {"CUDA_VISIBLE_DEVICES": value}))
    assert visible_gpus("cuda") == count
    assert not module.is_open


def test_the_environment_is_read_at_each_call_and_the_driver_once(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = FakeNvml(gpus=3)
    setting(module)
    assert visible_gpus("cuda") == 3
    module.gpus = 5
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert visible_gpus("cuda") == 1
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert visible_gpus("cuda") == 3


@pytest.mark.parametrize(
    ("cards", "variables"),
    [(2, {}), (1, {"CUDA_VISIBLE_DEVICES": "MIG-1"}), (2, {"CUDA_VISIBLE_DEVICES": "0,1"})],
)
def test_of_divided_cards_there_is_one(
    setting: Setting, cards: int, variables: dict[str, str]
) -> None:
    setting(FakeNvml(gpus=cards, mig=1), **variables)
    assert visible_gpus("cuda") == 1


def test_a_lost_card_counts_as_it_does_for_the_driver(setting: Setting) -> None:
    setting(FakeNvml(gpus=3, broken={1: ("name", FakeNvml.NVML_ERROR_GPU_IS_LOST)}))
    assert visible_gpus("cuda") == 3


FILES = (
    "proc/driver/nvidia/gpus/0000:01:00.0/information=Model: A\nGPU UUID:  GPU-aa\n",
    "proc/driver/nvidia/gpus/0000:02:00.0/information=Model: A\nGPU UUID:  GPU-bb\n",
)


@pytest.mark.parametrize("module", [None, FakeNvml(init=9)])
@pytest.mark.parametrize(("value", "count"), [("0,1", 2), ("GPU-bb", 1), ("3", 0)])
def test_without_nvidia_ml_py_the_files_of_the_driver_count(
    setting: Setting, module: FakeNvml | None, value: str, count: int
) -> None:
    setting(module, "Linux", *FILES, CUDA_VISIBLE_DEVICES=value)
    assert visible_gpus("cuda") == count


@pytest.mark.parametrize(
    ("system", "files", "count"),
    [("Linux", (), 0), ("Darwin", (), 0), ("Windows", (), None), ("Linux", ("dev/dxg",), None)],
)
def test_without_either_there_is_none_or_it_is_unknown(
    setting: Setting, system: str, files: tuple[str, ...], count: int | None
) -> None:
    setting(None, system, *files)
    assert visible_gpus("cuda") == count


def test_gpus_of_rocm_are_counted_by_the_kernel_driver(setting: Setting) -> None:
    nodes = "sys/class/kfd/kfd/topology/nodes/"
    setting(
        None, "Linux",
        f"{nodes}0/properties=gfx_target_version 0",
        f"{nodes}1/properties=gfx_target_version 90010\nunique_id 5",
        f"{nodes}2/properties=gfx_target_version 90010\nunique_id 6",
    )  # fmt: skip
    assert visible_gpus("rocm") == 2
    setting(None, "Linux", ROCR_VISIBLE_DEVICES="1", HIP_VISIBLE_DEVICES="0")
    assert visible_gpus("rocm") == 1
    setting(None, "Linux", ROCR_VISIBLE_DEVICES="1", HIP_VISIBLE_DEVICES="1")
    assert visible_gpus("rocm") == 0


def test_the_count_of_another_accelerator_is_unknown(setting: Setting) -> None:
    setting()
    assert visible_gpus("tpu") is None
