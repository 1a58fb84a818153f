"""The steps of ``gpu_report.py``: cheap and telling ones first.

What the profiles of ``unidev conform`` prove on real GPUs has no step of its own: copies of any
dtype, layout and route, memory, contexts, models.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[1]
HARDWARE = "simulated devices cannot show it"


class ReportError(ValueError):
    """A file that is not a report, or is the report of something else."""


@dataclass(frozen=True)
class Step:
    """A program, how long it may take, and what it needs."""

    name: str
    """``subject.what``."""
    words: tuple[str, ...]
    """After the interpreter; ``{backend}`` is the framework's, ``{out}`` the name of its files."""
    limit_s: float = 660.0
    least: int = 1
    """How many GPUs it needs."""
    needs: tuple[str, ...] = ()
    """Modules without which it does not run."""
    visible: str | None = None
    """How ``CUDA_VISIBLE_DEVICES`` is set: see ``visible``."""
    short: tuple[str, ...] | None = ()
    """Further words in the short report; None: it is not part of that."""
    is_simulated_too: bool = False
    """Whether it shows anything without real GPUs."""


_SHORT = {
    "tensor": ("--only", "copy,pinned,queued,statistics,scarcity,contexts"),
    "train": ("--only", "placing,value_and_grad,model_gradients"),
    "multi": None, "interop": None,
}  # fmt: skip
"""Profiles, and the groups of them in the short report: those about memory and the bus."""
_DIGITS, _PLOTS = ("sklearn",), ("matplotlib",)
_EXAMPLES: dict[str, tuple[int, tuple[str, ...]]] = {
    "use_gpu": (1, ()), "place_model": (1, ()), "logging_the_loss": (1, ()),
    "own_optimizer": (2, _DIGITS), "train_digits": (1, (*_DIGITS, *_PLOTS, "rich")),
    "why_is_my_gpu_slow": (1, ()), "checkpoint_across": (1, _DIGITS),
    "model_parallel": (2, _DIGITS), "multi_gpu": (2, _DIGITS),
    "multi_gpu_from_scratch": (2, (*_DIGITS, *_PLOTS)), "neural_ode": (1, ()), "jacobian": (1, ()),
    "cpu_or_gpu": (1, ()), "resnet": (1, ()), "batch_size": (1, _PLOTS),
    "many_machines": (2, _DIGITS),
}  # fmt: skip
"""The number of GPUs and the modules that each example needs."""
_BENCHMARKS = ("memcpy", "overhead", "copies", "batches", "interop", "models", "parallel")


def _conform(name: str, *words: str, short: tuple[str, ...] | None, **given: Any) -> Step:
    command = ("-m", "unidev_conformance", "{backend}", "--report", "{out}.json", *words)
    needs = ("pytest", "hypothesis")
    return Step(f"conform.{name}", command, 1800.0, needs=needs, short=short, **given)


def _steps() -> Iterator[Step]:
    """Cheap and telling ones first."""
    yield Step("doctor.healthy", ("-m", "unidev", "doctor", "--json", "--backend", "{backend}"))
    yield _conform("hardware", "--profile", "hardware", short=())
    yield Step("orders.streams", (str(ROOT / "tools/orders_of_streams.py"),), needs=("torch",))
    for name, (least, needs) in _EXAMPLES.items():
        file = str(ROOT / f"examples/{name}.py")
        yield Step(f"examples.{name}", (file,), least=least, needs=needs, is_simulated_too=True)
    for name, short in _SHORT.items():
        words = ("--profile", name, "--simulate")
        yield _conform(f"{name}_real", *words, "0", short=short)
        yield _conform(f"{name}_simulated", *words, "2", short=None, is_simulated_too=True)
    for how, least in {"empty": 1, "index": 1, "reordered": 2, "uuid": 1}.items():
        yield _conform(
            f"visible_{how}", "--simulate", "0", short=("--only", "devices,smoke"),
            visible=how, least=least,
        )  # fmt: skip
    bench = (
        "-m",
        "unidev",
        "bench",
        "--backend",
        "{backend}",
        "--json",
        "--full",
        "--limit",
        "200",
    )
    yield Step("bench.table", bench, 3600.0, short=None)
    for name in _BENCHMARKS:
        file = str(ROOT / f"benchmarks/{name}.py")
        yield Step(
            f"benchmarks.{name}", (file, "--backend", "{backend}", "--device", "gpu:0"),
            least=8 if name == "parallel" else 1, short=() if name == "memcpy" else None,
        )  # fmt: skip


STEPS = {step.name: step for step in _steps()}


def planned(*, is_short: bool) -> list[str]:
    """The names of the steps of the complete or the short report."""
    return [step.name for step in STEPS.values() if step.short is not None or not is_short]


def visible(how: str, machine: Mapping[str, Sequence[str]]) -> tuple[str, int] | None:
    """A value of ``CUDA_VISIBLE_DEVICES``, and how many GPUs it shows; None: there is no UUID."""
    if how == "uuid":
        return (machine["uuids"][0], 1) if machine["uuids"] else None
    count = len(machine["devices"])
    every = ",".join(map(str, reversed(range(count))))
    return {"empty": ("", 0), "index": (str(count - 1), 1), "reordered": (every, count)}[how]


def read_list(file: Path) -> dict[str, str]:
    """Steps that cannot run on a stand-in for a GPU, and the reasons: lines ``STEP: REASON``.

    Raises:
        OSError: the file cannot be read.
        ReportError: a line has no reason, or names a step that does not exist.
    """
    found = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.partition("#")[0].strip()
        name, _, reason = (part.strip() for part in text.partition(":"))
        if text and (not reason or name not in STEPS):
            raise ReportError(f"{file}, line {number}: not a step and a reason: {text!r}")
        if text:
            found[name] = reason
    return found


def chosen(only: Sequence[str], names: Sequence[str]) -> list[str]:
    """The steps to run: those named, those of a named subject, or all."""
    found = [x for x in names if not only or x in only or x.partition(".")[0] in only]
    if not found:
        raise ReportError(f"no step is called {' or '.join(only)}; see --list")
    return found
