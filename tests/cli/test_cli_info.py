from __future__ import annotations

import json
import os
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from named_gpus import write_plugin

from unidev.cli.capability_table import to_markdown

if TYPE_CHECKING:
    from pathlib import Path


PLUGIN = """
import unidev
{top}

def load():
    {load}
    from unidev.backends.numpy_backend.backend import NumpyBackend

    class Strange(NumpyBackend):
        memory = unidev.unsupported("nobody | counts", "https://example.org/why")
        {body}

    return Strange

@unidev.hookimpl
def unidev_register_backend():
    return unidev.BackendSpec(
        name="{name}", contract_version=3, framework="{framework}",
        install="pip install {framework}", load=load,
    )
"""


def plugin(
    folder: Path,
    name: str = "strange",
    *,
    top: str = "",
    load: str = "",
    body: str = "",
    framework: str = "array",
) -> str:
    text = PLUGIN.format(name=name, top=top, load=load, body=body, framework=framework)
    (folder / f"{name}.py").write_text(text)
    return name


def asked(unidev, *words: str, **environment: str) -> dict[str, dict]:
    """What `unidev info --json` says, by plugin; the document itself under ``""``."""
    done = unidev("info", "--json", *words, **environment)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    return {"": document, **{each["plugin"]: each for each in document["plugins"]}}


def test_the_table_shows_devices_and_which_is_chosen_and_why(unidev) -> None:
    done = unidev("info", UNIDEV_BACKEND="numpy", UNIDEV_SIMULATE="3")
    assert done.returncode == 0
    assert "cpu:0, gpu:0 to gpu:2 (simulated)" in done.stdout
    assert "chosen: numpy (UNIDEV_BACKEND=numpy)" in done.stdout
    assert "UNIDEV_SIMULATE=3 (the number of simulated GPUs, 1 to 64" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("environment", "command"),
    [
        ({}, "`unidev doctor`"),
        ({"UNIDEV_SIMULATE": "2"}, "`unidev trace PROGRAM.py`"),
        ({"UNIDEV_SIMULATE": "many"}, "`unidev info --verbose`"),
    ],
)
def test_the_last_line_says_what_to_type_next(unidev, environment, command) -> None:
    done = unidev("info", UNIDEV_BACKEND="numpy", **environment)
    assert done.stdout.splitlines()[-1].startswith(f"next: {command} ")


LAUNCHER = """
import unidev

@unidev.hookimpl
def unidev_register_launcher():
    return unidev.LauncherSpec(
        name="carrier", contract_version=3, load="carrying:Carrier",
        variables={"UNIDEV_CARRIER": "what is carried"},
    )
"""


def test_a_plugin_that_has_only_a_launcher_is_shown_with_it(unidev, tmp_path) -> None:
    (tmp_path / "carrying.py").write_text(LAUNCHER)
    shown = unidev("info", UNIDEV_PLUGINS="carrying").stdout
    (line,) = (line for line in shown.splitlines() if "launcher" in line)
    assert line.split() == ["-", "launcher", "carrier", "works", "carrying"]
    assert "UNIDEV_CARRIER" not in shown
    shown = unidev("info", UNIDEV_PLUGINS="carrying", UNIDEV_CARRIER="coal").stdout
    assert "environment: UNIDEV_CARRIER=coal (what is carried)" in shown
    assert "does not use" not in shown
    done = unidev("info", "--capabilities", UNIDEV_PLUGINS="carrying")
    assert done.returncode == 0
    assert "carrier" not in done.stdout + done.stderr


def test_named_gpus_are_shown_as_simulated_and_with_their_name(unidev, tmp_path) -> None:
    write_plugin(tmp_path)
    given = {"UNIDEV_SIMULATE": "2", "UNIDEV_SIMULATE_AS": "cuda", "COLUMNS": "200"}
    done = unidev("info", **given, PYTHONPATH=str(tmp_path))
    assert "cpu:0, gpu:0 to gpu:1 (simulated, cuda:0 to cuda:1)" in done.stdout
    assert "UNIDEV_SIMULATE_AS=cuda (the framework's own name for the simulated" in done.stdout
    wrong = unidev("info", UNIDEV_SIMULATE_AS="cuda")
    assert wrong.returncode == 0
    assert "UNIDEV_SIMULATE_AS=cuda is set, but no GPUs are simulated" in wrong.stdout


