"""An assertion that fails on the GPU itself: which call reports it, and as what."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from hardware_report import children
from hardware_report.outcome import Findings, Outcome

if TYPE_CHECKING:
    from hardware_report.setting import Setting

CALLS = (
    "unidev.synchronize('gpu:0')",
    "unidev.synchronize()",
    "unidev.to_numpy(y)",
    "unidev.copy_to(other, 'cpu')",
    "unidev.copy_to(other, 'gpu:0')",
    "unidev.as_in_device(other, 'cpu')",
    "unidev.memory('gpu:0')",
    "unidev.empty(4, device='gpu:0')",
    "unidev.zeros(4, device='gpu:0')",
)
"""Each is the first call after the failure, in a process of its own."""
_MUST_REPORT = CALLS[:4]
"""Calls that wait for the GPU, and so cannot miss the failure."""

_PROGRAM = """
import json, sys, time
import torch, unidev
unidev.set_backend("torch")
x = torch.arange(4, device=unidev.gpu().native)
other = unidev.zeros(4, device="gpu:0")
index = unidev.copy_to(torch.tensor([10_000]), "gpu:0")
unidev.synchronize("gpu:0")
y = x[index]
time.sleep(0.5)  # it has failed by now, and no call has looked
try:
    eval({call!r})
    said = None
except Exception as error:
    said = [type(error).__name__, isinstance(error, unidev.UnidevError), str(error)]
print(json.dumps({{"said": said}}), flush=True)
"""


def reported(setting: Setting) -> Outcome:
    """Calls that wait report the failure, as an error of unidev's that quotes the framework's."""
    setting.only("torch")
    setting.real_gpus()
    found, rows = Findings(), []
    calls = CALLS[:3] if setting.is_short else CALLS
    for number, call in enumerate(calls):
        program = _PROGRAM.format(call=call)
        folder = setting.folder / str(number)
        ended = children.run([sys.executable, "-c", program], 120.0, folder)
        lines = [line for line in ended.out.splitlines() if line.startswith('{"said"')]
        said: Any = json.loads(lines[0])["said"] if lines else ["", False, ended.briefly]
        if said is None:
            found.expect(call not in _MUST_REPORT, f"`{call}` did not report the failure")
            rows.append((call, "nothing", ""))
            continue
        kind, is_ours, message = said
        found.expect(is_ours, f"`{call}` raised {kind or 'nothing'}: {message}")
        rows.append((call, kind, message))
    found.table("The first call after the failure", ("call", "raised", "message"), rows)
    return found.outcome()
