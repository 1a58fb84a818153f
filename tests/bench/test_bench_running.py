"""What `unidev bench` runs: every subject, on real devices alone."""

from __future__ import annotations

import pytest

import unidev
from unidev.backends.loading import load_backend
from unidev.bench import running, tasks, textbook
from unidev.bench.results import BANDWIDTH, FLOOR, PRODUCT, SUM, TEXTBOOK, Result
from unidev.bench.running import Effort, all_tasks, run
from unidev.bench.tasks import Host, numbers
from unidev.device import Device


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """As little of everything as tells whether it works."""
    monkeypatch.setattr(tasks, "MATRIX_SIZES", (8, 16))
    monkeypatch.setattr(tasks, "TRANSFER_SIZES", (1024, 4096))
    monkeypatch.setattr(textbook, "PRODUCTS", 3)
    monkeypatch.setattr(running, "QUICK", Effort(budget_s=1e-3, most=3, least=3, few=1))


def silent(*_: object) -> None:
    pass


def test_everything_is_timed_or_says_why_not(brief: None) -> None:
    told = []
    bench = run(load_backend("numpy"), is_full=False, progress=lambda *said: told.append(said))
    assert {each.subject for each in bench.results} == {FLOOR, BANDWIDTH, PRODUCT, SUM, TEXTBOOK}
    assert [said[0] for said in told] == list(range(len(bench.results)))
    for each in bench.results:
        assert (each.summary is None) != (each.reason is None), each
        if each.summary is not None:
            assert 0 < each.summary.low_s <= each.summary.median_s <= each.summary.high_s < 10
    reasons = {each.reason for each in bench.results if each.reason is not None}
    assert reasons == {"two devices at once is not supported: cpu:0 is the only real device"}
    assert (bench.backend, bench.gpus, bench.cores >= 1) == ("numpy", [], True)


def test_a_simulated_device_is_named_and_never_timed(two_gpus: None, brief: None) -> None:
    bench = run(load_backend("numpy"), is_full=False, progress=silent)
    assert [each.device for each in bench.simulated] == ["gpu:0", "gpu:1"]
    assert [each.device for each in bench.real] == ["cpu:0"]
    assert not [each for each in bench.results if "gpu" in each.device]


def test_what_time_is_too_short_for_is_left_out_and_says_so(brief: None, monkeypatch) -> None:
    monkeypatch.setattr(running, "QUICK_S", -1.0)
    bench = run(load_backend("numpy"), is_full=False, progress=silent)
    assert {each.reason for each in bench.results} == {"out of time: --limit allows more"}


def test_what_a_framework_fails_at_is_a_reason_and_the_rest_goes_on(brief, monkeypatch) -> None:
    def fails(x, y):
        raise RuntimeError("no kernel for this")

    monkeypatch.setattr(tasks, "OPERATIONS", [(PRODUCT, "x @ y", fails), *tasks.OPERATIONS[1:]])
    bench = run(load_backend("numpy"), is_full=False, progress=silent)
    for each in bench.find(PRODUCT):
        assert (
            each.reason
            == "numpy failed while running x @ y on cpu:0. RuntimeError: no kernel for this"
        )
    assert all(each.summary for each in bench.find(SUM))


# -- routes and devices of a machine with GPUs; prepared on simulated ones, never timed ------------


@pytest.fixture
def host(two_gpus: None) -> Host:
    return Host(load_backend("numpy"), unidev.list_devices())


def test_bytes_go_every_way_and_from_pinned_memory_to_gpus(host: Host) -> None:
    made = [each for each in tasks.transfer_tasks(host) if each.size == 1024]
    assert {(each.device, each.variant) for each in made} == {
        ("cpu:0 to cpu:0", "from pageable memory"),
        ("cpu:0 to gpu:0", "from pinned memory"),
        *((f"cpu:0 to gpu:{i}", "from pageable memory") for i in (0, 1)),
        *((f"gpu:{i} to cpu:0", "from pageable memory") for i in (0, 1)),
        *((f"gpu:{i} to gpu:{j}", "from pageable memory") for i, j in ((0, 0), (0, 1), (1, 0))),
    }  # fmt: skip
    assert [tasks.TRANSFER_SIZES[0], tasks.TRANSFER_SIZES[-1]] == [2**10, 2**28]


def test_routes_grow_with_the_number_of_gpus_and_not_with_its_square(host: Host) -> None:
    def routes(count: int) -> int:
        few = Host(host.backend, [host.cpu, *(Device("numpy", "gpu", i) for i in range(count))])
        return sum(each.size == 1024 for each in tasks.transfer_tasks(few))

    counts = [routes(count) for count in (0, 1, 2, 8)]
    assert counts == [1, 5, 9, 33]


