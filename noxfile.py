"""The tests, in three commands.

``pytest`` tests the core with NumPy, in this environment. ``nox`` does so in one of its own, and
tries each framework in another: the suite's profile ``tensor``, and examples whose output is known.
``nox -t full`` runs everything, in the same environments. One session: ``nox -s torch``, or all of
it, ``nox -t full -s torch``. The list: ``nox -l``.

Each framework has an environment of its own, so that a plugin is known to work where no other
framework is. Two more hold several of them together in one process.

While you work: ``nox -s format``, ``nox -s quick -- torch -k copies`` and ``nox -s check -- torch
copy.zero_d``. These use the environment of the session ``torch``, and make it if there is none.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

import nox

sys.path.append("tools")
from nox_environments import (
    ARRAY_API,
    BESIDE_JAX,
    CUDA_TORCH,
    ENVIRONMENTS,
    EXTRAS,
    FOR_OPERATORS,
    FRAMEWORKS,
    LIBRARIES,
    MPIRUN,
    RUFF,
    TOGETHER,
    WITH_TORCH,
    add,
    folders,
    install,
    lowest_versions,
    python_for,
    python_of,
    refuse_unknown,
)  # fmt: skip

nox.needs_version = ">=2024.4.15"
# uv makes environments faster, where it is installed. Else virtualenv, in a tenth of venv's time.
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = True
# Three sessions at once: one installs, or waits for workers, while others compute (nox from
# 2026.8.10 on). Not for sessions that are named, whose output then appears as it comes.
if hasattr(nox.options, "parallel") and {"-s", "--session", "--sessions"}.isdisjoint(sys.argv):
    nox.options.parallel = 3
    nox.options.allow_parallel = True
if {"full", "-tfull", "--tag=full", "--tags=full"} & set(sys.argv):
    os.environ["TEST_ALL"] = "1"  # sessions that run beside each other are processes of their own
IS_FULL = "TEST_ALL" in os.environ
"""Whether all is asked for: sessions that a plain ``nox`` runs, too, then test more."""
IS_REST = "AFTER_NOX" in os.environ
"""Whether a plain ``nox`` has passed already: then ``nox -R -t full`` runs what that leaves out."""
FULL = ["full"]

OLDEST, NEWEST = "3.10", "3.13"
"""The oldest Python that is supported, and the newest that the core is tested on here."""
ON_EACH = "tests/everywhere"  # tests of the core that run on whatever framework is there

COSMIC_RAY = "cosmic-ray==8.7.0"  # another version has other operators, and so another sample
# A worker that hangs in C code ends, and pytest-xdist starts another. Needs pytest 9.
PYTEST = (
    "python", "-m", "pytest",
    "-o", "faulthandler_timeout=1200", "-o", "faulthandler_exit_on_timeout=true",
)  # fmt: skip
IN_ONE = ("-n", "0")  # the tests of these sessions start many processes, or share one
IN_TESTS = {
    # Several processes share the cores already; threads of each would only wait for one another.
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    # Hundreds of processes import a framework. Compiling it takes longer than importing it, so the
    # first keeps what it has compiled, also where the machine's own setting says otherwise.
    "PYTHONDONTWRITEBYTECODE": "",
    # A tool that `install` brings and that is missing is an error, no skip.
    "TOOLS_REQUIRED": "1",
}
WITH_NOTEBOOKS = {"NOTEBOOKS_REQUIRED": "1"}
"""Where notebooks are run, a kernel that is missing is an error, no skip."""


def run_once(session: nox.Session, program: str) -> None:
    """One process compiles what it imports. Else the tests' first ones do it, all at once."""
    session.run("python", "-c", program, env=IN_TESTS, silent=True)


def load_once(session: nox.Session, *names: str) -> None:
    """``run_once`` for frameworks, by unidev: not all can be imported here without its help."""
    for name in names:
        run_once(session, f"import unidev; unidev.set_backend({name!r}); unidev.ones(3)")


