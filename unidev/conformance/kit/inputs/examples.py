"""The settings for hypothesis: a handful of examples, or fewer, always the same, not stored."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

a_handful = settings(
    max_examples=15,
    derandomize=True,
    database=None,
    deadline=None,  # a first call may build or compile something
    report_multiple_bugs=False,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)

a_few = settings(a_handful, max_examples=5, phases=(Phase.explicit, Phase.generate))
"""For cases of many tensors: no shrinking either, since a message names the tensor."""

a_couple = settings(a_few, max_examples=2)
"""For those that are judged on each device, or beside examples that are always met."""
