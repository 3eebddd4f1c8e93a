"""Sequence diagrams as SVG: two vertical lines, and an arrow for each message from the top down."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from rpcrdma.commands.console import printable

__all__ = ["ARROW_HEADS", "Arrow", "page_text", "sequence_parts", "svg_text"]

ARROW_HEADS = """\
<defs>
  <marker id="head" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">
    <path class="head" d="M0 0 L9 4 L0 8 z"/></marker>
  <marker id="datahead" markerWidth="12" markerHeight="12" refX="9" refY="6" orient="auto" markerUnits="userSpaceOnUse">
    <path class="datahead" d="M0 0 L12 6 L0 12 z"/></marker>
</defs>
"""
"""The SVG definitions of arrowheads, which a document with arrows has to contain once."""

_STEP, _LINE = 52, 16


def page_text(text: str) -> str:
    """Returns `text` with escapes for control characters, and with entities for markup characters of HTML and XML."""
    return html.escape(printable(text))


@dataclass(frozen=True, slots=True)
class Arrow:
    """One message of a sequence diagram: an arrow from the left line to the right one (`to_right`) or back.

    `label` is the text above the arrow, `details` are lines of text below it, and `margin` is text left of the diagram.
    `bulk` makes the arrow thick. A `key` that is not empty encloses the arrow in a group element with the attribute
    `data-message` KEY and the class "step", or "step wrong" if `wrong`.
    """

    to_right: bool
    label: str
    details: tuple[str, ...] = ()
    bulk: bool = False
    margin: str = ""
    key: str = ""
    wrong: bool = False


def svg_text(x: int, y: int, words: str, kind: str = "", anchor: str = "middle") -> str:
    """Returns an SVG text element as text, with its anchor at `x` and its baseline at `y`, in user units.

    `words` is the plain text, which is escaped here. `kind` is the element's class, "" for none, and `anchor` its
    attribute text-anchor.
    """
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{f" class={kind!r}" if kind else ""}>{page_text(words)}</text>'


def sequence_parts(
    ends: tuple[str, str], arrows: Sequence[Arrow], *, left: int, right: int, top: int
) -> tuple[int, list[str]]:
    """Returns the y of the bottom of a sequence diagram, in user units downward, and its SVG elements as text.

    The vertical lines of the two `ends` are at the x `left` and `right`, the baseline of their names is at the y `top`,
    and the `arrows` follow from there downward.
    """
    heights = [_STEP + _LINE * max(len(arrow.details) - 1, 0) for arrow in arrows]
    bottom = top + 36 + sum(heights)
    parts = []
    for x, end in zip((left, right), ends, strict=True):
        parts.append(svg_text(x, top, end, "name"))
        parts.append(f'<line class="line" x1="{x}" y1="{top + 8}" x2="{x}" y2="{bottom}"/>')
    y = top + 44
    for arrow, height in zip(arrows, heights, strict=True):
        drawn = _drawn(arrow, left, right, y)
        if arrow.key:
            kind = "step wrong" if arrow.wrong else "step"
            area = f'<rect class="area" x="{left + 1}" y="{y - 24}" width="{right - left - 2}" height="{height - 4}"/>'
            drawn = [f'<g class="{kind}" tabindex="0" data-message="{page_text(arrow.key)}">', area, *drawn, "</g>"]
        parts += drawn
        y += height
    return bottom, parts


def _drawn(arrow: Arrow, left: int, right: int, y: int) -> list[str]:
    middle = (left + right) // 2
    start, tip = (left + 2, right - 2) if arrow.to_right else (right - 2, left + 2)
    kind, head = ("data", "datahead") if arrow.bulk else ("arrow", "head")
    parts = [svg_text(middle, y - 7, arrow.label)]
    parts += [svg_text(middle, y + 15 + _LINE * row, words, "small") for row, words in enumerate(arrow.details)]
    if arrow.margin:
        parts.append(svg_text(left - 8, y + 4, arrow.margin, "small", "end"))
    parts.append(f'<line class="{kind}" x1="{start}" y1="{y}" x2="{tip}" y2="{y}" marker-end="url(#{head})"/>')
    return parts