def check_types(session: nox.Session, *paths: str) -> None:
    """Mypy, with a cache for each session: two that run at once share none."""
    session.run("mypy", "--cache-dir", str(session.cache_dir / f"mypy-{session.name}"), *paths)


# -- what `nox` runs -------------------------------------------------------------------------------


@nox.session(tags=FULL)
def core(session: nox.Session) -> None:
    """The core with NumPy, and with it the suite: as ``pytest``, and with ``-t full`` all of it."""
    install(session, extras="test")
    if not IS_FULL:
        session.run(*PYTEST, *session.posargs, env={**IN_TESTS, **WITH_NOTEBOOKS})
        return
    add(session, COSMIC_RAY)
    chosen = ("-m", "slow") if IS_REST else ("-m", "")
    required = {**IN_TESTS, **WITH_NOTEBOOKS, "MUTATION_REQUIRED": "1"}
    session.run(*PYTEST, *chosen, *session.posargs, env=required)


def framework(session: nox.Session, name: str) -> None:
    """One plugin alone with its framework: the suite's profile ``tensor``, examples, or all."""
    # Without what the examples need: Keras and MXNet import scikit-learn and SciPy where they are,
    # and that is a third of the time of each of the many processes that import them.
    install(session, name, extras="cli")
    load_once(session, name)
    if not IS_FULL:
        conform = ("python", "-m", "unidev", "conform", name, "--simulate", "3", "--no-host")
        session.run(*conform, *session.posargs, env=IN_TESTS)
        if not session.posargs:  # they choose among the checks
            session.run(*PYTEST, *IN_ONE, ON_EACH, "-m", "first", "-k", name, env=IN_TESTS)
        return
    if name == "torch":
        add(session, *FOR_OPERATORS, *MPIRUN, *FRAMEWORKS[name])
    parts = folders(name)
    check_types(session, *(f"{part}/src" for part in parts))
    chosen = ("-m", "not first") if IS_REST else ("-m", "")
    session.run(*PYTEST, *parts, *chosen, *session.posargs, env=IN_TESTS)
    if not session.posargs:  # they choose among the plugin's tests
        # With the framework's own pins, lest one of these replaces what it needs.
        notebooks = EXTRAS["notebooks"] if name in ("torch", "jax") else []
        add(session, *EXTRAS["examples"], *notebooks, *FRAMEWORKS[name])
        run_once(session, "import sklearn.datasets, matplotlib.figure")
        # NumPy, and what needs no framework, is tested in the core's session.
        on_it = ("-k", f"{name} or frameworks_that_are_here")
        env = {**IN_TESTS, **(WITH_NOTEBOOKS if notebooks else {})}
        session.run(*PYTEST, ON_EACH, *chosen, *on_it, env=env)


@nox.session(tags=FULL)
def jax(session: nox.Session) -> None:
    """JAX alone: first among them, since it takes the longest."""
    framework(session, "jax")


@nox.session(venv_backend=WITH_TORCH, tags=FULL)
def torch(session: nox.Session) -> None:
    """PyTorch alone."""
    framework(session, "torch")


@nox.session(tags=FULL)
def tensorflow(session: nox.Session) -> None:
    """TensorFlow alone."""
    framework(session, "tensorflow")


@nox.session(tags=FULL)
def paddle(session: nox.Session) -> None:
    """PaddlePaddle alone."""
    framework(session, "paddle")


@nox.session(tags=FULL)
def mxnet(session: nox.Session) -> None:
    """MXNet alone."""
    framework(session, "mxnet")


# -- what `nox -t full` runs besides ---------------------------------------------------------------


@nox.session(default=False, tags=FULL)
def lint(session: nox.Session) -> None:
    """Style, and the core's types."""
    install(session, extras="bench")
    session.install(RUFF, "nox")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    suite = "plugins/unidev-conformance/src"
    check_types(session, "unidev", "unidev_pytest", suite, "noxfile.py", "hatch_build.py", "tools")


