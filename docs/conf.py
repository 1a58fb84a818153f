"""The documentation site: ``nox -s docs``, or ``sphinx-build -W --keep-going docs OUT``."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:  # Sphinx runs on 3.10, too
    import tomli as tomllib

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

repository_url = PROJECT["urls"]["Repository"]  # for links to sources
repository_branch = "main"

project = "unidev"
author = "the unidev authors"
project_copyright = author
html_title = "unidev"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.linkcode",
    "sphinx.ext.napoleon",
    "unidev_generated",
    "unidev_repository",
    "unidev_types",
]

exclude_patterns = ["_build"]
templates_path: list[str] = []
suppress_warnings: list[str] = []

# -- strict: a link that leads nowhere is a warning, and a warning is an error ---------------------

nitpicky = True
nitpick_ignore = [  # Python's own and NumPy's: their pages are not looked up in the network
    ("py:class", name)
    for name in (
        "AbstractContextManager", "Path", "np.ndarray", "os.PathLike", "threading.RLock",
        *"LMPQRT",  # type variables
    )
]  # fmt: skip
myst_heading_anchors = 4  # so that `page.md#a-heading` works as it does on the repository's pages
myst_enable_extensions = ["colon_fence", "deflist"]

# -- the reference, from the docstrings ------------------------------------------------------------

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": False}
autodoc_preserve_defaults = True
autoclass_content = "class"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Every collective raises", "Raises")]
napoleon_preprocess_types = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"

# -- how it looks: all of it is in the folder, nothing is downloaded -------------------------------

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["unidev.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "tango"
pygments_dark_style = "monokai"  # the default underlines imported names, as if they were links
highlight_language = "none"  # only a block with a language is coloured
