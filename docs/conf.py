"""The documentation site: ``nox -s docs``, or ``sphinx-build -W --keep-going docs OUT``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

from unidev.system.version import __version__ as release  # noqa: E402  - the path comes first

project = "unidev"
author = "the unidev authors"
project_copyright = author
html_title = f"unidev {release}"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "unidev_diff",
    "unidev_generated",
    "unidev_llms",
    "unidev_notebooks",
    "unidev_repository",
    "unidev_types",
    "unidev_viewcode",
]

exclude_patterns = ["_build"]
templates_path: list[str] = []
suppress_warnings: list[str] = []

# -- strict: a link that leads nowhere is a warning, and a warning is an error ---------------------

nitpicky = True
nitpick_ignore = [  # Python's own and NumPy's: their pages are not looked up in the network
    ("py:class", name)
    for name in (
        "AbstractContextManager", "FrameType", "Path", "np.ndarray", "os.PathLike", "pathlib.Path",
        "threading.RLock", *"LMPQRT",  # type variables
    )
]  # fmt: skip
myst_heading_anchors = 4  # so that `page.md#a-heading` works as it does on the repository's pages
myst_enable_extensions = ["colon_fence", "deflist"]

# -- notebooks, which run while the site is built --------------------------------------------------

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_mime_priority_overrides = [("page-markdown", "text/plain", 1)]  # unidev_llms
os.environ |= {"UNIDEV_BACKEND": "numpy", "UNIDEV_SIMULATE": "2"}  # for their kernels

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
html_search_scorer = str(HERE / "_ext" / "scorer.js")
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
copybutton_selector = "div:not(.no-copy):not(.cell_output) > div.highlight > pre"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
pygments_style = "tango"
pygments_dark_style = "monokai"  # the default underlines imported names, as if they were links
highlight_language = "text"  # only a block with a language is coloured; the source is Python
