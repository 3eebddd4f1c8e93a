"""Exchanges as one HTML page that needs no other file: ladders as SVG, filters, and fields and octets of messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.exchanges import Exchange
from rpcrdma_lab.dissect.fields import Field, FieldFault, Message
from rpcrdma_lab.dissect.sequence_svg import ARROW_HEADS, Arrow, page_text, sequence_parts
from rpcrdma_lab.dissect.shown_messages import body_words, elapsed, shown_messages

__all__ = ["ExchangePage", "exchange_page", "filled_page"]

_TEMPLATE = Path(__file__).with_name("exchange_page.html")
_LEFT, _RIGHT, _TOP, _WIDTH = 84, 750, 18, 800
_PLACE = re.compile("@([A-Z]+)@")
_IN_PAYLOAD = ("RPC", "arguments", "results")
_DETAIL_CHARACTERS, _BODY_WORDS_MAX = 110, 80


class ExchangePage(NamedTuple):
    """An HTML page about RPC calls: its text, and the numbers of exchanges shown and left out to bound its size."""

    text: str
    shown: int
    left_out: int


def exchange_page(source: str, exchanges: Iterable[Exchange]) -> ExchangePage:
    """Returns an HTML page about exchanges, each the messages of one RPC call; `source` names the capture in its title.

    Each exchange with which the page would exceed `EXPLAINED_PAGE_MESSAGES_MAX` or `EXPLAINED_PAGE_FILE_OCTETS_MAX` is
    left out; shorter ones after it may still be shown.
    """
    sections: list[str] = []
    panels: list[str] = []
    left_out = 0
    room = limits.EXPLAINED_PAGE_FILE_OCTETS_MAX
    for exchange in exchanges:
        added = None
        if len(panels) + len(exchange.messages) <= limits.EXPLAINED_PAGE_MESSAGES_MAX:
            section = "\n".join(_section(exchange, is_open=not sections))
            added = _panels(exchange, room - len(section.encode()))
        if added is None:
            left_out += 1
            continue
        sections.append(section)
        panels += added
        room -= len(section.encode()) + sum(map(len, added))
    parts = {
        "TITLE": page_text(f"Calls in {source}"),
        "HEADS": ARROW_HEADS,
        "EXCHANGES": "\n".join(sections),
        "MESSAGES": f"{{{', '.join(panels)}}}",
    }
    return ExchangePage(filled_page(_TEMPLATE, parts), len(sections), left_out)


def filled_page(template: Path, parts: Mapping[str, str]) -> str:
    """Returns the text of a template file in UTF-8 with each mark @NAME@ replaced by `parts[NAME]`, unchanged.

    NAME is of capital letters. The template is HTML: the caller escapes texts in `parts`.

    Raises:
        KeyError: the template has a mark that is not in `parts`.
    """
    return _PLACE.sub(lambda place: parts[place[1]], template.read_text(encoding="utf-8"))


def _section(exchange: Exchange, *, is_open: bool) -> Iterator[str]:
    rules = sorted({_rule(fault) for _, fault in exchange.faults})
    facts = {
        "data-xid": "" if exchange.xid is None else f"{exchange.xid:#010x}",
        "data-procedure": exchange.procedure or "",
        "data-rules": json.dumps(rules),
        "data-failed": "yes" if exchange.failed else "no",
    }
    words = " ".join(f"{name}='{page_text(value)}'" for name, value in facts.items())
    kind = "exchange broken" if exchange.faults else "exchange"
    yield f'<details class="{kind}" {words}{" open" if is_open or exchange.faults else ""}>'
    name = exchange.procedure or ("A call that is not known" if exchange.xid is not None else "Outside of calls")
    outcome = f"<span class='{'bad' if exchange.failed else 'good'}'>{page_text(exchange.outcome or '')}</span>"
    after = "" if exchange.elapsed_s is None else elapsed(exchange.elapsed_s)
    yield (
        f"<summary><span class='place'>{exchange.number}</span><span class='name'>{page_text(name)}</span>"
        f"<code>{facts['data-xid']}</code>{outcome}<span class='time'>{after}</span></summary>"
    )
    yield "<div class='inside'>"
    version = f", version {exchange.version}" if exchange.version else ""
    at = "" if exchange.start_s is None else f", at {exchange.start_s:.6f} s"
    ends = f"{exchange.requester} to {exchange.responder}, " if exchange.requester else ""
    yield f"<p class='about'>{page_text(f'{ends}connection {exchange.connection}{version}{at}')}</p>"
    yield _body("Arguments", exchange.body("arguments"))
    yield _ladder(exchange)
    yield _body("Results", exchange.body("results"))
    for message, fault in exchange.faults:
        yield f"<div class='fault'>#{message.number}: {page_text(str(fault))}</div>"
    for message, fault in exchange.deliberate_faults:
        yield f"<div class='body'>#{message.number}, deliberate: {page_text(str(fault))}</div>"
    yield "</div></details>"


def _rule(fault: FieldFault) -> str:
    """Returns the name of a broken rule for the page's filter: requirement and section, or else the reason."""
    return ", ".join(filter(None, (fault.requirement, fault.section))) or fault.reason


