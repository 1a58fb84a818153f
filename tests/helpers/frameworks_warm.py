"""Imports every framework that is here, by its plugin, but for those that each program imports.

A program on several frameworks is forked from a process that has done so.
"""

from importlib.util import find_spec

from warm_programs import IMPORTED_LATER

from unidev.backends.discovery import backend_specs
from unidev.backends.loading import load_class

for name, spec in backend_specs().items():
    if name not in IMPORTED_LATER and find_spec(spec.framework) is not None:
        load_class(spec)
