"""Text that peers have written, made harmless for pages and pictures."""

from __future__ import annotations

import html

from rpcrdma.commands.console import printable

__all__ = ["page_text"]


def page_text(text: str) -> str:
    """Returns `text` with escapes for control characters, and with entities for markup characters of HTML and XML."""
    return html.escape(printable(text))
