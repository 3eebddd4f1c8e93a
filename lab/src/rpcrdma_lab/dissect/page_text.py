"""Text that peers have written, made harmless for pages and pictures."""

from __future__ import annotations

import html

from rpcrdma.commands.console import printable

__all__ = ["page_text"]


def page_text(text: str) -> str:
    """Returns `text` as `printable` makes it, with entities for markup characters and quotes of HTML and XML."""
    return html.escape(printable(text))
