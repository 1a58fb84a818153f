"""Which GPUs a process has a context on, by NVIDIA's driver and by the framework itself."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from unidev.hardware.nvml import ask_nvml, import_nvml

if TYPE_CHECKING:
    from hardware_report.setting import Setting
    from unidev.hardware.facts import Driver

LIMIT_S = 120.0

_PROGRAM = """
import json, os, sys
import unidev
unidev.set_backend({backend!r})
try:
    exec({call!r})
    error = None
except unidev.UnidevError as raised:
    error = f"{{type(raised).__name__}}: {{raised}}"
except RuntimeError as raised:
    error = f"raw {{type(raised).__name__}}: {{raised}}"
torch = sys.modules.get("torch")
own = None
if torch is not None and hasattr(torch._C, "_cuda_hasPrimaryContext"):
    has = torch._C._cuda_hasPrimaryContext
    own = [index for index in range(torch.cuda.device_count()) if has(index)]
print(json.dumps({{"pid": os.getpid(), "own": own, "error": error}}), flush=True)
sys.stdin.read()
"""


class Seen(NamedTuple):
    """What is left in a fresh process after a call."""

    by_framework: list[int] | None
    """Indexes with a context; None: the framework does not tell."""
    by_driver: list[int] | None
    """The driver's indexes of GPUs that list the process; None: there is no such driver."""
    grown: list[int] | None
    """The driver's indexes of GPUs on which more memory is in use than before."""
    error: str | None
    """What the call raised."""

    @property
    def contexts(self) -> list[int] | None:
        """The framework's answer, or else the driver's."""
        return self.by_driver if self.by_framework is None else self.by_framework


def after(setting: Setting, call: str) -> Seen:
    """Run ``call`` in a fresh process, and look at the GPUs while it is alive.

    Raises:
        RuntimeError: the process gave no answer.
    """
    before = _used()
    program = _PROGRAM.format(backend=setting.name, call=call)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        answer = next((line for line in lines if line.startswith('{"pid"')), None)
        driver, used = _driver(), _used()
        try:
            _, errors = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    if answer is None:
        raise RuntimeError(f"{call!r} ended its process: {errors[-2000:]}")
    said = json.loads(answer)
    return Seen(said["own"], _listing(driver, said["pid"]), _grown(before, used), said["error"])


def _driver() -> Driver:
    return ask_nvml(import_nvml(), lambda _pid: (None, ()))


def _listing(driver: Driver, pid: int) -> list[int] | None:
    if not driver.gpus:
        return None
    return [gpu.index for gpu in driver.gpus if pid in {each.pid for each in gpu.processes}]


def _used() -> dict[int, int]:
    return {gpu.index: gpu.used_bytes for gpu in _driver().gpus if gpu.used_bytes is not None}


def _grown(before: dict[int, int], after: dict[int, int]) -> list[int] | None:
    """GPUs with at least 32 MiB more in use: the smallest context takes more than that."""
    if not after:
        return None
    return [index for index, used in after.items() if used - before.get(index, used) > 2**25]
