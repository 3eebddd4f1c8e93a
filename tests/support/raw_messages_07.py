"""Messages of version 2 as its last draft has them, made of octets, of either side, right or wrong, and their reader.

All names and arguments are those of `raw_messages`, so that a test can be given either of the two modules: kind and
flags determine the type of the header, and `give` is a number of new credits here as well.
"""

from __future__ import annotations

from typing import Any

from rpcrdma.scripted.layouts import LAYOUTS
from support.raw_headers import chunk, made_header, read_segment
from support.raw_messages import (
    CONNPROP,
    ERROR,
    MORE,
    MSG,
    NOMSG,
    RECEIVE_SIZE,
    RESPONSE,
    HeardMessage,
    property_set,
    word,
)

__all__ = [
    "BAD_PROPVAL",
    "BAD_XDR",
    "CALL_OCTETS",
    "GRANT_TAKES",
    "INVAL_CONT",
    "INVAL_HTYPE",
    "NAME",
    "PIECE_OCTETS",
    "PREFIX_OCTETS",
    "READ_CHUNKS",
    "REPLY_RESOURCE",
    "SEGMENTS",
    "SYSTEM",
    "VERS_MISMATCH",
    "WRITE_CHUNKS",
    "WRITE_RESOURCE",
    "Credits",
    "chunk",
    "error",
    "grant",
    "heard",
    "message",
    "prefix",
    "properties",
    "property_set",
    "read_segment",
    "word",
]

NAME = "2-07"
PREFIX_OCTETS, CALL_OCTETS, PIECE_OCTETS = 16, 32, 20
"""What a header has at least: any, that of an inline call, and that of a piece."""
GRANT_TAKES = 1
"""Credits that an asynchronous grant takes, such as an endpoint sends after properties."""
BAD_XDR, BAD_PROPVAL, INVAL_HTYPE, INVAL_CONT = range(2, 6)
READ_CHUNKS, WRITE_CHUNKS, SEGMENTS, WRITE_RESOURCE, REPLY_RESOURCE, VERS_MISMATCH = range(6, 12)
SYSTEM = 100

GRANT, CONNPROP_MIDDLE, CONNPROP_FINAL = 5, 6, 7
CALL_EXTERNAL, CALL_MIDDLE, CALL_INLINE, REPLY_EXTERNAL, REPLY_MIDDLE, REPLY_INLINE = range(8, 14)
"""Types of headers."""

_TYPES = {
    (MSG, 0): CALL_INLINE,
    (MSG, MORE): CALL_MIDDLE,
    (MSG, RESPONSE): REPLY_INLINE,
    (MSG, RESPONSE | MORE): REPLY_MIDDLE,
    (NOMSG, 0): CALL_EXTERNAL,
    (NOMSG, RESPONSE): REPLY_EXTERNAL,
    (CONNPROP, 0): CONNPROP_FINAL,
    (CONNPROP, MORE): CONNPROP_MIDDLE,
    (ERROR, RESPONSE): ERROR,
}
_MEANINGS = {number: meaning for meaning, number in _TYPES.items()}
_READ_ENTRY_OCTETS = 24


def prefix(xid: int, kind: int, flags: int = 0, *, give: int = 0, version: int = 2) -> bytes:
    """The four words of every header; a kind that has no type in this draft stands for the type of that number.

    Raises:
        KeyError: no header of this draft has these flags.
    """
    known = kind in (MSG, NOMSG, CONNPROP, ERROR)
    fields = {"xid": xid, "version": version, "credit": give, "type": _TYPES[kind, flags] if known else kind}
    return made_header(NAME, fields, PREFIX_OCTETS)


def message(
    xid: int,
    payload: bytes = b"",
    flags: int = 0,
    *,
    kind: int = MSG,
    give: int = 1,
    ends: int = 0,
    reads: bytes = b"",
    writes: bytes = b"",
    reply: bytes = b"",
    remaining: int = 0,
) -> bytes:
    """A call, a reply or a part of one; Read segments of a long call at Position Zero are its Call chunk.

    Arguments for which the header of the type has no place must not be given.
    """
    header_type = _TYPES[kind, flags]
    fields = {"xid": xid, "credit": give, "type": header_type}
    given: dict[str, bytes | int] = {"invalidate": ends, "reads": reads, "writes": writes, "reply": reply}
    if header_type == CALL_EXTERNAL:
        entries = [reads[at : at + _READ_ENTRY_OCTETS] for at in range(0, len(reads), _READ_ENTRY_OCTETS)]
        given["call"] = b"".join(each for each in entries if not any(each[4:8]))
        given["reads"] = b"".join(each for each in entries if any(each[4:8]))
    places = dict(LAYOUTS[NAME].bodies[header_type])
    assert not any(value for name, value in given.items() if name not in places)
    if flags & MORE:
        given["remaining"] = remaining
    return made_header(NAME, fields | {name: value for name, value in given.items() if name in places}) + payload


def properties(*pairs: tuple[int, bytes], xid: int = 1, flags: int = 0, give: int = 1) -> bytes:
    """An RDMA2_CONNPROP_FINAL, or _MIDDLE, with these numbers and values; with a receive size if there are none."""
    return prefix(xid, CONNPROP, flags, give=give) + property_set(*(pairs or ((RECEIVE_SIZE, word(4096)),)))


def error(xid: int, code: int, *numbers: int) -> bytes:
    """An RDMA2_ERROR; `numbers` are the arguments of its code."""
    return made_header(
        NAME, {"xid": xid, "credit": 0, "type": _TYPES[ERROR, RESPONSE], "error": code, "numbers": list(numbers)}
    )


def grant(give: int) -> bytes:
    """An RDMA2_GRANT."""
    return made_header(NAME, {"xid": 0, "credit": give, "type": GRANT})


class _HeardMessage(HeardMessage):
    """In terms of `raw_messages`: kind and flags are that draft's, the Call chunk is in `reads` at Position Zero."""

    layout, prefix_octets = NAME, PREFIX_OCTETS

    def words(self, header: dict[str, Any]) -> tuple[int, int, int]:
        """Kind and flags of the first draft, and the credit word."""
        kind, flags = (NOMSG, 0) if header["type"] == GRANT else _MEANINGS[header["type"]]
        return kind, flags, header["credit"]


def heard(data: bytes) -> HeardMessage:
    """A received message, taken apart."""
    return _HeardMessage(data)


class Credits:
    """Both credit accounts of one end: this draft's words tell how many messages may have been sent altogether."""

    def __init__(self) -> None:
        self.given = 1
        self._got = 1

    def sent(self, octets: bytes) -> bytes:
        """The message with the credit word of this draft, if it is one of version 2: all that was given up to it."""
        if len(octets) < PREFIX_OCTETS or octets[4:8] != word(2):
            return octets
        self.given += int.from_bytes(octets[8:12], "big")
        return octets[:8] + word(self.given & 0xFFFFFFFF) + octets[12:]

    def arrived(self, message: HeardMessage) -> None:
        """Makes `message.give` the number of credits that are new."""
        message.give, self._got = message.give - self._got, message.give
