"""Settings of Sphinx for the documentation site: ``make docs``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "endpointd"
copyright = "the endpointd authors, Apache-2.0"  # noqa: A001 - Sphinx's name
html_title = "aiokube, tinykube, endpointd"
extensions = [
    "facade",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx_click",
]
exclude_patterns = ["_build", "guide/examples"]

# Headings of the first four levels get the anchors that GitHub gives them.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries = False

doctest_global_setup = "import asyncio"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"footer_icons": [], "top_of_page_buttons": []}
# Two words in double quotes and options such as --dry-run are shown as they are written.
smartquotes = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