@pytest.mark.parametrize(
    ("how", "state", "said"),
    [
        ({"load": "raise ValueError('no good')"}, "fails", "ValueError: no good"),
        ({"top": "raise ValueError('at once')"}, "broken", "ValueError: at once"),
        ({"top": "def ("}, "broken", "SyntaxError"),
        ({"load": "import os; os.abort()"}, "crashes", "killed by SIGABRT"),
        ({"load": "import os; os._exit(5)"}, "crashes", "exit code 5"),
        ({"load": "import sys; sys.exit(5)"}, "fails", "SystemExit: 5"),
        ({"framework": "not_there"}, "no framework", "Install it with: pip install not_there"),
        ({"body": "def device_count(self, kind): raise OSError('bus')"}, "fails", "OSError: bus"),
        ({"body": "kinds = 5"}, "fails", "gives 5, not a tuple of names"),
    ],
)
def test_a_plugin_broken_in_any_way_is_a_line_and_the_rest_is_there(
    unidev, tmp_path, how, state, said
) -> None:
    found = asked(unidev, UNIDEV_PLUGINS=plugin(tmp_path, **how), UNIDEV_BACKEND="numpy")
    assert found["strange"]["state"] == state
    assert said in found["strange"]["problem"]
    assert found["numpy"]["state"] == "works"
    assert found[""]["choice"]["name"] == "numpy"


def test_a_plugin_that_kills_python_on_import_takes_nobody_with_it(unidev, tmp_path) -> None:
    plugin(tmp_path, "killer", top="import os; os.abort()")
    plugin(tmp_path, "fine")
    found = asked(unidev, UNIDEV_PLUGINS="killer,fine")
    assert found["killer"]["state"] == "crashes"
    assert found["killer"]["remedy"] == "Disable it with UNIDEV_DISABLED_PLUGINS=killer."
    assert found["fine"]["state"] == "works"
    assert "a plugin breaks the process" in found[""]["choice"]["reason"]


@pytest.mark.slow
def test_a_framework_that_hangs_is_ended_and_the_others_are_shown(unidev, tmp_path) -> None:
    name = plugin(tmp_path, load="import time; time.sleep(600)")
    done = unidev("info", "--timeout", "10", UNIDEV_PLUGINS=name)
    assert done.returncode == 0
    assert "no answer within 10 s" in done.stdout
    assert "numpy " in done.stdout
    assert "unidev: asking strange: 2 s" in done.stderr


def test_garbage_on_stdout_stays_out_of_ours(unidev, tmp_path) -> None:
    name = plugin(tmp_path, load="print('{garbage' * 10_000)")
    found = asked(unidev, UNIDEV_PLUGINS=name)
    assert found["strange"]["state"] == "works"


def test_tracebacks_are_shown_only_when_asked_for(unidev, tmp_path) -> None:
    name = plugin(tmp_path, load="raise ValueError('no good')")
    assert "Traceback" not in unidev("info", UNIDEV_PLUGINS=name).stdout
    assert "Traceback" in unidev("info", "--verbose", UNIDEV_PLUGINS=name).stdout


def test_two_plugins_of_one_backend_are_told_apart(unidev, tmp_path) -> None:
    plugin(tmp_path, "one")
    (tmp_path / "two.py").write_text((tmp_path / "one.py").read_text())
    found = asked(unidev, UNIDEV_PLUGINS="one,two")
    assert found["one"]["state"] == "works"
    assert found["two"]["state"] == "broken"
    assert "is already registered by one" in found["two"]["problem"]


