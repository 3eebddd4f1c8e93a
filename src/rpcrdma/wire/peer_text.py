"""Text that peers have written, made harmless for terminals and logs."""

from __future__ import annotations

__all__ = ["printable"]

_RAW_OCTETS = range(0xDC80, 0xDD00)
"""The surrogates of octets that are not valid UTF-8."""


def printable(text: str) -> str:
    """Returns `text` with escapes for all unprintable characters (`str.isprintable`) except spaces (category Zs).

    So a terminal or a log obeys none of them. Escaped are C0 and C1 controls, line ends, octets that are no UTF-8 (0x9b
    alone starts a sequence on some terminals), characters that change the order in which others are shown, and
    unassigned ones. Backslashes stay, so that an escaped text stays as it is.

    Args:
        text: text of a peer or a file, with surrogates for octets that are no UTF-8.
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    import unicodedata  # noqa: PLC0415 - most text is printable as it is

    # Spaces other than the ASCII one count as unprintable, but do no harm.
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    code = ord(character)
    if code in _RAW_OCTETS:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
