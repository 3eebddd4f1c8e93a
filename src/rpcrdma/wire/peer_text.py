"""Text that peers have written, made harmless for terminals, logs and pages."""

from __future__ import annotations

__all__ = ["page_text", "printable"]

_RAW_OCTETS = range(0xDC80, 0xDD00)
"""The surrogates of octets that are not valid UTF-8."""


def printable(text: str) -> str:
    """Returns `text` with escapes for the characters that a terminal or a log would obey.

    Escaped are C0 and C1 controls, line ends, octets that are no UTF-8 (0x9b alone starts a sequence on some terminals)
    and characters that change the order in which others are shown. An escaped text stays as it is.

    Args:
        text: What a peer or a file has named, with surrogates for octets that are no UTF-8.
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def page_text(text: str) -> str:
    """Returns `text` for HTML, SVG and XML: as `printable` makes it, with entities for markup and for both quotes."""
    import html  # noqa: PLC0415 - commands that write no page start sooner without it

    return html.escape(printable(text))


def _escaped(character: str) -> str:
    import unicodedata  # noqa: PLC0415 - most text is printable as it is

    # Spaces other than the ASCII one count as unprintable, but do no harm.
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    code = ord(character)
    if code in _RAW_OCTETS:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