def test_a_plugin_switched_off_is_shown_as_such(unidev, tmp_path) -> None:
    name = plugin(tmp_path)
    done = unidev("info", UNIDEV_PLUGINS=name, UNIDEV_DISABLED_PLUGINS=name)
    assert "strange (strange): disabled" in done.stdout
    assert "remove it from there" in done.stdout


def test_a_number_of_simulated_devices_that_cannot_be_is_said_not_raised(unidev) -> None:
    done = unidev("info", UNIDEV_SIMULATE="many")
    assert done.returncode == 0
    assert "integer from 0 to 64" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_the_other_distribution_named_unidev_is_noticed(unidev, tmp_path) -> None:
    folder = tmp_path / "unidev-0.9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: unidev\nVersion: 0.9\n")
    done = unidev("info")
    assert "notice: the PyPI distribution `unidev` 0.9" in done.stdout


def test_a_misspelt_or_invalid_variable_is_noticed(unidev) -> None:
    shown = unidev("info", UNIDEV_BACKED="x", UNIDEV_TORCHRUN_TIMEOUT="soon").stdout
    assert "notice: UNIDEV_TORCHRUN_TIMEOUT='soon' must be a positive number" in shown
    assert "unidev does not use these variables: UNIDEV_BACKED" in shown


def test_the_capability_table_is_read_off_the_backends(unidev, tmp_path) -> None:
    done = unidev("info", "--capabilities", "--markdown", UNIDEV_PLUGINS=plugin(tmp_path))
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "| | numpy | strange |"
    row = next(line for line in lines if line.startswith("| `memory(device)`"))
    assert row.endswith("| no (3) | no (4) |")
    assert "4. nobody \\| counts (<https://example.org/why>)" in lines
    simulated = next(line for line in lines if line.startswith("| simulated GPUs"))
    assert simulated.endswith("| yes | no (1) |")


def test_what_needs_a_gpu_is_not_called_missing() -> None:
    def lacking(reason: str) -> dict[str, object]:
        return {"supported": False, "reason": reason, "link": None}

    capabilities = {"pinned": lacking("it needs a GPU: none here"), "peaks": lacking("never")}
    plugin = {"state": "works", "backend": "strange", "capabilities": capabilities}
    lines = to_markdown({"plugins": [plugin]}).splitlines()
    (pinned,) = [line for line in lines if line.startswith("| `pin`")]
    (peak,) = [line for line in lines if line.startswith("| `track_memory(device)`")]
    assert pinned.endswith("| needs a GPU (1) |")
    assert peak.endswith("| no (2) |")
    assert "1. it needs a GPU: none here" in lines


def test_every_optional_ability_of_the_contract_is_in_the_table(unidev) -> None:
    from unidev.contract.backend import Backend, Unsupported
    from unidev.contract.backend_spec import BackendSpec
    from unidev.contract.probe import Probe

    optional = {
        prefix + name
        for prefix, cls in (("", Backend), ("", BackendSpec), ("probe.", Probe))
        for name, value in vars(cls).items()
        if isinstance(value, Unsupported)
    }
    optional -= {"group_setting", "forks"}  # of the launcher; what the first is for is the engine
    assert optional <= set(asked(unidev)["numpy"]["capabilities"])


def test_the_table_in_a_file_is_updated_and_checked(unidev, tmp_path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        dedent("""\
        before
        <!-- capabilities -->
        old
        <!-- /capabilities -->
        after
    """)
    )
    check = ["info", "--capabilities", "--check", "page.md"]
    stale = unidev(*check)
    assert (stale.returncode, "is outdated" in stale.stderr) == (1, True)
    assert "old" in page.read_text()
    assert unidev("info", "--capabilities", "--update", "page.md").returncode == 0
    assert page.read_text().startswith("before\n<!-- capabilities -->\n| | numpy |")
    assert page.read_text().endswith("<!-- /capabilities -->\nafter\n")
    assert unidev(*check).returncode == 0


