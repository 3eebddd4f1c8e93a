"""Drawings of the documentation as SVG: sequence diagrams of messages, diagrams of transition tables, and layers.

The colours follow the reader's light or dark mode. A drawing is a function of its data alone, so that a test can draw
it again and compare.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from rpcrdma_lab.dissect.sequence_svg import ARROW_HEADS, Arrow, sequence_parts
from rpcrdma_lab.dissect.sequence_svg import svg_text as _text

__all__ = ["Arrow", "layer_diagram", "sequence_diagram", "state_diagram"]

STYLE = """\
<style>
  text { font: 13px system-ui, sans-serif; fill: #1a1a1a; }
  .small { font-size: 11px; fill: #555; }
  .name { font-weight: 600; }
  .line { stroke: #888; fill: none; }
  .arrow { stroke: #1a1a1a; fill: none; }
  .data { stroke: #b5482a; stroke-width: 3; fill: none; }
  .box { stroke: #888; fill: #f4f4f4; }
  .head { fill: #1a1a1a; }
  .datahead { fill: #b5482a; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6e6e6; }
    .small { fill: #aaa; }
    .arrow { stroke: #e6e6e6; }
    .data { stroke: #f08a66; }
    .box { fill: #2a2a2a; }
    .head { fill: #e6e6e6; }
    .datahead { fill: #f08a66; }
  }
</style>
"""


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">\n<title>{escape(title)}</title>\n'
    )
    return head + STYLE + ARROW_HEADS + "\n".join(parts) + "\n</svg>\n"


def sequence_diagram(title: str, ends: tuple[str, str], arrows: Sequence[Arrow]) -> str:
    """Two lifelines, and an arrow for each message from the top down."""
    left, right = 70, 650
    bottom, parts = sequence_parts(ends, arrows, left=left, right=right, top=48)
    return _svg(720, bottom + 12, title, [_text((left + right) // 2, 22, title, "name"), *parts])


def state_diagram(title: str, states: Sequence[str], transitions: Mapping[tuple[str, str], str]) -> str:
    """The states of a transition table as boxes, from the first to the last, and its transitions as lines beside them.

    An input that leads from every other state to one state is a line of text below the title.
    """
    everywhere = _from_everywhere(transitions)
    inputs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (state, given), following in transitions.items():
        if (given, following) not in everywhere:
            inputs[state, following].append(given)
    leaving = {name: [pair for pair in inputs if pair[0] == name] for name in states}
    entered = {following for _, following in inputs}
    row, gap, box_left, box_right, lane = 20, 16, 20, 210, 14
    label_end = box_right + 16 + 7 * max((len(", ".join(words)) for words in inputs.values()), default=0)
    y = 44 + 18 * len(everywhere)
    parts = [_text(box_left, 22, title, "name", "start")]
    for line, (given, following) in enumerate(everywhere):
        parts.append(_text(box_left, 42 + 18 * line, f"{given}: from any other state to {following}", "small", "start"))
    exits: dict[tuple[str, str], int] = {}
    entries: dict[str, int] = {}
    for name in states:
        rows = max(1, len(leaving[name]) + (name in entered))
        parts.append(
            f'<rect class="box" x="{box_left}" y="{y}" width="{box_right - box_left}" height="{rows * row}" rx="4"/>'
        )
        parts.append(_text((box_left + box_right) // 2, y + rows * row // 2 + 5, name, "name"))
        entries[name] = y + row // 2
        for number, pair in enumerate(leaving[name], int(name in entered)):
            exits[pair] = y + row * number + row // 2
        y += rows * row + gap
    lanes: list[int] = []
    for pair in sorted(inputs, key=lambda pair: min(exits[pair], entries[pair[1]])):
        first, last = sorted((exits[pair], entries[pair[1]]))
        number = next((number for number, taken in enumerate(lanes) if taken < first), len(lanes))
        lanes[number : number + 1] = [last]
        x = label_end + lane * number
        path = f"M{box_right} {exits[pair]} H{x} V{entries[pair[1]]} H{box_right + 2}"
        parts.append(f'<path class="arrow" d="{path}" marker-end="url(#head)"/>')
        parts.append(_text(box_right + 8, exits[pair] - 4, ", ".join(inputs[pair]), "small", "start"))
    return _svg(label_end + lane * len(lanes) + 10, y, title, parts)


def _from_everywhere(transitions: Mapping[tuple[str, str], str]) -> list[tuple[str, str]]:
    """The pairs of an input and a state to which that input leads from every other state that is not final."""
    passing = {state for state, _ in transitions}
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (state, given), following in transitions.items():
        found[given, following].add(state)
    return [pair for pair, origins in found.items() if origins >= passing - {pair[1]} and len(origins) > 2]


def layer_diagram(title: str, rows: Sequence[Mapping[str, str]], border: tuple[int, str]) -> str:
    """Rows of boxes from the top down, each box with the name of a layer and a few words on it.

    `border` is the number of rows above a dashed line, and the words at that line.
    """
    left, right, height, gap = 20, 740, 46, 14
    y = 40
    parts = [_text((left + right) // 2, 22, title, "name")]
    for number, row in enumerate(rows):
        if number == border[0]:
            parts.append(_text(right, y + 12, border[1], "small", "end"))
            ends = f'x1="{left}" y1="{y + 18}" x2="{right}" y2="{y + 18}"'
            parts.append(f'<line class="line" {ends} stroke-dasharray="6 4"/>')
            y += 32
        width = (right - left - gap * (len(row) - 1)) // len(row)
        for place, (name, words) in enumerate(row.items()):
            x = left + place * (width + gap)
            parts.append(f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>')
            parts.append(_text(x + width // 2, y + 20, name, "name"))
            parts.append(_text(x + width // 2, y + 37, words, "small"))
        y += height + gap
    return _svg(right + left, y, title, parts)
