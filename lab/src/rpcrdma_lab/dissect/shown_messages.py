"""The messages of an exchange as arrows between two ends, with the words that a ladder shows at each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from rpcrdma_lab.dissect.exchanges import Exchange
from rpcrdma_lab.dissect.fields import Field, Message

__all__ = ["ShownMessage", "body_words", "elapsed", "segment_words", "shown_messages"]

_TOLD_OTHERWISE = ("serves ", "answers #", "refuses #", "invalidates ")
_BULK_OCTETS = 4096


class ShownMessage(NamedTuple):
    """A message of an RPC call as an arrow of a ladder; `to_right` says that the requester sent the message.

    `label` is the text on the arrow, `details` are further lines, and `since` is the time after the call's first
    message as text, "" if unknown. `bulk` says that the message carries 4096 octets or more.
    """

    message: Message
    to_right: bool
    label: str
    details: list[str]
    since: str
    bulk: bool


def shown_messages(exchange: Exchange) -> Iterator[ShownMessage]:
    """Yields each message of an RPC call (`exchange`), in order, with direction and texts for an arrow of a diagram."""
    start_s = exchange.start_s
    for message in exchange.messages:
        since = "" if start_s is None or message.time_s is None else elapsed(message.time_s - start_s)
        octets = message.facts.get("octets", 0)
        bulk = isinstance(octets, int) and octets >= _BULK_OCTETS
        yield ShownMessage(
            message, message.source == exchange.requester, _label(message), list(_details(message)), since, bulk
        )


def elapsed(seconds: float) -> str:
    """Returns a duration as text with its unit, such as "250 us": us below 10 ms, ms below 10 s, otherwise s."""
    if seconds < 1e-2:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 10 else f"{seconds:.1f} s"


def _label(message: Message) -> str:
    facts = message.facts
    if message.protocol == "rpcrdma":
        operation = message.summary.partition(",")[0]
        role = facts.get("message") or ("error" if "error" in facts else "part" if "sequence" in facts else "")
        if "transmission" in facts and not facts.get("message"):
            role = "part"
        return f"{operation}, {facts.get('type') or 'no header that is known'} {role}".rstrip()
    if facts.get("handle") is None:
        return message.summary.partition(":")[0]
    operation = message.summary.partition(",")[0]
    octets = facts["asked"] if "asked" in facts else facts["octets"]
    return f"{operation}, {facts['handle']:#010x}, {octets} octets"


def _details(message: Message) -> Iterator[str]:
    facts = message.facts
    if message.protocol == "rpcrdma":
        yield f"{facts['octets']} octets, {facts['payload_octets']} of them payload"
        if placed := facts.get("placed_octets"):
            yield f"{placed} octets are placed in segments of the receive buffer"
    if "serves" in facts:
        place = "" if message.summary.startswith("RDMA Read Response") else f", at offset {facts['offset']:#x}"
        yield f"{facts['serves']['chunk']}, segment {facts['serves']['segment']}{place}"
    for chunk in facts.get("chunks", ()):
        words = ", ".join(segment_words(segment) for segment in chunk["segments"])
        yield f"{chunk['chunk']}: {words or 'no segments'}"
    if "invalidated_handle" in facts:
        yield f"invalidates {facts['invalidated_handle']:#010x}"
    answer = [str(facts[name]) for name in ("error", "outcome", "status") if facts.get(name)]
    if answer:
        yield ", ".join(answer)
    for note in message.notes:
        if not note.startswith(_TOLD_OTHERWISE):
            yield note


def segment_words(segment: dict[str, int]) -> str:
    """Returns a segment of a chunk as text "HANDLE, LENGTH at OFFSET", such as "0x0000abcd, 4096 at 0x100".

    `segment` has the keys "handle", "length" and "offset".
    """
    return f"{segment['handle']:#010x}, {segment['length']} at {segment['offset']:#x}"


def body_words(body: Field) -> list[str]:
    """Returns the values in `body`, decoded arguments or results, as texts "NAME VALUE" in wire order.

    A field "data" that is alone in a structure within `body` has the structure's name. A name that occurs more than
    once is preceded by the name of the field's structure, as "STRUCTURE.NAME", except for a field directly in `body`,
    such as the "status" of a COMPOUND. Fields without a value are left out.
    """
    found = [_Leaf(one, group, group is body) for group in body.walk() for one in group.fields if not one.fields]
    found = sorted((leaf for leaf in found if leaf.field.value is not None), key=lambda leaf: leaf.field.offset)
    names = Counter(leaf.name for leaf in found)
    return [
        f"{f'{leaf.group.name}.{leaf.name}' if names[leaf.name] > 1 and not leaf.in_body else leaf.name} "
        f"{_value_shown(leaf.field)}"
        for leaf in found
    ]


class _Leaf(NamedTuple):
    field: Field
    group: Field
    in_body: bool
    """Whether the field is directly in the body, whose name is that of the procedure."""

    @property
    def name(self) -> str:
        """The name for readers: the field's name, or that of a structure in the body whose only field is "data"."""
        alone = len(self.group.fields) == 1 and self.field.name == "data" and not self.in_body
        return self.group.name if alone else self.field.name


def _value_shown(one: Field) -> str:
    if isinstance(one.value, bytes):
        return f"0x{one.value[:8].hex()}{'...' if len(one.value) > 8 else ''}" if one.value else "empty"
    if isinstance(one.value, str) and one.value:
        return f'"{one.value}"'
    if isinstance(one.value, int) and one.shown.endswith(")"):
        return one.shown.partition("(")[2][:-1]
    return one.shown