@nox.session(default=False, tags=FULL)
def docs(session: nox.Session) -> None:
    """The documentation site: each warning is an error, and so is a link that leads nowhere."""
    # As in `core`; without the plugins, since the pages say what all of them can do.
    install(session, extras="bench,docs")
    session.install("mini-racer>=0.14")  # V8, which runs the site's search
    made = Path("docs", "_build")
    site = made / "html"
    shutil.rmtree(site, ignore_errors=True)  # a page that is gone is found by links to it
    # All pages each time: a page that is not read again gives no warning.
    strict = ("--fail-on-warning", "--keep-going", "--fresh-env", "--quiet")
    session.run("sphinx-build", *strict, "-d", str(made / "doctrees"), "docs", str(site))
    required = {**IN_TESTS, "SITE_REQUIRED": "1", "BUILT_SITE": str(site.absolute())}
    session.run(*PYTEST, *IN_ONE, "tests/site", env=required)


@nox.session(default=False, tags=FULL)
def array_api(session: nox.Session) -> None:
    """Libraries of the array API standard: the suite on array-api-strict, and what is refused."""
    install(session, "array_api", extras="cli")
    check_types(session, "plugins/unidev-array-api/src")
    session.run(*PYTEST, "-m", "", "plugins/unidev-array-api", *session.posargs, env=IN_TESTS)


@nox.session(default=False, tags=FULL)
def ray(session: nox.Session) -> None:
    """The launcher on Ray, and clusters of two nodes on this machine; NumPy alone."""
    install(session, "ray", extras="cli")
    check_types(session, "plugins/unidev-ray/src")
    # One after the other: each starts a Ray of its own.
    required = {**IN_TESTS, "RAY_REQUIRED": "1"}  # a missing Ray is an error, no skip
    session.run(*PYTEST, *IN_ONE, "plugins/unidev-ray", *session.posargs, env=required)


@nox.session(default=False, python=python_for("newest", NEWEST))
def newest(session: nox.Session) -> None:
    """The core's tests on the newest Python, where there is one."""
    if session.python is False:
        session.skip(f"left out: there is no python{NEWEST} on the PATH that runs")
    install(session, extras="test")
    add(session, COSMIC_RAY)
    all_of_it = {**IN_TESTS, **WITH_NOTEBOOKS, "MUTATION_REQUIRED": "1"}
    session.run(*PYTEST, "-m", "", *session.posargs, env=all_of_it)


@nox.session(default=False, python=python_for("lowest", OLDEST), venv_backend="virtualenv")
def lowest(session: nox.Session) -> None:
    """The core's tests on the oldest Python and the oldest declared version of each dependency."""
    if session.python is False:
        session.skip(f"left out: there is no python{OLDEST} on the PATH that runs")
    limits = lowest_versions(session, OLDEST, "test")
    install(session, extras="test", constraints=limits)
    add(session, COSMIC_RAY, *limits)
    all_of_it = {**IN_TESTS, **WITH_NOTEBOOKS, "MUTATION_REQUIRED": "1"}
    session.run(*PYTEST[:3], "-m", "", *session.posargs, env=all_of_it)


@nox.session(default=False, venv_backend=WITH_TORCH, tags=FULL)
def together(session: nox.Session) -> None:
    """PyTorch, TensorFlow, PaddlePaddle, MXNet and array-api-strict in one environment."""
    # Before the others: it has few tests, and long ones, so at the end a core would be idle.
    install(session, *TOGETHER, *ARRAY_API)
    session.run("python", "-m", "pip", "check")
    load_once(session, *TOGETHER)
    session.run(*PYTEST, "-m", "", "plugins/together", *session.posargs, env=IN_TESTS)


@nox.session(default=False, venv_backend=WITH_TORCH, tags=FULL)
def together_jax(session: nox.Session) -> None:
    """JAX beside PyTorch, PaddlePaddle and array-api-strict, in one process."""
    install(session, *BESIDE_JAX, *ARRAY_API, extras="cli")
    session.run(*PYTEST, "-m", "", "plugins/together_jax", *session.posargs, env=IN_TESTS)


