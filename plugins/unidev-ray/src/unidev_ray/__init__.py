"""The launcher ``ray`` of unidev. Importing it does not import Ray."""

from __future__ import annotations

from unidev.contract import LauncherSpec, hookimpl


@hookimpl
def unidev_register_launcher() -> LauncherSpec:
    """Workers in actors of Ray, as ``ray``."""
    return LauncherSpec(
        name="ray",
        contract_version=3,
        load="unidev_ray.launcher:RayLauncher",
        takes_address=True,
        variables={
            "UNIDEV_RAY_PLACE_TIMEOUT": (
                "how many seconds workers may wait until a Ray cluster has room for them; 60"
            )
        },
    )
