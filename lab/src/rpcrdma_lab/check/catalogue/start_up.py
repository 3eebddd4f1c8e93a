"""Checks of the MPA start-up, of queue depths and of private data (RFC 5044, RFC 6581, RFC 8797)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rpcrdma_lab.check.answers import ANSWERED, NULL, afterwards, ended, hear, say
from rpcrdma_lab.check.catalogue.frame_mistakes import FrameMistake
from rpcrdma_lab.check.entry import Check, Step, check

__all__ = ["CHECKS", "MISTAKES"]

_REPLY_KEY = {"text": "MPA ID Rep Frame"}
_NO_OTHER_FLAGS = {"any": [0x10, 0x50, 0x90, 0xD0]}
_REPLY = {"key": _REPLY_KEY, "rejected": 0, "enhanced": 1, "revision": 2, "flags": _NO_OTHER_FLAGS}
_UNENHANCED_REPLY = {"key": _REPLY_KEY, "rejected": 0, "enhanced": 0, "flags": {"any": [0x00, 0x40, 0x80, 0xC0]}}
_CALL: Sequence[Step] = (NULL, ANSWERED)
_READY_BY_WRITE = {"any": [0b1010, 0b1110, 0b1011, 0b1111]}
"""The pattern of the flags before a Reply's depths in the peer-to-peer model with an RDMA Write as ready-to-receive."""
_READY_OTHERWISE = {"any": [0b1100, 0b1001, 0b1101]}
_READY_AND_CALL: Sequence[Step] = (say(payload="", ddp={"opcode": "write"}), *_CALL)


def _row(
    field: str, name: str, title: str, statements: str, *steps: Step, needs: str = "", **frame: Any
) -> FrameMistake:
    said = ({"startup": frame},)
    return FrameMistake(f"startup.{field}", f"mpa.startup.{name}", title, said, steps, statements, needs)


def _ended(field: str, name: str, title: str, statements: str, **frame: Any) -> FrameMistake:
    """Returns the row of a check: an MPA Request with wrong fields, `frame`, after which the server must disconnect.

    `field` names the wrong field. `name` is the check's identifier after "mpa.startup." and `title` its expected
    behaviour as text; `statements` are identifiers of the tested statements, separated by spaces.
    """
    return _row(field, name, title, statements, *ended(), **frame)


def _answered(
    field: str, name: str, title: str, statements: str, *replies: Any, then: Sequence[Step] = _CALL, **frame: Any
) -> FrameMistake:
    """Returns the row of a check: an MPA Request with the fields `frame`, right or wrong, and the answers to it.

    The answer must match one of the patterns `replies`; none stands for a usual MPA Reply. `field` names the tested
    field, and the steps `then` follow the reply. `name` is the check's identifier after "mpa.startup." and `title` its
    expected behaviour as text; `statements` are identifiers of the tested statements, separated by spaces.
    """
    return _row(field, name, title, statements, hear(*(replies or ({"startup": _REPLY},))), *then, **frame)


def _check(row: FrameMistake) -> Check:
    steps = (*(say(**each) for each in row.said), *row.outcome)
    return check(row.kind, row.title, row.statements, *steps, needs=row.needs, startup=None)


