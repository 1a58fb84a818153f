"""The steps, in the order in which they run: cheap and telling ones first."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hardware_report.outcome import Outcome

NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Step:
    """One step: a function of ``hardware_report.steps``, and how long it may take."""

    name: str
    """``subject.what``; the subject is a heading of the report."""
    title: str
    target: str
    """``module:function``; the module is imported in the step's own process."""
    limit_s: float = 120.0
    options: Mapping[str, Any] = field(default_factory=lambda: NO_OPTIONS)
    """Passed to the function."""
    is_in_short: bool = True
    """Whether it is part of the short report."""

    def function(self) -> Callable[..., Outcome]:
        """The function itself."""
        module, _, name = self.target.partition(":")
        found = getattr(importlib.import_module(f"hardware_report.steps.{module}"), name)
        return cast("Callable[..., Outcome]", found)


def _conform() -> Iterator[Step]:
    for profile in ("tensor", "train", "multi", "interop"):
        for how, title in (("real", "on the real GPUs"), ("simulated", "on two simulated GPUs")):
            yield Step(
                f"conform.{profile}_{how}",
                f"The profile {profile} {title}",
                f"conform:{how}",
                1800.0,
                {"profile": profile},
                is_in_short=False,
            )
    for how, title in (
        ("empty", "none"), ("index", "one, by its index"), ("reordered", "all, in reverse order"),
        ("uuid", "one, by its UUID"),
    ):  # fmt: skip
        yield Step(
            f"conform.visible_{how}",
            f"The profile tensor where CUDA_VISIBLE_DEVICES shows {title}",
            "conform:arranged",
            1800.0,
            {"how": how},
        )


def _examples() -> Iterator[Step]:
    for name, needs, least in (
        ("use_gpu", (), 1),
        ("place_model", (), 1),
        ("logging_the_loss", (), 1),
        ("own_optimizer", (), 1),
        ("train_digits", ("sklearn", "matplotlib"), 1),
        ("why_is_my_gpu_slow", (), 1),
        ("checkpoint_across", (), 1),
        ("model_parallel", (), 2),
        ("multi_gpu", ("sklearn",), 2),
        ("multi_gpu_from_scratch", ("sklearn",), 2),
        ("many_machines", ("sklearn", "matplotlib"), 2),  # its workers, by default, on one machine
    ):
        title = f"The example {name}.py"
        options = {"name": name, "needs": needs, "least": least}
        yield Step(f"examples.{name}", title, "programs:example", 660.0, options)


def _benchmarks() -> Iterator[Step]:
    for name, least in (
        ("overhead", 1),
        ("copies", 1),
        ("batches", 1),
        ("interop", 1),
        ("models", 1),
        ("parallel", 8),
    ):
        yield Step(
            f"benchmarks.{name}",
            f"benchmarks/{name}.py on gpu:0",
            "programs:benchmark",
            660.0,
            {"name": name, "least": least},
            is_in_short=False,
        )


STEPS = (
    # Simulated devices are built in it, where there are none yet.
    Step("facts.machine", "The machine, its driver and the framework", "facts:machine", 600.0),
    Step("copies.to_gpu", "From the host to each GPU, of any layout, also pinned", "copies:to_gpu"),
    Step("copies.to_host", "From each GPU to the host", "copies:to_host"),
    Step("copies.within_gpu", "On each GPU, to new memory", "copies:within_gpu"),
    Step("copies.between_gpus", "From each GPU to each other", "copies:between_gpus"),
    Step("copies.views_on_gpu", "Of views of tensors on each GPU", "copies:views_on_gpu"),
    Step("memory.counts", "Counts of memory, against the driver's", "memory:counts"),
    Step("memory.peak", "Peak memory, also as the first use of a GPU", "memory:peak"),
    Step("memory.lack", "A request for more memory than there is", "memory:lack"),
    Step("contexts.calls", "The contexts that calls leave in a cold process", "contexts:of_calls",
         600.0),
    Step("models.own_net", "unidev's net, trained on each GPU", "models:own_net"),
    *(
        Step(f"models.{kind}", f"A model that moves while it trains: {what}", "models:torch_model",
             options={"kind": kind})
        for kind, what in (
            ("adam", "AdamW"), ("adam_fused", "AdamW, fused"),
            ("adam_capturable", "AdamW, capturable"), ("lstm", "LSTM"), ("tied", "tied weights"),
            ("bf16", "bfloat16"),
        )
    ),
    Step("trace.profiler", "Traced transfers, against the profiler's", "trace:against_profiler"),
    Step("assert.reported", "An assertion that fails on the GPU, and which call reports it",
         "device_assert:reported", 600.0),
    *_examples(),
    Step("bench.cuda", "copy_to against cudaMemcpy", "bench:against_cuda", 300.0),
    *_conform(),
    Step("bench.table", "unidev bench", "bench:table", 3600.0, is_in_short=False),
    *_benchmarks(),
)  # fmt: skip


def step_named(name: str) -> Step:
    """The step of that name."""
    return next(each for each in STEPS if each.name == name)


def steps_of(*, is_short: bool) -> list[Step]:
    """The steps of the complete or the short report."""
    return [each for each in STEPS if each.is_in_short or not is_short]
