"""``unidev bench --only``: the timed parts of the programs of ``docs/questions.md``."""

from __future__ import annotations

import pytest
from bench_samples import CPU, GPU, bench, timed
from click.testing import CliRunner

from unidev.backends.loading import load_backend
from unidev.bench import running
from unidev.bench.findings import findings
from unidev.bench.measuring import Effort
from unidev.bench.results import IMAGES, JACOBIAN, ODE, PROGRAMS, Result
from unidev.bench.running import run
from unidev.cli import cli


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "QUICK", Effort(budget_s=1e-3, most=3, least=3, few=1))


def measured(only):
    return run(load_backend("numpy"), is_full=False, progress=lambda *_: None, only=only)


def test_only_what_is_named_is_measured(brief: None, two_gpus: None) -> None:
    found = measured((ODE, IMAGES))
    assert {each.subject for each in found.results} == {ODE, IMAGES}
    assert {each.device for each in found.results} == {"cpu:0"}  # the GPUs are simulated
    reasons = {each.reason for each in found.results}
    assert reasons == {"autograd is not supported: NumPy has no autograd"}


def test_forward_mode_needs_no_autograd(brief: None) -> None:
    timed = [each.what for each in measured((JACOBIAN,)).results if each.summary]
    assert timed == [
        f"forward mode of a Jacobian, 1 to 20 to 20 to 400, at a batch of {batch}"
        for batch in ("100", "1,000")
    ]


def test_programs_have_more_than_two_minutes(brief: None, monkeypatch) -> None:
    monkeypatch.setattr(running, "QUICK_S", -1.0)
    found = measured(PROGRAMS)
    assert "out of time: --limit allows more" not in {each.reason for each in found.results}


@pytest.mark.parametrize(
    ("gpu_s", "said"),
    [(0.1, "is 10 times as fast as cpu:0 (100 ms against 1 s)."),
     (5.0, "takes 5 times as long as cpu:0 (5 s against 1 s).")],
)  # fmt: skip
def test_a_gpu_is_compared_with_the_cpu(gpu_s: float, said: str) -> None:
    results = [
        Result(subject=ODE, what="a gradient", device=device, summary=timed(seconds))
        for device, seconds in (("cpu:0", 1.0), ("gpu:0", gpu_s))
    ]
    assert findings(bench((CPU, GPU), results)) == [f"gpu:0, a gradient: {said}"]


@pytest.mark.parametrize("name", ["floor", "", "ode,odd"])
def test_a_name_that_is_no_program_is_an_error(name: str) -> None:
    done = CliRunner().invoke(cli, ["bench", "--only", name])
    assert done.exit_code == 2
    assert (
        f"there is no {name.rsplit(',', maxsplit=1)[-1]!r}; there are ode, jacobian, images"
        in done.output
    )