MISTAKES: tuple[FrameMistake, ...] = (
    _answered("flags", "reply", "The Reply has the key, the revision and no flag of its own", "MPA-32 MPA-35 EM-3"),
    _ended("key", "key-of-a-reply", "The key of a Reply ends the connection", "MPA-42 MPA-32", key=_REPLY_KEY),
    _ended("key", "key-unknown", "An unknown key ends the connection", "MPA-48 MPA-38",
           key={"text": "GET / HTTP/1.1\r\n"}),
    _ended("revision", "revision-0", "Revision 0 ends the connection", "MPA-35", revision=0),
    *(_row("revision", f"revision-{number}", f"Revision {number} ends the connection, or gets a Reply of no later one",
           "MPA-35", hear({"end": {}}, {"startup": {"key": _REPLY_KEY, "revision": {"min": 1, "max": number}}}),
           revision=number)
      for number in (3, 255)),
    _ended("length", "length-513", "Private data of 513 octets ends the connection", "MPA-36 MPA-44", length=513),
    _ended("length", "length-65535", "Private data of 65,535 octets ends the connection", "MPA-36 MPA-44",
           length=0xFFFF),
    _row("length", "length-short", "Octets behind the private data are no part of it, nor a right frame", "MPA-36",
         hear({"end": {}, "last": True}, {"startup": _REPLY}), hear({"end": {}}, {"terminate": {}}), length=4,
         data="0002 0000 0000 0000"),
    _row("length", "length-beyond-the-end", "Private data that the stream ends within ends the connection",
         "MPA-36 MPA-38", {"end": {}}, *ended(), length=13, needs="risky"),
    # RFC 6581 names no answer to it; siw rejects the Request.
    *(_row("length", f"length-{name}", f"A Request whose private data ends {words} its depths is not accepted",
           "MPA-38 EM-3", hear({"end": {}}, {"startup": {"rejected": 1}}), enhanced=False, length=length,
           data={"zeros": length})
      for name, words, length in (("before-the-depths", "before", 0), ("within-the-depths", "within", 2))),
    _answered("flags", "no-flags", "A Request without S gets a Reply without queue depths", "EM-15",
              {"startup": _UNENHANCED_REPLY}, {"startup": {"rejected": 1}, "reading": "unenhanced-rejected"}, then=(),
              flags=0, enhanced=False, data=""),
    _answered("flags", "all-flags", "With all flags a Request gets the Reply of one with M and C",
              "MPA-39 MPA-35 MPA-33", {"startup": _REPLY},
              {"startup": {"rejected": 1}, "reading": "markers-rejected", "last": True}, flags=0xFF),
    _answered("flags", "reserved-bits", "Reserved bits of a Request are not looked at", "MPA-35", flags=0x5F),
    _answered("flags", "reject-bit", "R in a Request is not looked at", "MPA-39", flags=0x70),
    _answered("flags", "unenhanced", "A Request of revision 1 gets a Reply without queue depths", "EM-15 EM-2",
              {"startup": {**_UNENHANCED_REPLY, "revision": 1}},
              {"startup": {"rejected": 1}, "reading": "unenhanced-rejected"}, then=(), flags=0x40, revision=1,
              enhanced=False, data=""),
    _answered("ird", "depth-1", "The outbound depth of the Reply keeps to the inbound depth of the Request",
              "EM-6 EM-4", {"startup": {**_REPLY, "ord": {"max": 1}}}, ird=1, ord=1),
    _answered("ird", "depth-16383", "Depths of 0x3FFF are answered with 0x3FFF", "EM-9",
              {"startup": {**_REPLY, "ird": 0x3FFF, "ord": 0x3FFF}},
              {"startup": _REPLY, "reading": "depth-not-negotiated"}, ird=0x3FFF, ord=0x3FFF),
    _answered("ord", "depths-largest", "Depths of 0x3FFF are answered with 0x3FFF, also with all flags before them",
              "EM-9 EM-11", {"startup": {**_REPLY, "ird": 0x3FFF, "ord": 0x3FFF, "depth_flags": _READY_BY_WRITE}},
              {"startup": {**_REPLY, "depth_flags": _READY_BY_WRITE}, "reading": "depth-not-negotiated"},
              {"startup": {**_REPLY, "ird": 0x3FFF, "ord": 0x3FFF, "depth_flags": _READY_OTHERWISE}, "last": True},
              # siw listens no more where a connection ends right after its Reply.
              then=_READY_AND_CALL, ird=0xFFFF, ord=0xFFFF),
    _answered("ird", "rtr-types-alone",
              "With A clear, the types of ready-to-receive messages are not looked at and not set", "EM-13",
              {"startup": {**_REPLY, "depth_flags": 0}}, ird=0x4010, ord=0xC010),
    _answered("ird", "peer-to-peer", "The Reply to a Request with A has A and a type of ready-to-receive message",
              "EM-11", {"startup": {**_REPLY, "depth_flags": _READY_BY_WRITE}},
              # A server without C names the types that it takes: they have none in common.
              {"startup": {**_REPLY, "depth_flags": _READY_OTHERWISE}, "last": True}, then=_READY_AND_CALL,
              # A alone is in front of the inbound depth; C, the RDMA Write, in front of the outbound one.
              ird=0x8010, ord=0x8010),
    _answered("ord", "depth-0", "A Request with depths of 0 is accepted, or refused with Terminate 2006", "EM-7",
              {"startup": {**_REPLY, "ord": 0}}, {"startup": {"rejected": 1}}, {"terminate": {"code": 0x2006}}, then=(),
              ird=0, ord=0),
    _answered("data", "no-private-data", "A Request without private data is accepted", "PD-8", data=""),
    _answered("data", "foreign-private-data", "Private data of another format is accepted", "PD-9",
              data={"text": "something else"}),
    _answered("data", "reserved-private-bits", "Reserved bits of private data are not looked at", "PD-4",
              data="f6ab0e18 01 ff 03 03"),
    _answered("data", "cut-private-data", "Private data that ends within its eight octets is accepted", "PD-10",
              data="f6ab0e18 01 01"),
    _answered("data", "longest-private-data", "Private data of 508 octets behind the depths is accepted",
              "MPA-36 MPA-44", {"startup": _REPLY}, {"end": {}, "reading": "long-private-data-refused"}, then=(),
              data=[{"zeros": 500}, "f6ab0e18 01 01 03 03"]),
    _answered("data", "private-data.reserved",
              "Private data of the Reply is of version 1, and its reserved bits are zero", "PD-3",
              {"startup": {**_REPLY, "private": {"any": [None, {"version": 1, "flags": {"max": 1}}]}}}),
    _answered("flags", "silence", "No frame comes before one has been received", "MPA-41",
              then=({"quiet": {"milliseconds": 100}}, *_CALL)),
    _answered("flags", "crc-not-demanded", "A Request without C is accepted, and frames have a CRC if the Reply has C",
              "MPA-34 MPA-22 MPA-24", flags=0x10),
    _answered("flags", "crc-of-neither", "A wrong CRC is not looked at where neither side demands CRCs", "MPA-9 MPA-23",
              {"startup": {**_REPLY, "crc": 0}}, {"startup": {**_REPLY, "crc": 1}, "unmet": "the server demands CRCs"},
              then=(say(rpc={}, mpa={"crc": 1}), ANSWERED), flags=0x10),
    _answered("flags", "crc-demanded", "For a Request with C all frames have a right CRC",
              "MPA-34 MPA-22 MPA-24 MPA-19", flags=0x50),
    _answered("flags", "markers",
              "For a Request with M each 512th octet of the stream is a marker that points to its frame",
              "MPA-11 MPA-12 MPA-13 MPA-15 MPA-16 MPA-17 MPA-33", {"startup": _REPLY},
              {"startup": {"rejected": 1}, "reading": "markers-rejected", "last": True},
              then=[step for number in range(12) for step in afterwards(number)], flags=0xD0),
)  # fmt: skip
"""Mistakes of each kind in each field of the MPA Request, and valid Requests with their Replies."""

CHECKS: tuple[Check, ...] = (
    *map(_check, MISTAKES),
    check("mpa.startup.cut", "A Request that the stream ends within ends the connection", "MPA-38",
          say(stream=[{"text": "MPA ID Req"}]), {"end": {}}, *ended(), needs="risky", startup=None),
    check("mpa.startup.in-pieces", "A Request that comes in pieces is accepted", "MPA-38",
          say(stream=[{"text": "MPA ID Req Frame"}, "5002000c", "00100010", {"given": "private_data"}], pieces=8),
          hear({"startup": _REPLY}), *_CALL, startup=None),
)  # fmt: skip
"""Checks of the MPA start-up."""
