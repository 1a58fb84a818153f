"""All tests: ``nox`` runs every session; ``nox -s torch`` one of them; ``nox -l`` lists them.

Each framework is tested in an environment of its own, so that a plugin is known to work where no
other framework is. One more session holds the four together in one process.
"""

import nox

nox.needs_version = ">=2024.3.2"
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = True

FRAMEWORKS = {
    # CPU builds, in the versions that were measured; a plugin's own range is wider.
    "torch": ["torch==2.13.0"],
    "tensorflow": ["tensorflow-cpu==2.21.*"],
    "paddle": ["paddlepaddle==3.3.1"],
    "mxnet": ["mxnet==1.9.1", "numpy==1.26.4"],
}
ON_EACH = [
    "tests/test_examples.py",
    "tests/test_training_examples.py",
    "tests/test_slow_gpu_example.py",
    "tests/test_traced_verbs.py",
]
"""Tests of the core that run on whatever framework is there."""
TYPED = ["mypy>=1.13", "ruff>=0.8"]


def install(session: nox.Session, *names: str, more: tuple[str, ...] = ()) -> None:
    """Install the core, and plugins with their frameworks, from this checkout."""
    frameworks = [requirement for name in names for requirement in FRAMEWORKS[name]]
    plugins = [part for name in names for part in ("-e", f"plugins/unidev-{name}")]
    session.install("-e", ".[conformance,examples]", *plugins, *frameworks, *more)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, and the core's types."""
    install(session, more=(*TYPED, "nox"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy", "unidev", "noxfile.py")
    session.run("mypy", "--python-version", "3.10", "unidev")


@nox.session
def core(session: nox.Session) -> None:
    """The core, its conformance suite and its mutants, with no framework but NumPy."""
    install(session, more=("hatchling>=1.25",))  # a test builds the wheel
    session.run("python", "-m", "pytest", *session.posargs)


def framework(session: nox.Session, name: str) -> None:
    """One plugin alone with its framework: types, its tests, the suite, what runs on each."""
    install(session, name, more=("mypy>=1.13",))
    session.run("mypy", f"plugins/unidev-{name}/src")
    session.run("python", "-m", "pytest", f"plugins/unidev-{name}", *session.posargs)
    if not session.posargs:  # they choose among the plugin's tests
        session.run("python", "-m", "pytest", *ON_EACH)


@nox.session
def torch(session: nox.Session) -> None:
    """PyTorch alone."""
    framework(session, "torch")


@nox.session
def tensorflow(session: nox.Session) -> None:
    """TensorFlow alone."""
    framework(session, "tensorflow")


@nox.session
def paddle(session: nox.Session) -> None:
    """PaddlePaddle alone."""
    framework(session, "paddle")


@nox.session
def mxnet(session: nox.Session) -> None:
    """MXNet alone."""
    framework(session, "mxnet")


@nox.session
def together(session: nox.Session) -> None:
    """The four frameworks in one environment and one process."""
    install(session, *FRAMEWORKS)
    session.run("python", "-m", "pip", "check")
    session.run("python", "-m", "pytest", "plugins/together", *session.posargs)


@nox.session(default=False)
def benchmarks(session: nox.Session) -> None:
    """What it costs; not part of the tests."""
    install(session, *FRAMEWORKS, more=("accelerate", "array-api-compat", "lightning-fabric"))
    session.run("python", "benchmarks/overhead.py")
    session.run("python", "benchmarks/copies.py")
    session.run("python", "benchmarks/models.py")
