"""Pulls the XDR out of a specification: lines that a "///" sentinel marks (the habit of IETF documents)."""

from __future__ import annotations

import re

__all__ = ["extract"]

_SENTINEL = re.compile(r"^[^\S\n]*///(?: (.*)|[^\S\n]*)$")


def extract(text: str) -> str:
    """Returns the XDR definition in the text of an IETF specification: the marked lines, without their mark.

    The mark is "/// ", which white space may precede, or a line of "///" alone. Indentation after the mark stays, and
    runs of empty lines become one; none begins or ends the definition. Other lines (prose, page headers and footers)
    are left out. In lines with "///", the usual HTML tags are removed and the usual character references resolved.
    Returns "" if no line is marked.
    """
    lines: list[str] = []
    for line in text.replace("\f", "\n").splitlines():
        match = _SENTINEL.match(_plain(line))
        if match is None:
            continue
        content = (match.group(1) or "").rstrip()
        if content or (lines and lines[-1]):
            lines.append(content)
    while lines and not lines[-1]:
        lines.pop()
    return "".join(f"{line}\n" for line in lines)


_TAG = re.compile(
    r"</?(?:pre|span|a|p|div|code|t|br|artwork|sourcecode|figure)\b[^<>]*>|<!\[CDATA\[|\]\]>", re.IGNORECASE
)
_REFERENCES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&"))


def _plain(line: str) -> str:
    if "///" not in line:
        return line
    line = _TAG.sub("", line)
    for reference, character in _REFERENCES:
        line = line.replace(reference, character)
    return line.replace("\N{NO-BREAK SPACE}", " ")
