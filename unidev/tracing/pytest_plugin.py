"""Loads ``unidev_pytest``, for checkouts that were installed when pytest's plugin was here.

Their entry points name this module until the next ``pip install``.
"""

pytest_plugins = ("unidev_pytest",)
