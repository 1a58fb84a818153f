from __future__ import annotations

import os

import pytest

import unidev
from unidev.backends.simulation import simulated_count


@pytest.mark.parametrize("count", [1, 2, 64])
def test_so_many_gpus_are_simulated_as_are_asked_for(run_python, count: int) -> None:
    program = "import unidev; print(*unidev.list_devices(), unidev.gpu().is_simulated)"
    expected = " ".join(["cpu:0", *(f"gpu:{index}" for index in range(count)), "True"])
    assert run_python(program, UNIDEV_SIMULATE=str(count)) == expected
    assert run_python(f"import unidev; unidev.simulate({count}); {program}") == expected


@pytest.mark.parametrize("text", ["0", "", " "])
def test_none_are_simulated_where_none_are_asked_for(monkeypatch, text: str) -> None:
    monkeypatch.setenv("UNIDEV_SIMULATE", text)
    assert simulated_count() == 0


@pytest.mark.parametrize("text", ["65", "-1", "two", "2.0", "1e1", "\u0662", "9" * 5000, "+2"])
def test_a_variable_out_of_range_is_an_error_and_no_fallback(
    nothing_loaded, monkeypatch, text: str
) -> None:
    monkeypatch.setenv("UNIDEV_SIMULATE", text)
    with pytest.raises(unidev.SimulationError, match=r"UNIDEV_SIMULATE: .* from 0 to 64, not '"):
        unidev.cpu()


@pytest.mark.parametrize("count", [0, 65, -1, True, 2.0, "2", None])
def test_a_count_out_of_range_is_an_error_and_changes_nothing(nothing_loaded, count) -> None:
    with pytest.raises(unidev.SimulationError, match="from 1 to 64") as caught:
        unidev.simulate(count)
    assert f"not {count!r}." in str(caught.value)
    assert "UNIDEV_SIMULATE" not in os.environ
    assert unidev.num_gpus() == 0


def test_asking_after_a_backend_was_used_is_an_error_that_says_what_to_do(nothing_loaded) -> None:
    unidev.zeros(3)
    with pytest.raises(
        unidev.SimulationError, match=r"'numpy' is already in use with no"
    ) as caught:
        unidev.simulate(2)
    assert "start Python with UNIDEV_SIMULATE=2" in str(caught.value)
    assert "UNIDEV_SIMULATE" not in os.environ


def test_asking_again_for_as_many_is_no_error(two_gpus: None) -> None:
    unidev.zeros(3)
    unidev.simulate(2)
    with pytest.raises(unidev.SimulationError, match="with 2 simulated GPUs"):
        unidev.simulate(3)
    assert unidev.num_gpus() == 2


def test_spawned_children_inherit_what_was_asked_for(run_python, tmp_path) -> None:
    (tmp_path / "program.py").write_text(
        "import multiprocessing, unidev\n"
        "def child(x):\n"
        "    return unidev.num_gpus(), unidev.device_of(x), unidev.to_numpy(x).tolist(), x\n"
        "def main():\n"
        "    unidev.simulate(3)\n"
        "    x = unidev.arange(2, device='gpu:2')\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        gpus, device, values, y = pool.apply(child, (x,))\n"
        "    print(gpus, device is unidev.gpu(2), values, unidev.device_of(y) is device)\n"
    )
    said = run_python("import program\nif __name__ == '__main__':\n    program.main()")
    assert said == "3 True [0, 1] True"
