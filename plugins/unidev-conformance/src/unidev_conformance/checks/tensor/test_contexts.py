"""Contexts: what makes them, and whether who only looked may fork. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from unidev_conformance.judging.outcomes import InconclusiveError
from unidev_conformance.kit.processes.fresh import run_fresh
from unidev_conformance.kit.processes.looking import looks
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev_conformance.kit.workbench import Workbench


@check(required=True)
def test_looking_makes_none(bench: Workbench) -> None:
    """Listing devices and waiting for them creates no context, and no other than those in use."""
    device = str(bench.real_gpus()[-1])
    found: dict[str, Any] = run_fresh(_LOOK, backend=bench.backend.name, arguments=(device,))
    if "unsupported" in found:
        bench.not_applicable(found["unsupported"])
    for name, devices in found["looks"].items():
        assert not devices, f"{name} as one of the first calls creates contexts on {devices}"
    if device not in found["used"]:
        raise InconclusiveError(
            f"the probe reports contexts on {found['used']} once {device} was used: it sees nothing"
        )
    assert found["waited"] == found["used"], "synchronize() creates contexts"
    bench.evidence.add("contexts", f"by looking: none; by the use of {device}: {found['used']}")


_LOOK = """
import unidev
from unidev_conformance.kit.processes.looking import looks, use

def contexts():
    return sorted(map(str, unidev.active_backend().probe.contexts()))

try:
    found = {"looks": {}}
    for name, look in looks().items():
        look()
        found["looks"][name] = contexts()
    use(unidev.as_device(sys.argv[1]))
    found["used"] = contexts()
    unidev.synchronize()
    found["waited"] = contexts()
    answer(found)
except unidev.UnsupportedOperation as refusal:
    answer({"unsupported": refusal.reason})
"""


@check()
def test_fork_after_looking(bench: Workbench) -> None:
    """A process that has only looked at devices may fork: the child uses them, and so does it.

    Also while another thread is the first that looks.
    """
    if not hasattr(os, "fork"):
        bench.not_applicable("processes do not fork on this system")
    bench.gpus()  # without one there is nothing that a fork could spoil
    found = run_fresh(_FORK, backend=bench.backend.name)
    begun = {"early": "another thread had begun to look", "child": "it had looked at devices"}
    expected = {str(device): [1.0, 2.0] for device in bench.devices}
    for who in ("early", "child", "parent"):
        assert found[who] != _HANGS, (
            "a child made by os.fork() hangs when it uses a device (no answer in 30 s), though in "
            f"its parent only {begun[who]}: one of these has started the framework's runtime, or "
            f"holds a lock: {', '.join(looks())}"
        )
        assert found[who] == expected, f"in the {who}, devices gave {found[who]}, not {expected}"
    bench.evidence.add("used", found)


_HANGS = "hangs"
_FORK = """
import os, select, signal, threading
import unidev
from unidev_conformance.kit.processes.looking import look, use

def use_all():
    found = {}
    for device in unidev.list_devices():
        try:
            found[str(device)] = use(device)
        except BaseException as error:
            found[str(device)] = f"{type(error).__name__}: {error}"
    return found

def forked():
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, json.dumps(use_all()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    if select.select([reading], [], [], 30)[0]:
        said = os.read(reading, 2**16).decode() or '"it ended without an answer"'
    else:
        said = '"hangs"'
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return json.loads(said)

begun = threading.Event()
looking = threading.Thread(target=lambda: (begun.set(), unidev.num_gpus()))
looking.start()
begun.wait()
early = forked()
looking.join()
look()
answer({"early": early, "child": forked(), "parent": use_all()})
"""
