"""The first use of a backend, by several threads at once, in a process that got devices by pickle.

Two checks look at one process: importing a framework takes longer than most checks do.
"""

from __future__ import annotations

import json
import pickle
import weakref
from typing import TYPE_CHECKING, Any

from unidev_conformance.kit.processes.fresh import run_fresh

if TYPE_CHECKING:
    from unidev.contract.backend import Backend
    from unidev_conformance.kit.workbench import Workbench

THREADS = 8
_RACES = 40

_found: weakref.WeakKeyDictionary[Backend, dict[str, Any]] = weakref.WeakKeyDictionary()


def first_use(bench: Workbench) -> dict[str, Any]:
    """The report of a fresh process, one for each backend: ``threads`` and ``arrived``.

    Raises:
        AssertionError: it failed, hung, or did not answer.
    """
    if bench.backend not in _found:
        sent = json.dumps([pickle.dumps(device).hex() for device in bench.devices])
        _found[bench.backend] = run_fresh(_PROGRAM, backend=bench.backend.name, arguments=(sent,))
    return _found[bench.backend]


_PROGRAM = f"""
import pickle, sys, threading, time, traceback
import unidev

start, found, errors = threading.Barrier({THREADS}), [], []
made = [[] for _ in range({_RACES})]

def halting(frame, event, _):  # before each line of what makes a device, others have their turn
    if frame.f_code is unidev.Device.__new__.__code__:
        time.sleep(1e-4)
        return halting

def use():
    try:
        start.wait(60)
        x = unidev.zeros(3)
        y = unidev.copy_to(x, unidev.try_gpu())
        found.append((unidev.to_numpy(y).tolist(), unidev.active_backend(), unidev.device_of(y)))
        sys.settrace(halting)
        for index, devices in enumerate(made):  # none of them is there: they are values
            start.wait(60)
            devices.append(unidev.Device(unidev.active_backend().name, "gpu", 100 + index))
    except BaseException:  # whatever ends a thread is the answer, and others do not wait for it
        errors.append(traceback.format_exc()), start.abort()

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=use) for _ in range({THREADS})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

def receive(text):
    try:
        device = pickle.loads(bytes.fromhex(text))
        assert device is unidev.as_device(str(device)), device
        x = unidev.zeros(2, device=device)
        return [str(device), str(unidev.device_of(x)), unidev.to_numpy(x).tolist()]
    except Exception:  # of one device: the others are still asked
        return traceback.format_exc()

answer({{
    "threads": {{
        "errors": errors,
        "values": [values for values, _, _ in found],
        "backends": len({{id(backend) for _, backend, _ in found}}),
        "devices": len({{id(device) for _, _, device in found}}),
        "values made": sum(len({{id(each) for each in devices}}) for devices in made) / len(made),
    }},
    "arrived": [receive(text) for text in json.loads(sys.argv[1])],
}})
"""