def test_a_transfer_is_charged_to_its_gpu_and_the_others_to_their_devices(host: Host) -> None:
    payers = {each.device: str(each.payer) for each in all_tasks(host) if "and" not in each.device}
    assert payers == {
        "cpu:0": "cpu:0", "gpu:0": "gpu:0", "gpu:1": "gpu:1", "cpu:0 to cpu:0": "cpu:0",
        "cpu:0 to gpu:0": "gpu:0", "gpu:0 to cpu:0": "gpu:0", "gpu:0 to gpu:0": "gpu:0",
        "cpu:0 to gpu:1": "gpu:1", "gpu:1 to cpu:0": "gpu:1", "gpu:0 to gpu:1": "gpu:1",
        "gpu:1 to gpu:0": "gpu:1",
    }  # fmt: skip


def test_each_device_has_a_time_of_its_own(two_gpus: None, monkeypatch) -> None:
    """A task of the first GPU's takes a minute, and leaves the other's time alone."""
    now, late = [0.0], {"cpu:0": [], "gpu:0": [], "gpu:1": []}

    def result(task, backend, *, is_full, is_late):
        late[str(task.payer)].append(is_late)
        now[0] += 60.0 if str(task.payer) == "gpu:0" and not is_late else 1e-3
        return Result(subject=task.subject, what=task.what, device=task.device, reason="made up")

    monkeypatch.setattr(Device, "is_simulated", False)
    monkeypatch.setattr(running, "_result", result)
    monkeypatch.setattr(running.time, "monotonic", lambda: now[0])
    run(load_backend("numpy"), is_full=False, progress=silent)
    assert late["gpu:0"][:3] == [False, False, True]  # 80 seconds are over after two
    assert all(late["gpu:0"][3:])
    assert not any(late["gpu:1"])
    assert not any(late["cpu:0"])


def test_the_time_of_each_device_can_be_given(brief: None) -> None:
    bench = run(load_backend("numpy"), is_full=True, limit_s=-1.0, progress=silent)
    assert {each.reason for each in bench.results} == {"out of time: --limit allows more"}


def test_the_data_is_random_and_differs_from_tensor_to_tensor(host: Host) -> None:
    x, y = (unidev.to_numpy(host.make((300, 500), unidev.gpu(1))) for _ in range(2))
    assert x.dtype == "float32"
    assert -1 <= x.min() < -0.99
    assert 0.99 < x.max() <= 1
    assert len({row.tobytes() for row in x}) == 300
    assert not (x == y).any()
    large = numbers((2000, 1024), 1)
    assert len({row.tobytes() for row in large}) == 2000  # though the block repeats


def test_matrices_are_of_8_to_4096_rows_with_and_without_the_journey(host: Host) -> None:
    made = list(tasks.matrix_tasks(host))
    assert sorted({each.size or 0 for each in made})[0::9] == [8, 4096]
    assert {(each.device, each.variant) for each in made} == {
        ("cpu:0", "on the device"),
        *((f"gpu:{i}", way) for i in (0, 1) for way in ("on the device", "with the journey")),
    }


def test_every_task_on_gpus_runs_or_says_why_not(host: Host, brief: None) -> None:
    said = set()
    for task in all_tasks(host):
        with task.scope:
            try:
                task.prepare()()
            except unidev.UnsupportedOperation as error:
                said.add(str(error))
    assert said == {"pinned is not supported: NumPy does not use GPUs, which pinned memory is for"}


def test_the_norms_that_are_logged_are_frobenius_norms(host, brief, monkeypatch) -> None:
    gpu = unidev.gpu(1)
    monkeypatch.setattr(Host, "make", lambda self, shape, at: self.filled(shape, 0.5, at))
    logged, kept = (
        task.prepare()
        for task in textbook.tasks(host)
        if task.device == str(gpu)
    )  # fmt: skip
    # Of 100 by 100 halves: each of 10,000 elements of the product is 100 / 4.
    with gpu:
        assert logged() == [pytest.approx(2500)] * 3
        assert kept() == pytest.approx(7500)


def test_two_devices_at_once_are_two_gpus_else_the_gpu_and_the_cpu(host: Host) -> None:
    both = [each.device for each in textbook.tasks(host) if " and " in each.device]
    assert both == ["gpu:0 and gpu:1"] * 2
    one = Host(host.backend, host.devices[:2])
    assert [each.device for each in textbook.tasks(one)][-1] == "gpu:0 and cpu:0"


def test_the_largest_sizes_are_measured_last(host: Host) -> None:
    sizes = [each.size for each in all_tasks(host) if each.subject == BANDWIDTH]
    assert sizes == sorted(sizes)
    assert next(all_tasks(host)).subject == FLOOR