def test_a_column_of_a_backend_that_is_not_installed_is_kept_with_its_reasons(
    unidev, tmp_path
) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- capabilities -->\n<!-- /capabilities -->\n")
    name = plugin(tmp_path, load="pass")
    update = ["info", "--capabilities", "--update", "page.md"]
    assert unidev(*update, UNIDEV_PLUGINS=name).returncode == 0
    both = page.read_text()
    assert "nobody \\| counts (<https://example.org/why>)" in both
    header = both.splitlines()[1]
    assert header == "| | numpy | strange |"
    page.write_text(both.replace(header, "| | strange | zebra |"))  # neither is NumPy's
    assert unidev("info", "--capabilities", "--check", "page.md").returncode == 1
    page.write_text(both)
    for words in (["info", "--capabilities", "--check", "page.md"], update):
        assert unidev(*words).returncode == 0
        assert page.read_text() == both


def test_a_table_is_not_updated_while_a_backend_is_broken(unidev, tmp_path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- capabilities -->\nold\n<!-- /capabilities -->\n")
    name = plugin(tmp_path, load="raise ValueError('no good')")
    done = unidev("info", "--capabilities", "--update", "page.md", UNIDEV_PLUGINS=name)
    assert done.returncode == 1
    assert "left out: strange (fails)" in done.stderr
    assert "old" in page.read_text()


def test_a_file_without_markers_is_wrong_usage(unidev, tmp_path) -> None:
    (tmp_path / "page.md").write_text("nothing")
    done = unidev("info", "--capabilities", "--update", "page.md")
    assert done.returncode == 2
    assert "<!-- capabilities -->" in done.stderr


def test_options_that_need_another_say_so(unidev) -> None:
    done = unidev("info", "--markdown")
    assert (done.returncode, "require --capabilities" in done.stderr) == (2, True)
    done = unidev("info", "--json", "--capabilities", "--markdown")
    assert (done.returncode, "--json excludes --markdown" in done.stderr) == (2, True)


def test_an_interruption_ends_every_child(tmp_path, interrupted) -> None:
    pid = tmp_path / "pid"
    stay = f"import os, time; os.symlink(str(os.getpid()), {str(pid)!r}); time.sleep(600)"
    assert interrupted(pid, "info", UNIDEV_PLUGINS=plugin(tmp_path, load=stay)) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(os.readlink(pid)), 0)


def test_help_and_version_come_without_importing_commands(unidev) -> None:
    done = unidev("--help")
    assert done.returncode == 0
    assert "Judge a backend" in done.stdout
    assert unidev("--version").stdout.startswith("unidev, version 0.1.0")
    assert "\b" not in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["Examples:"] in lines
    assert any(line[:2] == ["unidev", "info"] for line in lines)
    assert any(line[:3] == ["unidev", "conform", "numpy"] for line in lines)


def test_a_chosen_backend_that_is_not_there_is_said_with_what_to_do(unidev) -> None:
    done = unidev("info", UNIDEV_BACKEND="nunpy")
    assert "chosen: nunpy (UNIDEV_BACKEND=nunpy)" in done.stdout
    assert "cannot be used: there is no backend 'nunpy'" in done.stdout
    assert "Did you mean 'numpy'?" in done.stdout
    assert "no backend 'nunpy'" in asked(unidev, UNIDEV_BACKEND="nunpy")[""]["choice"]["problem"]
    assert asked(unidev, UNIDEV_BACKEND="numpy")[""]["choice"]["problem"] is None


def test_a_chosen_backend_that_does_not_work_is_said_beside_the_choice(unidev, tmp_path) -> None:
    done = unidev("info", UNIDEV_SIMULATE="abc", UNIDEV_BACKEND="numpy")
    assert "cannot be used: fails:" in done.stdout
    name = plugin(tmp_path, framework="not_there")
    done = unidev("info", UNIDEV_PLUGINS=name, UNIDEV_BACKEND=name)
    assert "cannot be used: no framework: not_there is not installed" in done.stdout
