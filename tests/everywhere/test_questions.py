"""The programs of docs/questions.md, by the page's own commands, on every framework that is here.

What they print beside times is the same on all frameworks, to four digits, and on each device.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
from typing import NamedTuple

import numpy as np
import pytest
import warm_programs
from page_examples import ROOT, blocks_of
from running_examples import FRAMEWORKS, ONE, copied, environment, imported, run_example
from test_training_examples import check_drawn, check_refused
from warm_programs import run_program

import unidev

PAGE = ROOT / "docs/questions.md"


class Command(NamedTuple):
    """A command that runs one of the programs in ``examples/``."""

    program: str
    options: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.program, *self.options))

    @property
    def is_full(self) -> bool:
        """Whether it takes minutes: its options are parsed, and it is not run."""
        return "--full" in self.options


def commands() -> list[Command]:
    """Those that run a program of the page's table, in order."""
    found = []
    for block in blocks_of(PAGE):
        for line in block.code.splitlines() if block.language == "sh" else ():
            words = [word for word in shlex.split(line, comments=True) if "=" not in word]
            if words[:1] == ["python"]:
                name = words[1].removeprefix("examples/").removesuffix(".py")
                found.append(Command(name, tuple(words[2:])))
    return found


SHORT = [command for command in commands() if not command.is_full]
PROGRAMS = ["neural_ode", "jacobian", "cpu_or_gpu", "resnet", "batch_size"]
FOUR_DIGITS = 1e-4
CAN_VECTORISE = ("torch", "tensorflow", "jax")
"""A Jacobian's rows, in reverse mode."""


def found_by(command, backend, folder, count=2):
    """The numbers that a command of the page writes, and what it prints."""
    options = (*command.options, "--json", "found.json")
    done = run_example(folder, command.program, *options, backend=backend, count=count)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "found.json").read_text()), done.stdout


ODE = [91286.06, 90091.58, 88911.63, 87637.39, 86173.30]
"""The losses of the first iterations; the two solvers differ by less than four digits show."""


def devices_of(options):
    return ["cpu:0"] if "--on" in options else ["cpu:0", "gpu:0"]


def check_ode(options, found, said):
    assert [run["device"] for run in found["runs"]] == devices_of(options)
    for run in found["runs"]:
        assert run["losses"] == pytest.approx(ODE, rel=FOUR_DIGITS)
        assert f"{run['device']}: losses 9.129e+04, 9.009e+04, 8.891e+04, 8.764e+04, 8.617" in said
        assert (run["seconds"] is None) == (run["device"] == "gpu:0")  # it is simulated
    assert list(found["floors"]) == ["cpu:0"]
    assert ("no time, simulated" in said) == (len(found["runs"]) == 2)
    assert said.endswith("No real GPU took part: this is the CPU's side alone.\n")


def check_jacobian(options, found, said):
    for run in found["runs"]:
        assert run["shape"] == [3, 400, 3, 1]
        assert run["norm"] == pytest.approx(14.90712, rel=FOUR_DIGITS)
        assert 0 < run["difference"] < 1e-5
        assert run["row by row"]["rows"] == 500
        is_timed = run["device"] == "cpu:0"
        ways = [run[name] for name in ("row by row", "summed", "forwards")]
        assert [way["seconds"] is not None for way in ways] == [is_timed] * 3
        can = found["backend"] in CAN_VECTORISE
        assert ("reason" in run["vectorised"]) != can
    once = "one forward pass for all" if found["backend"] == "torch" else "each repeats the forward"
    assert said.count(f"row by row, 1,200 rows, scaled up from 500; {once}") == 2
    assert said.count("  shape (3, 400, 3, 1), norm 14.91; the ways agree within") == 2
    assert "all rows at once, by an identity, would take 0.00576 GB: not run" in said


IMAGES = [2.41932, 2.49552, 2.44229, 2.38926, 2.35708, 2.31134, 2.38382, 2.34738, 2.28060, 2.32037]
"""The losses of the first ten steps."""


def check_images(options, found, said):
    assert [run["device"] for run in found["runs"]] == devices_of(options)
    for run in found["runs"]:
        assert run["losses"] == pytest.approx(IMAGES, rel=FOUR_DIGITS)
        assert (run["seconds a step"] is None) == (run["device"] == "gpu:0")
    assert list(found["products"]) == ["numpy", "cpu:0"]
    line = "losses 2.419, 2.496, 2.442, 2.389, 2.357, 2.311, 2.384, 2.347, 2.281, 2.32\n"
    assert [f"{device}: {line}" in said for device in ("cpu:0", "gpu:0")] == [True, True]


RESNET = {
    "one device": (2, ["gpu:0"], [3.06279, 3.49311]),
    "by layers": (2, ["gpu:0", "gpu:1"], [3.06279, 3.49311]),
    "by data": (4, ["gpu:0", "gpu:1"], [3.36255, 3.53768]),
}
"""The batch, the devices and the losses."""