def _ladder(exchange: Exchange) -> str:
    arrows = [
        Arrow(
            step.to_right,
            step.label,
            tuple(words[:_DETAIL_CHARACTERS] for words in step.details),
            step.bulk,
            step.since,
            str(step.message.number),
            bool(step.message.faults) and not step.message.facts.get("deliberate"),
        )
        for step in shown_messages(exchange)
    ]
    ends = ("requester", "responder") if exchange.xid is not None else ("one end", "the other")
    bottom, parts = sequence_parts(ends, arrows, left=_LEFT, right=_RIGHT, top=_TOP)
    return f'<svg viewBox="0 0 {_WIDTH} {bottom + 6}" role="img">{"".join(parts)}</svg>'


def _body(title: str, body: Field | None) -> str:
    if body is None:
        return ""
    found = []
    every = body_words(body)
    for words in every[:_BODY_WORDS_MAX]:
        name, _, value = words.partition(" ")
        found.append(f"<span><i>{page_text(name)}</i> {page_text(value)}</span>")
    more = f" <i>and {len(every) - _BODY_WORDS_MAX} more</i>" if len(every) > _BODY_WORDS_MAX else ""
    return f"<p class='body'><b>{title}</b> {' '.join(found)}{more}</p>"


def _panels(exchange: Exchange, room: int) -> list[str] | None:
    """Returns '"NUMBER": OBJECT' in JSON for each message of an exchange; None if above `room` characters in all."""
    found = []
    for message in exchange.messages:
        # Nothing in a script element ends it but its own end tag.
        found.append(f'"{message.number}": {json.dumps(_panel(message))}'.replace("<", "\\u003c"))
        room -= len(found[-1])
        if room < 0:
            return None
    return found


def _panel(message: Message) -> dict[str, Any]:
    """Returns title, notes, faults, fields and first octets of a message as a JSON object for the page's script."""
    room = limits.EXPLAINED_PAGE_FIELDS_MAX
    groups = []
    for group in message.groups:
        rows = list(_rows(group, 0))
        if len(rows) > room:
            rows[room:] = [(0, rows[room][1], 0, "", f"and {len(rows) - room} more fields", "", False)]
        room = max(room - len(rows), 0)
        groups.append({"name": group.name, "base": _base(group, message), "fields": rows})
    octets = message.facts.get("octets", len(message.octets))
    deliberate = message.facts.get("deliberate", False)
    place = "" if message.time_s is None else f"{message.time_s:.6f} s"
    if message.source:
        place += f", {message.source} to {message.destination}"
    return {
        "title": message.summary,
        "place": place,
        "notes": message.notes,
        "faults": [f"deliberate: {fault}" if deliberate else str(fault) for fault in message.faults],
        "octets": octets,
        "hex": message.octets[: limits.EXPLAINED_PAGE_OCTETS_MAX].hex(),
        "groups": groups,
    }


def _base(group: Field, message: Message) -> int | None:
    """Returns the octet of the message to which offsets of the fields in `group` are relative.

    Returns None if the message is not RPC-over-RDMA, or the group is not in its octets, but in a header below, in a
    chunk or in an RPC message of several messages.
    """
    if message.protocol != "rpcrdma":
        return None
    if group.name.startswith(("RPC-over-RDMA", "Behind the header")):
        return 0
    header = message.facts.get("header_octets")
    whole = "sequence" not in message.facts and "transmission" not in message.facts
    is_inline = all(other.name != "RPC, in the Reply chunk" for other in message.groups)
    return header if whole and is_inline and group.name.endswith(_IN_PAYLOAD) else None


def _rows(group: Field, depth: int) -> Iterator[tuple[int, int, int, str, str, str, bool]]:
    for one in group.fields:
        section = f" [{one.section}]" if one.section and one.meaning else ""
        yield depth, one.offset, one.size, one.name, one.shown, f"{one.meaning}{section}", bool(one.faults)
        yield from _rows(one, depth + 1)
