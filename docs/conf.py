"""Configuration of the documentation site, which `make docs` builds, and of the manual pages of `make deb`."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

import rpcrdma

sys.path.insert(0, str(Path(__file__).parent))

import manual_pages  # beside this file, which Sphinx runs outside of any package
import reference_pages

project = "rpcrdma"
copyright = "The rpcrdma authors"  # noqa: A001 - Sphinx's name
version = release = rpcrdma.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["attrs_inline", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["grafana-dashboard.json"]

# Docstrings name code in single backquotes.
default_role = "code"
# Arguments and errors that many methods of a class have in common.
napoleon_custom_sections = [("Shared by the methods", "params_style")]
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
add_module_names = False
# The index of the signatures leads to each name. Types in signatures need no page.
nitpicky = True
nitpick_ignore_regex = [(r"py:(?!obj$).*", r".*"), (r"py:obj", r"(?!rpcrdma\.).*")]

html_theme = "furo"
html_title = f"rpcrdma {release}"
html_static_path = ["site"]
html_css_files = ["narrow.css"]
html_show_copyright = False


man_pages = manual_pages.MAN_PAGES
man_show_urls = False


def setup(app: Sphinx) -> None:
    """Writes the pages that are generated from the code, before Sphinx looks for pages."""
    app.connect("builder-inited", _write_pages)


def _write_pages(app: Sphinx) -> None:
    if app.builder.name == "man":
        # From a folder that has these alone.
        reference_pages.write(Path(app.srcdir), manual_pages.pages())
    else:
        reference_pages.write(Path(app.srcdir) / "generated", reference_pages.pages())