def check_resnet(_, found, said):
    assert list(found["runs"]) == list(RESNET)
    for name, (batch, devices, losses) in RESNET.items():
        run = found["runs"][name]
        assert (run["batch"], run["devices"], run["seconds"]) == (batch, devices, None)
        assert run["losses"] == pytest.approx(losses, rel=FOUR_DIGITS)
    assert found["equal"] is True
    assert found["replicas"] is None
    assert "by layers, the weights are those of one device to the bit: True\n" in said


BATCHES = {64: [2.48537, 2.34366, 2.34709, 2.40743, 2.41535], 256: [2.51385, 2.44392]}
"""The losses of the first steps."""


def check_batches(_, found, said):
    wanted = [(count, batch) for count in (1, 2) for batch in BATCHES]
    assert [(run["devices"], run["batch"]) for run in found["runs"]] == wanted
    for run in found["runs"]:
        losses = BATCHES[run["batch"]]
        assert run["losses"][: len(losses)] == pytest.approx(losses, rel=FOUR_DIGITS)
        assert run["accuracies"] == [0.108 if run["batch"] == 64 else 0.075]
        assert run["epochs"] is None
        assert (run["seconds"], run["t1"], run["t2"]) == (None, None, None)
    assert "2 devices, batches of 256: accuracy 0.0750, 90 %: not reached\n" in said
    assert "the two times are plotted in batch_size.png" in said


CHECKS = {
    "neural_ode": check_ode,
    "jacobian": check_jacobian,
    "cpu_or_gpu": check_images,
    "resnet": check_resnet,
    "batch_size": check_batches,
}


@pytest.mark.parametrize("backend", FRAMEWORKS)
@pytest.mark.parametrize("command", SHORT, ids=str)
def test_a_command_of_the_page_finds_the_same_on_every_framework(command, backend, tmp_path):
    found, said = found_by(command, backend, tmp_path)
    assert found["backend"] == backend
    CHECKS[command.program](command.options, found, said)


STOPPED = """
import runpy, sys, unidev
whole, count = unidev.to_numpy, 0
def to_numpy(x):
    global count
    count += 1
    if count > {after}:
        raise KeyboardInterrupt
    return whole(x)
unidev.to_numpy = to_numpy
sys.argv = [{program!r}, "--json", "found.json", *{options!r}]
runpy.run_path({program!r}, run_name="__main__")
"""
"""A program that Ctrl-C stops where it reads a result, as it does once in each step."""


def stopped(program, options, after, folder, backend):
    """What a program writes that is stopped when it has read ``after`` results."""
    code = STOPPED.format(program=copied(folder, program), after=after, options=list(options))
    done = run_program(
        ["-c", code], backend=backend, also=warm_programs.EXAMPLES,
        environment=environment(backend, 1), folder=folder,
    )  # fmt: skip
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    return json.loads((folder / "found.json").read_text())


@pytest.mark.parametrize("backend", ONE)
def test_ctrl_c_keeps_the_iterations_that_are_done(backend, tmp_path):
    options = ["--iterations", "9", "--solver", "rk4"]  # which reads nothing but losses
    found = stopped("neural_ode", options, 2, tmp_path, backend)
    (run,) = found["runs"]  # no other device is begun
    assert run["losses"] == pytest.approx(ODE[:2], rel=FOUR_DIGITS)


@pytest.mark.parametrize("backend", ONE)
def test_ctrl_c_keeps_the_rows_of_the_samples_that_are_done(backend, tmp_path):
    # Three reads of other ways, at most 402, then one sample's rows and a half.
    can = backend in CAN_VECTORISE
    options = ["--batch", "3", "--rows", "1000"]
    found = stopped("jacobian", options, 401 + can + 600, tmp_path, backend)
    (run,) = found["runs"]
    assert run["row by row"]["rows"] == 400
    assert run["difference"] < 1e-5


@pytest.mark.parametrize("backend", ONE)
def test_ctrl_c_keeps_the_steps_that_are_done(backend, tmp_path):
    found = stopped("cpu_or_gpu", ["--drawn", "640"], 3, tmp_path, backend)
    (run,) = found["runs"]
    assert run["losses"] == pytest.approx(IMAGES[:3], rel=FOUR_DIGITS)
    assert found["products"] == {}


@pytest.mark.parametrize("backend", ONE)
def test_ctrl_c_keeps_what_one_device_has_done(backend, tmp_path):
    options = ["--batch", "2", "--steps", "2", "--width", "8", "--on", "cpu", "gpu"]
    found = stopped("resnet", options, 1, tmp_path, backend)
    assert {name: len(run["losses"]) for name, run in found["runs"].items()} == {"one device": 1}
    assert found["equal"] is None


@pytest.mark.parametrize("backend", ONE)
def test_ctrl_c_keeps_the_batches_that_are_done(backend, tmp_path):
    options = ["--batches", "64", "128", "--drawn", "128", "--epochs", "1"]
    found = stopped("batch_size", options, 2, tmp_path, backend)
    assert [(run["batch"], len(run["losses"])) for run in found["runs"]] == [(64, 2), (128, 0)]
    check_drawn(tmp_path / "batch_size.png")


# -- times of a machine with several real devices, made up -------------------------------------


