"""The hooks by which plugins register backends and launchers.

A plugin is installed with an entry point in the group ``unidev``::

    [project.entry-points.unidev]
    mine = "my_package"

and its module puts ``@unidev.hookimpl`` on a function with a hook's name. unidev calls no hook
after registration: pluggy is not on the hot path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from unidev.contract.backend_spec import BackendSpec
    from unidev.contract.launcher import LauncherSpec

PROJECT = "unidev"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def unidev_register_backend() -> BackendSpec:  # type: ignore[empty-body]  # a spec has no body
    """Return the spec of one backend. Do not import the framework here."""


@hookspec
def unidev_register_launcher() -> LauncherSpec:  # type: ignore[empty-body]  # a spec has no body
    """Return the spec of one launcher, for ``unidev.run``. Do not import what it runs on here."""