@nox.session(default=False, venv_backend=WITH_TORCH)
def newest_framework(session: nox.Session) -> None:
    """One plugin on the newest release of its framework: ``nox -s newest_framework -- torch``."""
    (name,) = session.posargs or [""]
    if name not in FRAMEWORKS:
        session.error(f"name one framework: {', '.join(FRAMEWORKS)}")
    # The bare names, whatever the plugin declares: an untested version is a warning.
    newer = {each: [part.partition("==")[0] for part in FRAMEWORKS[each]] for each in FRAMEWORKS}
    install(session, name, extras="cli", versions=newer)
    ignored = "ignore::unidev.errors.UntestedVersionWarning"
    parts = folders(name)
    session.run(*PYTEST, "-m", "", *parts, "-W", ignored, env=IN_TESTS)


@nox.session(
    default=False, venv_backend="virtualenv", tags=FULL if "WITH_STAND_IN" in os.environ else []
)
def stand_in(session: nox.Session) -> None:
    """PyTorch's CUDA build on a stand-in for the CUDA runtime: 6 GB, and no GPU."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        session.skip("left out: the stand-in for CUDA needs Linux on x86-64")
    if shutil.which("g++") is None:
        session.skip("left out: the stand-in for CUDA is built with g++, and there is none")
    install(session, "torch", versions={"torch": [CUDA_TORCH]})
    # One process, which imports torch once; each test is a fork of it.
    command = ("python", "tests/stand_in/run.py", *PYTEST[1:], *IN_ONE, "tests/stand_in")
    session.run(*command, *session.posargs, env=IN_TESTS)


@nox.session(default=False, venv_backend=WITH_TORCH, tags=FULL)
def libraries(session: nox.Session) -> None:
    """Objects of other libraries in batches of PyTorch tensors, and PyTorch in workers of Ray."""
    install(session, "torch", "ray", extras="cli")
    session.install(*LIBRARIES)
    required = {**IN_TESTS, "LIBRARIES_REQUIRED": "1"}  # what is missing is an error, no skip
    session.run(*PYTEST, "tests/libraries", *session.posargs, env=required)
    if not session.posargs:  # one after the other, as in `ray`
        required = {**required, "RAY_REQUIRED": "1"}
        session.run(*PYTEST, *IN_ONE, "plugins/unidev-ray", "-k", "torch", env=required)


@nox.session(default=False, venv_backend=WITH_TORCH)
def benchmarks(session: nox.Session) -> None:
    """What it costs, into docs/benchmarks.md: ``nox -s benchmarks [-- --rounds 1 --page COPY]``."""
    install(session, *TOGETHER)
    session.install("accelerate", "array-api-compat", "lightning-fabric", "transformers")
    others = Path(session.create_tmp(), "jax")  # which cannot be beside MXNet
    python = str(others / "bin/python")
    session.run("python", "-m", "venv", "--clear", str(others))
    own = ("-e", ".[bench]", "-e", "plugins/unidev-jax")
    session.run(python, "-m", "pip", "install", "-q", *own, *FRAMEWORKS["jax"], external=True)
    session.run(
        "python", "benchmarks/page.py", "--python", python, *session.posargs,
        interrupt_timeout=20, terminate_timeout=5,  # its children remove their files
    )  # fmt: skip


@nox.session(default=False, venv_backend=WITH_TORCH)
def mutation(session: nox.Session) -> None:
    """What the suite catches of a machine's faults: ``nox -s mutation -- torch --sample 100``."""
    name, *options = session.posargs or [""]
    if name not in ("numpy", *FRAMEWORKS):
        session.error(f"name one backend: numpy, {', '.join(FRAMEWORKS)}")
    install(session, *[name] * (name != "numpy"), extras="cli")
    session.install("--no-compile", COSMIC_RAY)
    session.run("python", "tools/mutation_score.py", name, *options, env=IN_TESTS)


