"""The error of `unidev.gpu()` where there is no GPU: why, and what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from doctor_cases import EMPTY, FOR_THE_CPU, UNDRIVEN, WORKING

import unidev
from unidev.contract.installation import Installation
from unidev.doctor import brief
from unidev.system.facts import NO_ANSWER, Driver


@pytest.fixture
def on(monkeypatch):
    """Makes this machine look like another, and NumPy like a framework that uses GPUs."""

    def become(machine, build=lambda: FOR_THE_CPU):
        class Installed(Installation):
            def build(self):
                return build()

        # A property wins over what the instance has cached.
        kind = type(unidev.active_backend())
        monkeypatch.setattr(kind, "installation", property(Installed))
        monkeypatch.setattr(brief, "_machine", lambda: machine)

    return become


def refusal(index: int = 0) -> str:
    with pytest.raises(unidev.DeviceNotFoundError) as caught:
        unidev.gpu(index)
    return str(caught.value)


def test_the_error_names_the_first_cause_its_remedy_and_the_doctor(on) -> None:
    on(EMPTY)
    assert refusal().endswith(
        "Why: This machine has no GPU. Run on a machine with a GPU; virtual machines must have one "
        "assigned to them. For details, run `unidev doctor`."
    )


def test_a_command_is_given_as_it_is_to_be_typed(on) -> None:
    on(WORKING)
    assert refusal().endswith(
        "Why: numpy is a CPU-only build. Install its build for CUDA 12.6: "
        "`pip install torch-cu126`. For details, run `unidev doctor`."
    )
    on(UNDRIVEN)
    assert "`sudo ubuntu-drivers install && sudo reboot`" in refusal()


def test_the_environment_is_read_anew_each_time(on, monkeypatch) -> None:
    on(WORKING)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES hides every GPU" in refusal()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert "CUDA_VISIBLE_DEVICES" not in refusal()


def test_numpy_is_told_as_the_cause_where_there_are_gpus(monkeypatch) -> None:
    monkeypatch.setattr(brief, "_machine", lambda: WORKING)
    assert "There is no build of numpy with GPU support." in refusal()


def test_one_gpu_too_many_is_no_case_for_the_doctor(two_gpus) -> None:
    assert "doctor" not in refusal(2)


def test_whatever_goes_wrong_the_error_itself_comes(on) -> None:
    def broken():
        raise RuntimeError("a stranger's backend")

    on(WORKING, broken)
    assert refusal().endswith("simulates GPUs. Run `unidev doctor` to find out why.")


def test_a_driver_that_takes_too_long_is_left_to_the_doctor(monkeypatch) -> None:
    silent = replace(WORKING, drivers=(Driver("cuda", NO_ANSWER, "no answer within 3 s"),))
    waited = []
    monkeypatch.setattr(brief, "read_machine", lambda _, *, wait_s: waited.append(wait_s) or silent)
    brief._machine.cache_clear()
    for _ in range(3):
        assert refusal().endswith("Run `unidev doctor` to find out why.")
    brief._machine.cache_clear()
    assert waited == [3.0]


def test_nothing_to_find_still_points_to_the_doctor(monkeypatch) -> None:
    backend = unidev.active_backend()
    monkeypatch.setattr(brief, "_first", lambda _: None)
    assert brief.why_no_gpu(backend) == "Run `unidev doctor` to find out why."


def test_the_machine_is_looked_at_once_and_no_process_is_started(run_python) -> None:
    said = run_python(
        """
        import os, subprocess, sys, time
        def refused(*_, **__):
            raise AssertionError("a process")
        subprocess.Popen = os.fork = os.posix_spawn = refused
        import unidev
        from unidev.system import machine
        times = []
        read = machine._pci
        machine._pci = lambda bus: times.append(1) or read(bus)
        for _ in range(3):
            try:
                unidev.gpu()
            except unidev.DeviceNotFoundError as error:
                print("doctor" in str(error))
        print(len(times), "rich" in sys.modules, "click" in sys.modules)
        """
    )
    assert said.split() == ["True", "True", "True", "1", "False", "False"]


def test_where_there_is_no_command_there_is_the_frameworks_page(on) -> None:
    on(WORKING, lambda: replace(FOR_THE_CPU, wheels=FOR_THE_CPU.wheels[2:]))
    assert (
        "own page: https://pytorch.org/get-started/locally/ For details, run `unidev" in refusal()
    )
