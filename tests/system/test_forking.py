"""A fork beside a thread that imports for unidev."""

import pytest

PROGRAM = """
import os, sys, threading, time
from unidev.system import forking

forking._PATIENCE_S = 1.0
source = ("import slow", {"__name__": "unidev.mine"})
threading.Thread(target=exec, args=source, daemon=True).start()
while "slow" not in sys.modules:
    time.sleep(0.01)
child = os.fork()
if not child:
    os._exit(hasattr(sys.modules["slow"], "DONE"))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize(("work", "is_done"), [("process_time() < 3", 1), ("sleep(4) or 0", 0)])
def test_it_waits_as_long_as_the_import_computes(work, is_done, run_python, tmp_path) -> None:
    (tmp_path / "slow.py").write_text(f"import time\nwhile time.{work}:\n    pass\nDONE = 1\n")
    assert run_python(PROGRAM) == str(is_done)
