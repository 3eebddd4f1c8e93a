"""Configuration of the documentation site, which `make docs` builds, and of the manual pages of `make deb`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
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

# Two hyphens begin an option. Sphinx's own stand between a parameter and its meaning: see `_finish`.
smartquotes_action = "qe"
# Blocks without a language are shell, output and logs, in which Sphinx would look for words of Python.
highlight_language = "none"
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
html_css_files = ["rpcrdma.css"]
html_favicon = "site/favicon.svg"
html_show_copyright = False


man_pages = manual_pages.MAN_PAGES
man_show_urls = False


def setup(app: Sphinx) -> None:
    """Writes the pages that are generated from the code, before Sphinx looks for pages."""
    app.connect("builder-inited", _write_pages)
    app.connect("autodoc-process-docstring", _hide_colons, priority=400)
    app.connect("autodoc-process-docstring", _show_colons, priority=600)
    app.connect("autodoc-process-signature", _parsable)
    app.connect("doctree-resolved", _finish)


def _write_pages(app: Sphinx) -> None:
    if app.builder.name == "man":
        # From a folder that has these alone.
        reference_pages.write(Path(app.srcdir), manual_pages.pages())
    else:
        reference_pages.write(Path(app.srcdir) / "generated", reference_pages.pages())


COLON = "\ue000"
"""In the place of a colon while napoleon, whose priority is 500, would take the words before it for a type."""


def _hide_colons(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    """In the first line of an attribute and of "Returns:": types are in the signatures, and no docstring has any."""
    first = {0} if what in ("attribute", "data", "property") else set()
    for number in first | {number for number, line in enumerate(lines, 1) if line.strip() == "Returns:"}:
        if number < len(lines):
            lines[number] = lines[number].replace(":", COLON)


def _show_colons(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    lines[:] = [line.replace(COLON, ":") for line in lines]


def _parsable(
    app: Sphinx,  # noqa: ARG001
    what: str,  # noqa: ARG001
    name: str,  # noqa: ARG001
    obj: Any,  # noqa: ARG001
    options: Any,  # noqa: ARG001
    signature: str | None,
    returned: str | None,
) -> tuple[str, str | None] | None:
    """Defaults that are functions or classes by their names, others as "...".

    Sphinx prints a signature that is no Python as it is, with the modules of all types.
    """
    if signature is None:
        return None
    named = re.sub(r"<(?:(?:built-in )?function|class) '?(?:\w+\.)*(\w+)'?>", r"\1", signature)
    return re.sub(r"= ?<[^<>]*>", "=...", named), returned


def _finish(app: Sphinx, doctree: nodes.document, page: str) -> None:  # noqa: ARG001
    """Makes Sphinx's hyphens a dash, and tells the style sheet which code has only words that any place can hold."""
    for text in list(doctree.findall(nodes.Text)):
        if text.astext() == " -- ":
            text.parent.replace(text, nodes.Text(" – "))  # noqa: RUF001
    in_tables = {id(code) for cell in doctree.findall(nodes.entry) for code in cell.findall(nodes.literal)}
    for code in doctree.findall(nodes.literal):
        if max(map(len, code.astext().split()), default=0) <= (16 if id(code) in in_tables else 24):
            code["classes"].append("short")
