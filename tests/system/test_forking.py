"""A fork beside a thread that imports for unidev."""

import pytest

PROGRAM = """
import os, sys, threading, time
from unidev.system import forking

def slowly(**hooks): register(**hooks), begun.set(), time.sleep(0.2)
forking._PATIENCE_S, begun = 1.0, threading.Event()
register, os.register_at_fork = os.register_at_fork, slowly
source = "import MODULE", {"__name__": "unidev.mine"}
threading.Thread(target=exec, args=source, daemon=True).start()
begun.wait()
child = os.fork()
if not child: os._exit(hasattr(sys.modules["MODULE"], "captureWarnings"))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
SLOW = "import os,time;os.register_at_fork(before=int)\nwhile time.WORK: pass\ncaptureWarnings = 1"


@pytest.mark.parametrize(
    ("module", "work", "is_done"),
    # Logging's own lock comes first in a fork, and its import needs it.
    [("slow", "process_time() < 3", 1), ("slow", "sleep(4) or 0", 0), ("logging", "", 1)],
)
def test_it_waits_as_long_as_that_computes(module, work, is_done, run_python, tmp_path) -> None:
    (tmp_path / "slow.py").write_text(SLOW.replace("WORK", work))
    assert run_python(PROGRAM.replace("MODULE", module)) == str(is_done)
