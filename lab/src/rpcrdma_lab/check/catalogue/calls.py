"""Checks of ONC RPC over the transport, of credits, and of empty calls with chunks (RFC 5531, RFC 8166)."""

from __future__ import annotations

from typing import Any

from rpcrdma_lab.check.answers import (
    ANSWERED,
    LONG_ANSWERED,
    NULL,
    NULL_OCTETS,
    accepted,
    afterwards,
    answered,
    either,
    error,
    hear,
    reply_header,
    say,
)
from rpcrdma_lab.check.entry import Check, Step, check

__all__ = ["CHECKS"]

_SINK = {"sink": {"octets": 64, "may": "write"}}
_REPLY_SINK = {"sink": {"octets": 1024, "may": "write"}}
_EMPTY = {"handle": {"given": "sink.handle"}, "length": 0, "offset": {"given": "sink.offset"}}

_CALLS_MAX = 64
"""The most calls that a check sends without waiting, even if more are granted."""
_NULL_MESSAGE_OCTETS = 68
"""Octets of a NULL call with its transport header; further octets count as arguments, which a server may refuse."""
_ASKED = {"credit": _CALLS_MAX}
_GRANTED = {"heard": "header.credit", "most": _CALLS_MAX}


def _denied(status: int) -> dict[str, Any]:
    """Returns the pattern of an RPC reply whose reply_stat is `status`: 1 is MSG_DENIED, with any reject_stat."""
    return {"message": {"header": reply_header(), "rpc": {"xid": {"given": "xid"}, "status": status}}}


def _long(name: str, title: str, statements: str, lengths: list[int], needs: str = "") -> Check:
    """Returns a check with a NULL call in a Position-Zero chunk, whose segments have these `lengths` in octets.

    `name` is the check's identifier and `title` its expected behaviour as text; `statements` and `needs` are
    identifiers of the tested statements and of the check's conditions, separated by spaces.
    """
    reads, at = [], 0
    for length in lengths:
        offset = {"given": "source.offset", "plus": at}
        reads.append({"position": 0, "handle": {"given": "source.handle"}, "length": length, "offset": offset})
        at += length
    memory = {"source": {"content": NULL_OCTETS}}
    said = say(header={"type": 1, "reads": reads})
    return check(name, title, statements, said, *either(LONG_ANSWERED), needs=needs, memory=memory)


_UNREGISTERED: list[Step] = [
    say(header={"type": 1, "reads": [{"position": 0, "handle": 0xDEADBEEF, "length": 40}]}),
    hear({"refused": {}}, {"end": {}}, error(2)),
]

CHECKS: tuple[Check, ...] = (
    check("rpc.version-3", "RPC version 3 is denied", "OR-1", say(rpc={"rpc_version": 3}), *either(_denied(1))),
    check("rpc.program-unknown", "An unknown program is unavailable", "OR-6", say(rpc={"program": 0x3FFFFFFF}),
          *either(accepted(1))),
    check("rpc.program-version-99", "An unknown version of the program is a mismatch", "OR-6", say(rpc={"version": 99}),
          *either(accepted(2))),
    check("rpc.procedure-unknown", "An unknown procedure is unavailable", "OR-6", say(rpc={"procedure": 4000}),
          *either(accepted(3))),
    check("rpc.garbage", "Arguments that cannot be decoded are answered with GARBAGE_ARGS", "V1-61",
          say(rpc={"procedure": 1, "args": "ffffffff", "credential": {"given": "credential"}}), *either(accepted(4)),
          needs="nfs"),
    check("rpc.no-arguments", "Arguments that are missing are answered with GARBAGE_ARGS", "V1-61",
          say(rpc={"procedure": 1, "credential": {"given": "credential"}}), *either(accepted(4)), needs="nfs"),
    check("rpc.two-calls", "Two calls in one connection are answered under their XIDs", "OR-6 V1-38", NULL, ANSWERED,
          *afterwards(1), *afterwards(2)),
    check("v1.credits.all-granted", "As many calls as were granted are received at once", "V1-5",
          say(header=_ASKED, rpc={}), hear(accepted()),
          {"repeat": {"times": _GRANTED, "steps": [
              say(header={"xid": {"given": "index", "plus": 5000}, **_ASKED}, rpc={})]}},
          {"repeat": {"times": _GRANTED, "steps": [
              hear({"message": {"header": {"type": 0, "credit": {"min": 1}}, "rpc": {"accepted": 0}}})]}}),
    check("v1.message.1024", "A message of 1,024 octets is taken from a peer without private data", "V1-9",
          say(rpc={}, append={"zeros": 1024 - _NULL_MESSAGE_OCTETS}),
          *either(answered(), answered(status=4)), startup={"data": ""}),
    _long("v1.nomsg.one-segment", "An empty call in a Position-Zero chunk is answered", "V1-32 V1-33 V1-37", [40]),
    _long("v1.nomsg.odd-segments", "A Position-Zero chunk in segments of odd lengths is joined in their order",
          "V1-92 V1-14", [1, 2, 3, 34]),
    _long("v1.nomsg.empty-segment", "A Position-Zero chunk with a segment of no octets is joined", "V1-92 V1-14",
          [20, 0, 20], "risky"),
    check("v1.nomsg.unregistered", "A chunk in memory that cannot be read ends the connection or is refused", "V1-67",
          *_UNREGISTERED),
    check("v1.writes.unused", "A Write chunk for which there is no item is returned with lengths of zero", "V1-48",
          say(header={"writes": [[{"memory": "sink"}]]}, rpc={}),
          *either(accepted(writes=[[_EMPTY]])), {"memory": {"sink": {"written": 0}}}, memory=_SINK),
    check("v1.writes.two-unused", "Two Write chunks for which there is no item are returned with lengths of zero",
          "V1-48 NF-12", say(header={"writes": [[{"memory": "sink"}], [{"memory": "sink"}]]}, rpc={}),
          *either(accepted(writes=[[_EMPTY], [_EMPTY]]), {**error(2), "reading": "chunk-list-too-complex"}),
          {"memory": {"sink": {"written": 0}}}, memory=_SINK),
    check("v1.writes.empty", "A Write chunk without segments is returned without segments", "V1-50",
          say(header={"writes": [[]]}, rpc={}),
          *either(accepted(writes=[[]]), {**error(2), "reading": "empty-write-chunk-refused"})),
    check("v1.reply.offered", "A reply to a call with a Reply chunk fits inline or is written to it", "V1-53 V1-52",
          say(header={"reply": [{"memory": "sink"}]}, rpc={}),
          *either(accepted(reply=[_EMPTY]),
                  {"message": {"header": {"type": 1, "reads": [], "writes": [], "xid": {"given": "xid"},
                                          "reply": [{**_EMPTY, "length": 24}]}}}),
          {"memory": {"sink": {"written": {"any": [0, 24]}}}}, memory=_REPLY_SINK),
    check("v1.reads.ineligible", "A call with a Read chunk, for whose procedure nothing may be reduced, is refused",
          "V1-62", say(header={"reads": [{"position": 40, "memory": "source"}]}, rpc={}),
          *either(error(2), {**accepted(), "reading": "unused-chunk-ignored"}),
          memory={"source": {"octets": 64}}),
)  # fmt: skip
"""Checks of RPC calls, credits and NULL calls with chunks."""