@nox.session(default=False, venv_backend=WITH_TORCH)
def attacks(session: nox.Session) -> None:
    """Drawn bad calls and Ctrl-C at drawn moments: ``nox -s attacks [-- torch]``; 40 minutes."""
    chosen = session.posargs or ["numpy", *FRAMEWORKS]
    if unknown := [name for name in chosen if name not in ("numpy", *FRAMEWORKS)]:
        session.error(f"no backend {unknown[0]}: numpy, {', '.join(FRAMEWORKS)}")
    install(session, *(name for name in chosen if name != "numpy"), extras="cli")
    found = []
    for name in chosen:
        for attack in (
            ("bad_calls.py", "--calls", "5000"),
            ("odd_leaves.py",),
            ("interruptions.py", "--seconds", "240"),
        ):
            file, *options = attack
            try:
                session.run("python", f"tests/fuzz/{file}", name, *options, env=IN_TESTS)
            except nox.command.CommandFailed:  # the others go on
                found.append(f"{file} {name}")
    if found:
        session.error(f"these found something: {', '.join(found)}")


@nox.session(default=False, venv_backend="none")
def programs_of_others(session: nox.Session) -> None:
    """Other people's test suites on two simulated GPUs: ``nox -s programs_of_others -- SUITE``."""
    session.run("python", "tools/programs_of_others", *session.posargs)


@nox.session(default=False, venv_backend=WITH_TORCH)
def operators(session: nox.Session) -> None:
    """All operators of PyTorch on its simulated GPUs, under both names: two minutes."""
    install(session, "torch", extras="cli")
    session.install("--no-compile", *FOR_OPERATORS, "scipy", *FRAMEWORKS["torch"])
    program = "plugins/unidev-torch-simulator/tests/operators/run_operators.py"
    for name in ("cuda", "sim"):
        session.run("python", program, "--name", name, *session.posargs)


@nox.session(default=False, venv_backend=WITH_TORCH)
def matrix(session: nox.Session) -> None:
    """Which checks catch each mutant, of all in its profile: ``nox -s matrix -- numpy``."""
    name, *options = session.posargs or [""]
    if name not in ("numpy", *FRAMEWORKS):
        session.error(f"name one backend: numpy, {', '.join(FRAMEWORKS)}")
    install(session, *[name] * (name != "numpy"), extras="cli")
    path = os.pathsep.join(str(Path(each).absolute()) for each in ("tests", "tests/helpers"))
    env = {**IN_TESTS, "PYTHONPATH": path}
    session.run("python", "tools/mutant_matrix.py", name, *options, env=env)


# -- while you work --------------------------------------------------------------------------------


@nox.session(default=False, reuse_venv=True)
def style(session: nox.Session) -> None:
    """Style alone, in seconds: ``nox -s style`` installs nothing but ruff."""
    session.install(RUFF)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(name="format", default=False, reuse_venv=True)
def format_(session: nox.Session) -> None:
    """Fix and format the code: ``nox -s format``."""
    session.install(RUFF)
    session.run("ruff", "check", "--fix", ".")
    session.run("ruff", "format", ".")


@nox.session(default=False, venv_backend="none")
def quick(session: nox.Session) -> None:
    """Tests without the suite: ``nox -s quick -- torch -k copies``, ``-- core tests/nn``."""
    name, *options = session.posargs or ["core"]
    python = python_of(session, name)
    if name != "core":
        options = [*folders(name), "--ignore-glob=*/test_conformance*.py", *options]
    session.run(python, *PYTEST[1:], "-m", "", *options, env=IN_TESTS)


@nox.session(default=False, venv_backend="none")
def check(session: nox.Session) -> None:
    """Checks of the suite on one backend: ``nox -s check -- torch copy.zero_d --simulate 2``."""
    if len(session.posargs) < 2:
        session.error("name a backend and a check: nox -s check -- torch copy.zero_d")
    backend, checks, *options = session.posargs
    python = python_of(session, ENVIRONMENTS.get(backend, backend))
    session.run(python, "-m", "unidev", "conform", backend, "--only", checks, *options)


# nox's own words for a name that is unknown do not say which there are.
refuse_unknown(("-s", "--session", "--sessions"), "session", nox.registry.get())
refuse_unknown(("-t", "--tag", "--tags"), "tag", FULL)
