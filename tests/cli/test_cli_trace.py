"""`unidev trace`: a program as Python runs it, and then the table."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

PROGRAM = """\
import sys
import numpy as np
from beside import sum_of
from simulated import x
print(__name__, sys.argv[1:], sys.path[0] == sys.argv[0].rpartition("/")[0])
for each in x:
    sum_of(each)
"""
BESIDE = """\
def sum_of(x):
    return x.sum().item()
"""
SIMULATED = """\
import unidev
x = unidev.ones(12, device="gpu:0")
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text(BESIDE)
    (tmp_path / "simulated.py").write_text(SIMULATED)
    return tmp_path / "program.py"


def environment(**more):
    own = {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_")}
    return {**own, "UNIDEV_BACKEND": "numpy", "UNIDEV_SIMULATE": "1", **more}


def trace(*arguments, cwd, **more):
    return subprocess.run(
        [sys.executable, "-m", "unidev", "trace", *map(str, arguments)],
        capture_output=True, text=True, timeout=300, cwd=cwd, env=environment(**more),
    )  # fmt: skip


def test_a_program_runs_as_python_runs_it_and_then_comes_the_table(program, tmp_path):
    done = trace(program, "--epochs", "3", "--json", "-m", "x", cwd="/")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "__main__ ['--epochs', '3', '--json', '-m', 'x'] True\n"
    lines = done.stderr.splitlines()
    assert lines[1].startswith("12 transfers between devices, 48 bytes, ")
    (row,) = (at for at, line in enumerate(lines) if "`.item()`" in line and "48 bytes" in line)
    assert f"{tmp_path / 'beside.py'}:2 in sum_of" in lines[row]
    assert lines[row + 1] == "    return x.sum().item()"
    line = f"{tmp_path / 'beside.py'}:2 in sum_of"
    assert lines[row + 2] == (
        f"    `.item()`, 12 times at {line}: keep the sum on gpu:0 and read it once."
    )


def test_a_module_runs_as_of_python_minus_m(program, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(
        "import sys\nfrom beside import sum_of\nfrom simulated import x\n"
        "print(__package__, sys.argv[1:], sum_of(x))\n"
    )
    done = trace("-m", "package", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "package ['--json'] 12.0\n"
    assert "`.item()`" in done.stderr


@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("sys.exit('the end')", 1, "the end"),
        ("raise ValueError('no')", 1, "ValueError: no"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
    ],
)
def test_the_exit_code_is_the_programs_and_the_table_comes_all_the_same(
    program, ending, code, said
):
    program.write_text(PROGRAM + ending + "\n")
    done = trace(program, cwd=program.parent)
    assert done.returncode == code
    assert said in done.stderr
    assert "12 transfers between devices" in done.stderr
    assert "runpy" not in done.stderr
    assert "unidev/cli" not in done.stderr


def test_a_program_finds_its_own_file_from_another_folder(program, tmp_path):
    program.write_text(
        "import atexit, os, sys\nos.chdir('/')\nprint(__file__, sys.argv[0])\n"
        "atexit.register(lambda: print(sys.modules['__main__'].__file__))\n" + PROGRAM
    )
    done = trace(program.name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"{program} program.py"
    assert done.stdout.splitlines()[-1] == str(program)
    assert "12 transfers between devices" in done.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_program_may_come_through_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as pool:
        pool.submit((tmp_path / "pipe").write_text, "print('from a pipe')\n")
        done = trace(tmp_path / "pipe", cwd="/")
    assert (done.returncode, done.stdout) == (0, "from a pipe\n"), done.stderr


def test_a_folder_with_a_main_file_runs_as_python_runs_it(program, tmp_path):
    (tmp_path / "__main__.py").write_text("import beside\nprint(__name__, beside.__name__)\n")
    done = trace(tmp_path, cwd="/")
    assert (done.returncode, done.stdout) == (0, "__main__ beside\n"), done.stderr


@pytest.mark.parametrize(
    "ending",
    ["sys.stdout.close()", "sys.stdout = None", "import os; sys.stderr = open(os.devnull, 'w')"],
)
def test_the_table_comes_whatever_the_program_does_to_its_streams(program, ending):
    program.write_text(PROGRAM + ending + "\n")
    done = trace(program, cwd=program.parent)
    assert done.returncode == 0, done.stderr
    assert "12 transfers between devices" in done.stderr
    assert "Traceback" not in done.stderr


def started(program):
    return subprocess.Popen(
        [sys.executable, "-m", "unidev", "trace", program],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip


def test_a_program_that_closes_stderr_has_its_trace_in_the_file(program, tmp_path):
    program.write_text(PROGRAM + "sys.stderr.close()\nsys.exit('the end')\n")
    done = trace("--json", "a.json", program, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert len(json.loads((tmp_path / "a.json").read_text())["transfers"]) == 12


def test_the_table_comes_where_nobody_reads_what_the_program_prints(program):
    program.write_text(PROGRAM + "while True:\n    print('on and on')\n")
    with started(program) as child:
        child.stdout.readline()
        child.stdout.close()
        said = child.stderr.read()
    assert "BrokenPipeError" in said
    assert "12 transfers between devices" in said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_of_the_program_tells_nothing(program, tmp_path):
    program.write_text(
        PROGRAM + "import os\nif os.fork():\n    print(os.wait()[1])\nelse:\n    x.sum().item()\n"
    )
    done = trace("--json", "a.json", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\n0\n")
    assert done.stderr.count("transfers between devices") == 1
    assert len(json.loads((tmp_path / "a.json").read_text())["transfers"]) == 12


def test_the_table_comes_also_where_the_programs_own_hook_for_errors_fails(program):
    program.write_text(PROGRAM + "sys.excepthook = lambda *_: 1 / 0\nraise ValueError('no')\n")
    done = trace(program, cwd=program.parent)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "ValueError: no" in done.stderr
    assert "12 transfers between devices" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="Windows keeps the folder that a program is in")
def test_the_table_comes_also_where_the_programs_folder_is_gone(program, tmp_path):
    program.write_text(PROGRAM + "import os\nos.chdir('gone')\nos.rmdir(os.getcwd())\n")
    (tmp_path / "gone").mkdir()
    done = trace(program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path / 'beside.py'}:2 in sum_of" in done.stderr


def test_a_traceback_begins_in_the_program(program):
    program.write_text("def f():\n    raise ValueError('no')\nf()\n")
    lines = trace(program, cwd=program.parent).stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{program}", line 3, in <module>'


def test_a_program_that_is_no_python_is_said_as_python_says_it(program):
    program.write_text("1 +\n")
    done = trace(program, cwd=program.parent)
    assert done.returncode == 1
    assert done.stderr.startswith(f'  File "{program}", line 1\n')
    assert "SyntaxError: invalid syntax" in done.stderr
    assert "no transfers between devices were seen" in done.stderr


def test_ctrl_c_ends_the_program_and_the_table_comes_all_the_same(program):
    program.write_text(PROGRAM + "print('here', flush=True)\nimport time\ntime.sleep(60)\n")
    child = started(program)
    for line in child.stdout:
        if line == "here\n":
            break
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=300)
    assert child.returncode == 130
    assert "KeyboardInterrupt" in said
    assert "12 transfers between devices" in said


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text elsewhere")
def test_a_file_name_that_is_no_text_is_in_the_files(tmp_path):
    name = b"pr\xf6gram.py".decode(errors="surrogateescape")
    (tmp_path / name).write_text("import unidev\nunidev.ones(2, device='gpu').sum().item()\n")
    done = trace("--json", "a.json", "--chrome", "b.json", name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for file in ("a.json", "b.json"):
        assert "pr\\udcf6gram.py" in (tmp_path / file).read_text(encoding="utf-8")
        json.loads((tmp_path / file).read_text(encoding="utf-8"))


def test_json_and_chrome_are_written_where_the_command_was_given(program, tmp_path):
    program.write_text(PROGRAM + "import os\nos.chdir('/')\n")
    done = trace("--json", "a.json", "--chrome", "b.json", program.name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(json.loads((tmp_path / "a.json").read_text())["transfers"]) == 12
    events = json.loads((tmp_path / "b.json").read_text())["traceEvents"]
    assert sum(each["ph"] == "X" for each in events) == 12


def test_a_file_that_cannot_be_written_is_exit_code_2(program, tmp_path):
    (tmp_path / "gone").mkdir()
    program.write_text(PROGRAM + "import os\nos.rmdir('gone')\n")
    done = trace("--json", "gone/a.json", program, cwd=tmp_path)
    assert done.returncode == 2
    assert "unidev: the trace cannot be written: " in done.stderr
    assert "12 transfers between devices" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--json", "nowhere/a.json", "program.py"),
            "nowhere/a.json: there is no folder 'nowhere'",
        ),
        (("--chrome", "nowhere/a.json", "program.py"), "there is no folder 'nowhere'"),
        (("--json", "a" * 300, "program.py"), "cannot be written: File name too long"),
        (("nowhere.py",), "there is no file 'nowhere.py'.\n"),
        (("package.nowhere",), "To run a module, use `-m package.nowhere`."),
        ((".",), "'.' is a folder without a __main__.py.\n"),
    ],
)
def test_wrong_usage_is_named_before_the_program_runs(program, tmp_path, words, said):
    done = trace(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_module_that_is_not_there_is_said(tmp_path):
    done = trace("-m", "nowhere_at_all", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("ImportError: No module named nowhere_at_all\n")