@pytest.mark.parametrize(
    ("t1", "t2", "verdict"), [(0.012, 0.010, "enough"), (0.011, 0.010, "too small a batch")]
)
def test_computing_should_take_a_fifth_more_than_exchanging(t1, t2, verdict):
    said = imported("batch_size").rule({"t1": t1, "t2": t2})
    assert said.endswith(f"exchanging (t2) 10 ms: {verdict}")


@pytest.mark.parametrize("backend", FRAMEWORKS)
def test_the_two_times_are_those_of_shares_and_of_their_exchange(backend, tmp_path):
    copied(tmp_path, "batch_size")
    program = """
import json, unidev, batch_size
net = unidev.DataParallel(batch_size.make_net(), unidev.try_all_gpus())
print(json.dumps(batch_size.parts(net, 8, 0)))
"""
    done = run_program(
        ["-c", program], backend=backend, also=warm_programs.EXAMPLES,
        environment=environment(backend, 2), folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert min(json.loads(done.stdout)) > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--devices", "3"], "argument --devices: 3 of them, and there are 1; UNIDEV_SIMULATE=3"),
        (["--batches", "9", "--drawn", "8"], "argument --batches: there are 8 images in all"),
    ],
)
def test_batches_that_cannot_be_are_an_error_by_name(options, said, tmp_path):
    done = run_example(tmp_path, "batch_size", *options, backend="numpy")
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_numpy_says_in_a_line_that_it_has_no_gradients(program, tmp_path):
    check_refused(run_example(tmp_path, program, backend="numpy"), program)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--on", "gpu:7"], 1, ".py: gpu:7 is not available"),
        (["--on", "nowhere"], 1, ".py: "),
        (["--seed", "many"], 2, "argument --seed: invalid int value: 'many'"),
        (["--fast"], 2, "unrecognized arguments: --fast"),
    ],
)
def test_an_option_that_cannot_be_is_an_error_by_name(program, options, code, said, tmp_path):
    done = run_example(tmp_path, program, *options, backend="numpy")
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("backend", ONE)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_negative_seed_is_an_error_by_name(program, backend, tmp_path):
    done = run_example(tmp_path, program, "--seed", "-1", backend=backend)
    assert done.returncode == 1
    assert done.stderr.endswith(
        f"{program}.py: seed must be a non-negative integer below 2**63, not -1.\n"
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_page_has_the_question_and_commands_of_each_program(program):
    page = PAGE.read_text(encoding="utf-8")
    assert re.search(rf"^\| \[.+\]\(#.+\) \| `{program}\.py` \|", page, re.MULTILINE)
    sizes = {command.is_full for command in commands() if command.program == program}
    assert sizes == {False, True}


@pytest.mark.parametrize("command", [each for each in commands() if each.is_full], ids=str)
def test_a_full_command_of_the_page_is_one_that_the_program_takes(command, monkeypatch):
    monkeypatch.setattr("sys.argv", [command.program, *command.options])
    with unidev.use_backend("numpy"):
        assert imported(command.program).arguments().full


# -- images from files -----------------------------------------------------------------------------


@pytest.fixture
def reader():
    return imported("cpu_or_gpu")


def idx(path, values):
    """Write ``values`` as an IDX file of bytes."""
    sizes = np.array(values.shape, ">i4").tobytes()
    content = bytes([0, 0, 8, values.ndim]) + sizes + values.astype("uint8").tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def test_images_are_read_from_idx_files_packed_or_not(reader, tmp_path):
    pictures = np.arange(2 * 28 * 28).reshape(2, 28, 28) % 256
    files = idx(tmp_path / "images.gz", pictures), idx(tmp_path / "labels", np.array([3, 9]))
    X, y = reader.read_images(*files)
    assert (X.shape, X.dtype, y.tolist(), y.dtype) == ((2, 1, 28, 28), "float32", [3, 9], "int64")
    assert np.allclose(X * 0.3081 + 0.1307, pictures[:, None] / 255, atol=1e-6)


@pytest.mark.parametrize(
    ("pictures", "labels", "said"),
    [
        (np.zeros((2, 27, 28)), np.zeros(2), "images has no images of 28 by 28"),
        (np.zeros((2, 28, 28)), np.zeros(3), "labels has no labels from 0 to 9, one for each"),
        (np.zeros((1, 28, 28)), np.full(1, 10), "labels has no labels from 0 to 9, one for each"),
    ],
)
def test_files_of_something_else_are_refused(reader, pictures, labels, said, tmp_path):
    files = idx(tmp_path / "images", pictures), idx(tmp_path / "labels", labels)
    with pytest.raises(ValueError, match=said):
        reader.read_images(*files)


def test_a_file_that_is_cut_short_is_refused(reader, tmp_path):
    path = tmp_path / "cut"
    idx(path, np.zeros((2, 28, 28)))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="has 1,567 bytes, and its header says 1,568"):
        reader.read_idx(str(path))
    path.write_bytes(b"no")
    with pytest.raises(ValueError, match="is not an IDX file of bytes"):
        reader.read_idx(str(path))


def test_files_that_are_not_there_are_an_error_by_name(reader):
    with pytest.raises(FileNotFoundError, match="none"):
        reader.read_images("none", "none")
