"""An exchange as a ladder of at most 72 columns of ASCII, which fits into a draft or a mail."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from rpcrdma_lab.dissect.exchanges import Exchange
from rpcrdma_lab.dissect.fields import Field
from rpcrdma_lab.dissect.ladder import LadderShape, Rung, ladder_line
from rpcrdma_lab.dissect.shown_messages import ShownMessage, body_words, elapsed, shown_messages

__all__ = ["TEXT_COLUMNS", "exchange_lines"]

TEXT_COLUMNS = 72
_SHAPE = LadderShape(ends=2, margin=16, first=0, step=54)
_KEPT = "\0"
"""Stands for a space at which no line may be broken."""
_UNPRINTABLE = re.compile(r"[^ -~]")
_BODY_LINES_MAX, _BODY_WORDS_MAX = 4, 24


def exchange_lines(exchange: Exchange) -> Iterator[str]:
    """Yields lines, of at most 72 columns, that show the messages of an exchange as a ladder; the last is empty."""
    is_call = exchange.xid is not None
    yield from _wrapped(_ascii(_title(exchange)), "")
    about = [f"version {exchange.version}"] if exchange.version else []
    about += [] if exchange.start_s is None else [f"at {exchange.start_s:.6f} s"]
    about.append(f"connection {exchange.connection}")
    about += [f"{exchange.requester} > {exchange.responder}"] if exchange.requester else []
    yield from _listed(about)
    yield from _body("arguments", exchange.body("arguments"))
    left, right = ("requester", "responder") if is_call else ("one end", "the other")
    yield " " * _SHAPE.line_at(0) + left.ljust(_SHAPE.step + 1 - len(right)) + right
    for step in shown_messages(exchange):
        yield from _rungs(step)
    yield from _body("results", exchange.body("results"))
    yield ""


def _title(exchange: Exchange) -> str:
    if exchange.xid is None:
        error = f": {exchange.outcome}" if exchange.outcome else ""
        return f"{exchange.number}. Messages outside of calls{error}"
    after = "" if exchange.elapsed_s is None else f" after {elapsed(exchange.elapsed_s)}"
    procedure = exchange.procedure or "a call that is not known"
    return f"{exchange.number}. {procedure}, xid {exchange.xid:#010x}: {exchange.outcome}{after}"


def _rungs(step: ShownMessage) -> Iterator[str]:
    margin = f"{f'#{step.message.number}':>6}{step.since:>9} "
    at, to = (0, 1) if step.to_right else (1, 0)
    yield ladder_line(_SHAPE, Rung(margin, _ascii(step.label), at, to))
    kind = "deliberate" if step.message.facts.get("deliberate") else "wrong"
    for words in [*step.details, *(f"{kind}: {fault}" for fault in step.message.faults)]:
        for line in textwrap.wrap(_ascii(words), _SHAPE.step - 4, subsequent_indent="  "):
            yield ladder_line(_SHAPE, Rung("", line, 0, beside=True))


def _body(part: str, body: Field | None) -> list[str]:
    words = body_words(body) if body is not None else []
    lines: list[str] = []
    for shown in range(min(len(words), _BODY_WORDS_MAX), 0, -1):
        more = [f"and {len(words) - shown} more"] if shown < len(words) else []
        lines = _listed([f"{part}: {words[0]}", *words[1:shown], *more])
        if len(lines) <= _BODY_LINES_MAX:
            break
    return lines


def _listed(pieces: list[str]) -> list[str]:
    """Returns indented lines of at most 72 columns with the texts `pieces`, escaped by `_ascii` and joined by commas.

    The first line begins with two spaces, further lines with four. A line ends within a text only if the text is longer
    than a line.
    """
    text = ", ".join(_ascii(piece).replace(" ", _KEPT) for piece in pieces)
    return [line.replace(_KEPT, " ") for line in _wrapped(text, "  ")]


def _wrapped(text: str, indent: str) -> list[str]:
    # Long items such as names are divided: no line is wider.
    return textwrap.wrap(
        text, TEXT_COLUMNS, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )


def _ascii(text: str) -> str:
    """Returns `text` with escapes for control characters and non-ASCII characters, since names may be hostile."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
