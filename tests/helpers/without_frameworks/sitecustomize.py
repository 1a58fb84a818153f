"""Children of the core's tests see no installed framework; see ``hiding.py``."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_HERE = os.path.dirname(os.path.abspath(__file__))
FRAMEWORKS = ("jax", "keras", "mxnet", "paddle", "ray", "tensorflow", "torch")
_INSTALLED = ("site-packages", "dist-packages")


class Hiding(PathFinder):
    """Finds neither frameworks nor plugins where pip installs; elsewhere both, as tests make them.

    What an environment holds is then the same to a test wherever it runs. It imports nothing but
    what Python has imported before it, since tests ask what `import unidev` imports.
    """

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        """Look for a framework outside of the folders where pip installs."""
        if path is None and fullname in FRAMEWORKS:
            path = [each for each in sys.path if os.path.basename(each) not in _INSTALLED]
        return super().find_spec(fullname, path, target)

    @staticmethod
    def find_distributions(*context, **keywords):
        """All but those that register a plugin of unidev's."""
        for found in PathFinder.find_distributions(*context, **keywords):
            folder = os.path.basename(str(found.locate_file("")).rstrip(os.sep))
            is_plugin = "[unidev]" in (found.read_text("entry_points.txt") or "")
            if folder not in _INSTALLED or not is_plugin:
                yield found


def start() -> None:
    """Hide what is installed from this process."""
    sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding


def _hand_on() -> None:
    """Run the ``sitecustomize`` that this one hides, if there is any."""
    path = [each for each in sys.path if os.path.abspath(each) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        sys.modules["sitecustomize"] = module = module_from_spec(spec)
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":  # not where `hiding.py` loads this file
    start()
    _hand_on()
