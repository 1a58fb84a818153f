"""The steps, in the order in which they run: cheap and telling ones first.

Each is a program that a user runs, too, and a reader of what it leaves. What the profiles of
``unidev conform`` prove on real GPUs has no step of its own: copies of any dtype, layout and route
(``copy.*``, ``pinned.*``, ``queued.*``), memory (``statistics.*``, ``scarcity.*``), contexts
(``contexts.*``, ``cards.*``), models (``placing.*``, ``training_sequences.*``, ``moving.*``).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardware_report import reading
from hardware_report.document import ROOT, ReportError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hardware_report.document import Outcome
    from hardware_report.reading import Left

HARDWARE = "simulated devices cannot show it"
_SHORT = "copy,pinned,queued,statistics,scarcity,contexts"
"""Groups of the profile ``tensor`` that are about memory and the bus."""
_LIST = "devices,smoke"
"""Groups that show which devices there are."""


@dataclass(frozen=True)
class Step:
    """One step: a program, how long it may take, and how what it leaves is read."""

    name: str
    """``subject.what``; the subject is a heading of the report."""
    title: str
    words: tuple[str, ...]
    """After the interpreter; ``{backend}`` is the framework's, ``report.json`` in its folder."""
    read: Callable[[Left], Outcome]
    limit_s: float = 660.0
    least: int = 1
    """How many GPUs it needs."""
    needs: tuple[str, ...] = ()
    """Modules without which it does not run."""
    visible: str | None = None
    """How ``CUDA_VISIBLE_DEVICES`` is set: one of ``VISIBLE``."""
    short: tuple[str, ...] | None = ()
    """Further words in the short report; None: it is not part of that."""
    is_simulated_too: bool = False
    """Whether it shows anything without real GPUs."""

    def command(self, backend: str, *, is_short: bool) -> list[str]:
        """The command line."""
        words = [*self.words, *((self.short or ()) if is_short else ())]
        return [sys.executable, "-X", "faulthandler", *(w.format(backend=backend) for w in words)]


VISIBLE = {
    "empty": "none", "index": "one, by its index", "reordered": "all, in reverse order",
    "uuid": "one, by its UUID",
}  # fmt: skip


def _conform(
    name: str, title: str, *more: str, short: tuple[str, ...] | None = None, **given: object
) -> Step:
    words = ("-m", "unidev", "conform", "{backend}", "--report", "report.json", *more)
    return Step(
        f"conform.{name}", title, words, reading.conformance, 1800.0,
        needs=("pytest", "hypothesis"), short=short, **given,  # type: ignore[arg-type]
    )  # fmt: skip


def _suite() -> Iterator[Step]:
    real: dict[str, tuple[str, ...] | None] = {
        "tensor": ("--only", _SHORT), "train": ("--only", "placing,value_and_grad"),
        "multi": None, "interop": None,
    }  # fmt: skip
    for profile, short in real.items():
        chosen = ("--profile", profile, "--simulate")
        title = f"The profile {profile}"
        yield _conform(f"{profile}_real", f"{title} on the real GPUs", *chosen, "0", short=short)
        yield _conform(
            f"{profile}_simulated", f"{title} on two simulated GPUs", *chosen, "2",
            is_simulated_too=True,
        )  # fmt: skip
    for how, what in VISIBLE.items():
        yield _conform(
            f"visible_{how}", f"The profile tensor where CUDA_VISIBLE_DEVICES shows {what}",
            "--simulate", "0", short=("--only", _LIST), visible=how,
            least=2 if how == "reordered" else 1,
        )  # fmt: skip


