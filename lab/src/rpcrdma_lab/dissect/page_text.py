"""Text that peers have written, made harmless for pages and pictures."""

from __future__ import annotations

import html

from rpcrdma.commands.console import printable

__all__ = ["page_text"]


def page_text(text: str) -> str:
    """Returns `text` for HTML, SVG and XML: as `printable` makes it, with entities for markup and for both quotes."""
    return html.escape(printable(text))
