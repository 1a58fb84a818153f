"""What each call leaves on the GPUs of a cold process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardware_report.outcome import Findings, NotRunError, Outcome
from hardware_report.witness import after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hardware_report.setting import Setting
    from hardware_report.witness import Seen

LOOKING = (
    "pass",
    "unidev.list_devices()",
    "unidev.num_gpus()",
    "unidev.gpu(), unidev.try_gpu(), unidev.try_all_gpus()",
    "[device.name for device in unidev.list_devices()]",
    "unidev.as_device('gpu:0')",
    "unidev.copy_to(unidev.zeros(4), 'cpu')",
    "unidev.device_of(unidev.zeros(4))",
    "unidev.synchronize()",
)
"""Calls that must leave no context."""


def of_calls(setting: Setting) -> Outcome:
    """Looking leaves no context; work leaves one on its own GPU."""
    found = Findings()
    last = len(setting.real_gpus()) - 1
    made = after(setting, "unidev.zeros(4, device='gpu:0'); unidev.synchronize('gpu:0')")
    if not made.contexts:
        raise NotRunError("neither the driver nor the framework shows which contexts there are")
    expected: dict[str, list[int]] = {call: [] for call in LOOKING}
    expected |= {
        "unidev.zeros(4, device='gpu:0')": [0],
        f"unidev.zeros(4, device='gpu:{last}')": [last],
        f"unidev.copy_to(unidev.zeros(4), 'gpu:{last}')": [last],
        f"unidev.zeros(4, device='gpu:{last}'); unidev.synchronize()": [last],
        f"unidev.memory('gpu:{last}')": [last],
        f"with unidev.track_memory('gpu:{last}'): unidev.zeros(4, device='gpu:{last}')": [last],
    }
    rows = []
    for call, wanted in expected.items():
        seen = after(setting, call)
        found.expect(seen.error is None, f"`{call}` raised {seen.error}")
        _judge(found, call, seen, wanted)
        rows.append((call, *map(_shown, seen[:3]), seen.error or ""))
    found.table(
        "GPUs with a context of a fresh process, after one call",
        ("call", "by the framework", "by the driver", "memory in use grew", "raised"),
        rows,
    )
    return found.outcome()


def _judge(found: Findings, call: str, seen: Seen, wanted: Sequence[int]) -> None:
    # The framework's indexes are the driver's only where no variable reorders the GPUs.
    contexts = seen.contexts or []
    least = [] if "memory(" in call else wanted  # counts may come without a context
    is_right = set(least) <= set(contexts) <= set(wanted)
    found.expect(is_right, f"`{call}` left contexts on {contexts}, expected {list(wanted)}")


def _shown(indexes: list[int] | None) -> str:
    return "unknown" if indexes is None else ", ".join(map(str, indexes)) or "none"
