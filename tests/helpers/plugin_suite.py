"""The conformance suite on a plugin's backend, and on naive ones that are made of it.

Each run has a process of its own, a copy of one that has imported the framework and the checks.
A test file of a plugin imports all of this, and says which ``BACKEND``.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from conformance_children import arguments, result_in
from warm_programs import SUITE, run_fresh, run_program

from unidev_conformance.running.child import Order, environment

if TYPE_CHECKING:
    from pathlib import Path


COUNTS: dict[str, int] = {}
"""Of profiles, numbers of simulated GPUs other than those below."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Without simulated GPUs, and with as many as make every pair and a third; long ones first."""
    counts = {"train": 3, "multi": 3, "tensor": 3, "interop": 2, **metafunc.module.COUNTS}
    # What `nox` judges.
    first = pytest.param("tensor", counts.pop("tensor"), marks=pytest.mark.first)
    metafunc.parametrize(
        ("profile", "count"), [*counts.items(), ("train", 0), ("tensor", 0), first]
    )


def test_the_backend_conforms(
    request: pytest.FixtureRequest, profile: str, count: int, tmp_path: Path
) -> None:
    # Drawn programs of models are in both profiles, and here on the same devices.
    judged = ("training_sequences.of_models_and_shards",) if profile == "multi" else ()
    check_conforms(request.module.BACKEND, profile, count, tmp_path, exclude=judged)


def check_conforms(
    backend: str,
    profile: str,
    simulated: int,
    folder: Path,
    *,
    also: tuple[str, ...] = (),
    simulate_as: str | None = None,
    exclude: tuple[str, ...] = (),
    late: str = "",
) -> None:
    """The backend passes the checks of the profile but for ``exclude``, in a process of its own.

    With ``also``, modules that are imported besides, all backends are judged in copies of one. With
    ``simulate_as`` the framework is imported anew, since only then it looks for that name; these
    GPUs may be ``late``.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_")}
    words = ["-m", "pytest", "--pyargs", "unidev_conformance", "-p", "no:cacheprovider"]
    words += ["--unidev-backend", backend, "--unidev-simulate", str(simulated)]
    words += ["--unidev-profile", profile, "--unidev-exclude", ",".join(exclude)]
    if simulate_as is not None:
        words += ["--unidev-simulate-as", simulate_as]
        own["UNIDEV_SIMULATE_LATE"] = late
        done = run_fresh(words, environment=own, folder=folder)
    else:
        of = "" if also else backend
        done = run_program(words, backend=of, also=(*also, *SUITE), environment=own, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def judge(
    plugin: str,
    checks: tuple[str, ...],
    *,
    instead_of: str,
    simulated: int,
    folder: Path,
    is_fresh: bool = False,
) -> dict[str, str]:
    """What each of ``checks`` comes to for ``plugin``; one that did not end is ``unfinished``.

    Args:
        plugin: ``module:attribute`` of a ``NaiveBackend``; the module can be imported here.
        checks: ids.
        instead_of: the backend that it is made of, whose plugin is switched off.
        simulated: how many simulated GPUs there are.
        folder: for the files of the run.
        is_fresh: the framework may not be imported yet, as it asks for what is set here.
    """
    name = f"naive_{plugin.rpartition(':')[2]}"
    order = Order(backend=name, profile="tensor", simulated=simulated, only=checks)
    variables = {
        "UNIDEV_PLUGINS": plugin,
        "UNIDEV_DISABLED_PLUGINS": instead_of,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),  # what is imported here is there
    }
    words = ["-m", "pytest", *arguments(order, folder)]
    own = environment(simulated, {**os.environ, **variables}, folder)
    if is_fresh:
        run_fresh(words, environment=own, folder=folder / "cwd")
    else:
        run_program(words, backend=instead_of, also=SUITE, environment=own, folder=folder / "cwd")
    return result_in(folder).results