def _examples() -> Iterator[Step]:
    plots = ("sklearn", "matplotlib")
    for name, needs, least in (
        ("use_gpu", (), 1),
        ("place_model", (), 1),
        ("logging_the_loss", (), 1),
        ("own_optimizer", (), 1),
        ("train_digits", plots, 1),
        ("why_is_my_gpu_slow", (), 1),
        ("checkpoint_across", (), 1),
        ("model_parallel", (), 2),
        ("multi_gpu", plots[:1], 2),
        ("multi_gpu_from_scratch", plots[:1], 2),
        ("neural_ode", (), 1),
        ("jacobian", (), 1),
        ("cpu_or_gpu", (), 1),
        ("resnet", (), 1),
        ("batch_size", plots[1:], 1),
        ("many_machines", plots, 2),  # its workers, by default, on one machine
    ):
        yield Step(
            f"examples.{name}", f"The example {name}.py", (str(ROOT / f"examples/{name}.py"),),
            reading.example(name), needs=needs, least=least, is_simulated_too=True,
        )  # fmt: skip


def _benchmarks() -> Iterator[Step]:
    names = ("memcpy", "overhead", "copies", "batches", "interop", "models", "parallel")
    for name in names:
        file = str(ROOT / f"benchmarks/{name}.py")
        yield Step(
            f"benchmarks.{name}", f"benchmarks/{name}.py on gpu:0",
            (file, "--backend", "{backend}", "--device", "gpu:0"), reading.benchmark,
            least=8 if name == "parallel" else 1, short=() if name == "memcpy" else None,
        )  # fmt: skip


EACH_S = 200
"""For each device: with one GPU, a machine that is lent for ten minutes at a time can finish."""

STEPS = (
    # Simulated devices are built in it, where there are none yet.
    Step("facts.machine", "The machine, its driver and the framework",
         ("-m", "hardware_report.facts", "{backend}"), reading.machine, is_simulated_too=True),
    Step("doctor.healthy", "unidev doctor: the framework sees every GPU that the driver sees",
         ("-m", "unidev", "doctor", "--json", "--backend", "{backend}"), reading.diagnosis),
    _conform("hardware", "The profile hardware: what only real GPUs show", "--profile", "hardware",
             short=()),
    *_examples(),
    Step("trace.example", "unidev trace of an example",
         ("-m", "unidev", "trace", "--json", "report.json",
          str(ROOT / "examples/why_is_my_gpu_slow.py")), reading.trace, is_simulated_too=True),
    *_suite(),
    Step("bench.table", "unidev bench",
         ("-m", "unidev", "bench", "--backend", "{backend}", "--json", "--full", "--limit",
          str(EACH_S)), reading.bench, 3600.0, short=None),
    *_benchmarks(),
)  # fmt: skip


def step_named(name: str) -> Step:
    """The step of that name."""
    return next(each for each in STEPS if each.name == name)


def steps_of(*, is_short: bool) -> list[Step]:
    """The steps of the complete or the short report."""
    return [each for each in STEPS if each.short is not None or not is_short]


def visible(how: str, machine: Mapping[str, object]) -> tuple[str, int] | None:
    """A value of ``CUDA_VISIBLE_DEVICES``, and how many GPUs it shows; None: there is no UUID."""
    devices, gpus = machine["devices"], machine["gpus"]
    assert isinstance(devices, list)
    assert isinstance(gpus, list)
    count = len(devices)
    if how == "uuid":
        undivided = (gpu["uuid"] for gpu in gpus if gpu["uuid"] and not gpu["mig_uuids"])
        uuid = next(undivided, None)
        return None if uuid is None else (uuid, 1)
    return {
        "empty": ("", 0), "index": (str(count - 1), 1),
        "reordered": (",".join(map(str, reversed(range(count)))), count),
    }[how]  # fmt: skip


def read_list(file: Path, planned: Sequence[str]) -> dict[str, str]:
    """Steps that cannot run on a stand-in for a GPU, and the reasons, as ``file`` lists them.

    A line is ``STEP: REASON``, or a comment after ``#``.

    Steps that are not planned are left out.

    Raises:
        OSError: the file cannot be read.
        ReportError: a line has no reason, or names a step that does not exist.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, _, reason = (part.strip() for part in text.partition(":"))
        if not reason or name not in {each.name for each in STEPS}:
            raise ReportError(f"{file}, line {number}: not a step and a reason: {text!r}")
        found[name] = reason
    return {name: reason for name, reason in found.items() if name in planned}
