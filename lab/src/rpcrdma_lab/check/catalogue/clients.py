"""Checks of clients of version 1: a scripted server makes a mistake, and observes the client's reaction.

Each check uses one connection, on which the client makes two calls or more. Most work with any calls; checks that wait
for calls with chunks need a program behind the server, which is NFSv3.
"""

from __future__ import annotations

from typing import Any

from rpcrdma_lab.check.answers import hear, say
from rpcrdma_lab.check.entry import Check, Step, check

__all__ = ["CALLS", "CLIENT_CHECKS", "serving_together", "terminates"]

_XID = {"heard": "header.xid"}
_HEADER = {"version": 1, "credit": {"min": 1}}
_CALL: dict[str, Any] = {
    "message": {
        "header": {**_HEADER, "type": 0},
        "rpc": {"direction": 0, "rpc_version": 2, "status": None, "same_xid": 1},
        "invalidates": None,
    }
}
_LONG_CALL: dict[str, Any] = {
    "message": {"header": {**_HEADER, "type": 1, "reads": {"not": []}}, "broken": None, "invalidates": None}
}
CALLS: list[dict[str, Any]] = [_CALL, _LONG_CALL]
"""Patterns of well-formed calls in version 1: inline and Long."""
_OTHER_CALL = [{"message": {**each["message"], "header": {**_HEADER, "xid": {"not": _XID}}}} for each in CALLS]
_ANY: Step = {"serve": {"each": CALLS}}
_NEXT: Step = hear(*CALLS)
_ENDED = {"end": {}, "reading": "ended-after-broken-reply"}
_QUIET: Step = {"quiet": {"milliseconds": {"given": "pause_ms"}}}
_READLINK, _READ, _WRITE, _SYMLINK = 5, 6, 7, 10


def serving_together(calls: list[dict[str, Any]], number: int, **header: Any) -> Step:
    """Returns a step that waits until the client has `number` calls outstanding at once, which stay unanswered.

    Each call must match one of the patterns `calls`. If fewer calls arrive, the step answers them after a pause, with
    the fields `header` in the replies' headers, so that the client continues. The step names the outstanding calls
    "call.0", "call.1" and so on, for later steps. A client that never makes `number` calls at once is not judged.
    """
    return {"serve": {"each": calls, "together": number, "header": header}}


def _together(number: int) -> Step:
    """Returns a step that receives `number` calls of any kind, and answers none of them, for a later step to answer.

    If fewer calls arrive, the step answers each, with a grant of `number` credits, so that the client continues.
    """
    return serving_together(CALLS, number, credit=number)


def _answer_to(index: int, credit: int) -> Step:
    """Returns a step that answers call `index` (from 0) of the last `_together` step, and grants `credit` credits."""
    return {"answer": {"to": f"call.{index}", "header": {"credit": credit}}}


def _until(
    *,
    each: list[dict[str, Any]] = CALLS,
    procedure: int | None = None,
    item: dict[str, Any] | None = None,
    **header: Any,
) -> Step:
    """Returns a step that answers calls until one matches the header fields `header`; that call stays unanswered.

    Each call has to match one of the patterns `each`; each reply has the credit value 1. Unless None, `procedure` is
    the RPC procedure of the last call, and `item` the pattern of the chunk for the data of its READ or WRITE:
    "unaligned" is the data's length modulo 4, and "spare" the octets of the chunk beyond that length.
    """
    until: dict[str, Any] = {"header": header}
    if procedure is not None:
        until["rpc"] = {"procedure": procedure}
    if item is not None:
        until["item"] = item
    return {"serve": {"each": each, "until": until, "header": {"credit": 1}}}


def _reducing(*procedures: int, **other_list: Any) -> dict[str, Any]:
    """Returns the pattern of a well-formed inline call (RDMA_MSG) of one of these RPC procedures; none stands for any.

    `other_list` has the patterns of chunk lists by name (`reads`, `writes`, `reply`), such as `reads=[]` for a call
    without a Read list. A list without a pattern may have any content, or be empty.
    """
    message = _CALL["message"]
    procedure = {"procedure": {"any": list(procedures)}} if procedures else {}
    return {
        "message": {**message, "header": {**message["header"], **other_list}, "rpc": {**message["rpc"], **procedure}}
    }


def _reply(*, message: dict[str, Any] | None = None, **header: Any) -> Step:
    """Returns a step that answers the last call; `header` and `message` have the unusual fields of the reply.

    `header` has those of the transport header, and `message` others, such as "body" and "ddp" (docs/send.md).
    """
    return {"answer": {**(message or {}), "header": header}}


def _discarded(name: str, title: str, statements: str, wrong: Step) -> Check:
    """Returns a check of a wrong reply, after which the client must send nothing until the right reply.

    `wrong` is the step that sends it. `name` is the check's identifier after "client." and `title` its expected
    behaviour as text; `statements` are identifiers of the tested statements, separated by spaces.
    """
    steps = (_ANY, wrong, _QUIET, _reply(), hear(*CALLS, _ENDED))
    return check(f"client.{name}", title, statements, *steps)


def terminates(*codes: int) -> list[dict[str, Any]]:
    """Returns patterns of a Terminate with one of `codes` (0xLTCC: layer, error type and error code).

    Other codes, or an end without a Terminate, are noted only.
    """
    swapped = [each >> 4 & 0xF00 | each << 4 & 0xF000 | each & 0xFF for each in codes]
    usual: list[dict[str, Any]] = [{"terminate": {"code": {"any": list(codes)}}}]
    if not set(swapped) <= set(codes):
        usual.append({"terminate": {"code": {"any": swapped}}, "reading": "terminate-nibbles-swapped"})
    return [
        *usual,
        {"terminate": {}, "reading": "other-terminate-code"},
        {"end": {}, "reading": "ended-without-terminate"},
    ]


def _ended(name: str, title: str, statements: str, wrong: Step, *codes: int, needs: str = "") -> Check:
    """Returns a check that a client answers a faulty access to its memory with a Terminate with one of `codes`.

    `wrong` is the step that makes the access, after a call. A code is 0xLTCC: layer, error type and error code. Other
    codes, and an end without a Terminate, are noted only. `name` is the check's identifier after "client.".
    """
    return check(f"client.{name}", title, statements, _ANY, wrong, hear(*terminates(*codes)), needs=needs)


def _failed(name: str, title: str, statements: str, error: int, *numbers: int) -> Check:
    """Returns a check that the client does not repeat a call after RDMA_ERROR; it may make other calls or disconnect.

    `error` is the code, and `numbers` are the 32-bit words after it. `name` is the check's identifier after
    "client.error." and `title` its expected behaviour as text; `statements` are identifiers of the tested statements,
    separated by spaces.
    """
    wrong = say(header={"xid": _XID, "type": 4, "error": error, "numbers": list(numbers)})
    return check(f"client.error.{name}", title, statements, _ANY, wrong, hear(*_OTHER_CALL, {"end": {}}))


def _after(name: str, title: str, until: Step, access: Step, *codes: int) -> Check:
    """Returns a check of an `access` to the memory of a finished call, which should cause a Terminate.

    `until` is the step that answers calls up to the call with that memory. `access` is the step, after the reply to
    that call, that sends the RDMA message; it refers to the call as "old". `codes` are the Terminate's right codes,
    0xLTCC; others, and an end without a Terminate, are noted only.
    """
    named = {"serve": {**until["serve"], "each": [{**each, "as": "old"} for each in CALLS]}}
    error = say(header={"xid": _XID, "type": 4, "error": 2})
    steps = (named, _reply(credit=1), _NEXT, access, error, hear(*terminates(*codes)))
    return _chunked(name, title, "RD-17 V1-77", *steps)


def _with_item(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns patterns of well-formed calls; an NFSv3 READ or WRITE with a chunk must match `item` as well.

    `item` is the pattern of "item" (docs/send.md), which compares the chunk with the count in the arguments.
    """
    return [{"message": {**each["message"], "item": {"any": [None, item]}}} for each in CALLS]


def _of_old(field: str) -> dict[str, Any]:
    return {"heard": f"header.{field}", "of": "old"}


def _start(name: str, title: str, statements: str, needs: str = "", **frame: Any) -> Check:
    """Returns a check of an MPA Reply with wrong fields, `frame` by name, after which the client must disconnect.

    `name` is the check's identifier after "client." and `title` its expected behaviour as text; `statements` and
    `needs` are identifiers of the tested statements and of the check's conditions, separated by spaces.
    """
    startup = {"flags": 0x10, **frame}
    return check(
        f"client.{name}", title, statements, hear({"end": {}}, {"terminate": {}}), needs=needs, startup=startup
    )


def _chunked(name: str, title: str, statements: str, until: Step, *steps: Step) -> Check:
    """Returns a check of calls with chunks; it needs a server program that makes the results (option --behind).

    `until` is the step that waits for the call, and `steps` follow. `name` is the check's identifier after "client."
    and `title` its expected behaviour as text; `statements` are identifiers of the tested statements, separated by
    spaces.
    """
    return check(f"client.{name}", title, statements, until, *steps, needs="program")


_ONE_SINK: dict[str, Any] = {"procedure": _READ, "reads": [], "writes": [[{"length": {"min": 1}}]]}
_WITH_SINK = _until(**_ONE_SINK)
_SINK = {each: {"heard": f"header.writes.0.0.{each}"} for each in ("handle", "length", "offset")}
_TOO_LONG = {**_SINK, "length": {**_SINK["length"], "plus": 4}}
_SOURCE = {"position": {"min": 4}, "length": {"min": 1}}
_WITH_SOURCE = _until(procedure=_WRITE, reads=[_SOURCE])
_WITH_REPLY_CHUNK = _until(type=0, writes=[], reply={"not": None})
_REPLY_SEGMENT = {each: {"heard": f"header.reply.0.{each}"} for each in ("handle", "length", "offset")}
_LOST = [*CALLS, {"end": {}}]
_NO_INVALIDATION = {"message": {"startup": {"invalidation": 0}}, "unmet": "the client offers no remote invalidation"}
_REFUSALS: dict[str, list[int]] = {
    "SYSTEM_ERR": [0, 0, 0, 5],
    "GARBAGE_ARGS": [0, 0, 0, 4],
    "PROC_UNAVAIL": [0, 0, 0, 3],
    "PROG_MISMATCH": [0, 0, 0, 2, 9, 9],
    "PROG_UNAVAIL": [0, 0, 0, 1],
    "AUTH_ERROR": [1, 1, 5],
    "RPC_MISMATCH": [1, 0, 3, 3],
}
"""RPC replies without results, after XID and direction (RFC 5531 section 9).

Clients may disconnect after the last ones.
"""
_UNHEEDED: Step = {"serve": {"each": [{**each, "as": "first"} for each in CALLS]}}
_FURTHER: Step = {"serve": {"each": [*CALLS, {"end": {}, "last": True}]}}
_ANOTHER = [{"message": {**each["message"], "header": {**_HEADER, "xid": {"not": {"given": "first.xid"}}}}}
            for each in CALLS]  # fmt: skip
_REPLY_OCTETS = 28 + 24
"""Octets of a reply without chunks and results, transport header included."""
_BEYOND: dict[str, Any] = {
    "append": {"zeros": {"given": "inline_octets", "plus": 16 - _REPLY_OCTETS}},
    "ddp": {"segment_octets": 1024},
}
"""Fields that make a reply too long by its last segment only, so that a disconnecting client leaves nothing unread."""
_DEPTH = 512
"""A number of RDMA Reads beyond the inbound depths of RNICs."""
_ELIGIBLE = [
    _reducing(reads=[], writes=[]),
    _reducing(_READ, _READLINK, reads=[]),
    _reducing(_WRITE, _SYMLINK, writes=[]),
    _LONG_CALL,
]
"""Patterns of calls that reduce only DDP-eligible items (RFC 8267 section 4); Long Calls do not show theirs."""
_UNPADDED = _with_item({"spare": {"not": {"min": 1, "max": 3}}})
_FITTING = _with_item({"spare": {"min": 0}})
_UNALIGNED = {"unaligned": {"min": 1}}

CLIENT_CHECKS: tuple[Check, ...] = (
    check("client.calls", "A call has a right header, and its RPC header the same XID", "V1-40 V1-38 V1-36 OR-1",
          _ANY, _reply(), _NEXT, _reply()),
    check("client.one-call-before-the-first-reply", "No second call comes before the first reply", "V1-8 V1-7",
          _ANY, _QUIET, _reply(credit=2), _together(2)),
    check("client.one-credit", "With one credit granted no second call comes before the reply", "V1-2 V1-87",
          _ANY, _reply(credit=1), _NEXT, _QUIET, _reply(credit=2), _together(2)),
    check("client.credits.shrinking", "Of three calls at once no further one comes while fewer credits are granted",
          "V1-2 V1-87", _ANY, _reply(credit=3), _together(3), _QUIET, _answer_to(0, 1), _QUIET, _answer_to(1, 1),
          _QUIET, _answer_to(2, 2), _together(2), _QUIET),
    _discarded("reply.other-version", "A reply of version 9 is discarded", "V1-56", _reply(version=9)),
    _discarded("reply.other-xid", "A reply to no call is discarded", "V1-56", _reply(xid={**_XID, "plus": 1000})),
    _discarded("reply.msgp", "RDMA_MSGP is discarded", "V1-70", _reply(type=2)),
    _discarded("reply.done", "RDMA_DONE is discarded", "V1-72", say(header={"xid": _XID, "type": 3})),
    _discarded("reply.unknown-type", "A reply of an unknown type is discarded", "V1-56", _reply(type=77)),
    _discarded("reply.cut-at-12", "A message of 12 octets is discarded", "V1-54", _reply(message={"cut": 12})),
    _discarded("reply.cut-at-24", "A message of 24 octets is discarded", "V1-54", _reply(message={"cut": 24})),
    _discarded("reply.lists-broken", "A reply whose Write list does not decode is discarded", "V1-56",
               _reply(writes=[{"count": 0xFFFFFFFF, "segments": []}])),
    _discarded("reply.long-without-chunk", "RDMA_NOMSG without a Reply chunk is discarded", "V1-56 V1-41",
               _reply(type=1, reply=None, message={"body": ""})),
    _discarded("error.undecodable", "RDMA_ERROR with an unknown code is discarded", "V1-58",
               say(header={"xid": _XID, "type": 4, "error": 99})),
    _failed("chunk", "After ERR_CHUNK the call is not sent again on the connection", "V1-57 NF-13", 2),
    _failed("version", "After ERR_VERS that names the call's own version it is not sent again on the connection",
            "V1-57 V1-59", 1, 1, 1),
    check("client.reply.refused", f"Calls end by RPC replies without results, such as {', '.join(list(_REFUSALS)[:3])}",
          "OR-6 OR-1",
          *(step for after, words in zip([_UNHEEDED, *[_FURTHER] * len(_REFUSALS)], _REFUSALS.values(), strict=False)
            for step in (after, {"answer": {"reply": {"words": [_XID, 1, *words]}}})),
          hear(*_ANOTHER, {"end": {}})),
    check("client.reply.beyond-threshold", "A reply beyond the client's receives ends the call or the connection",
          "DDP-16 V1-77", _ANY, _reply(message=_BEYOND), hear(*_OTHER_CALL, *terminates(0x1205)[:-1], {"end": {}})),
    _ended("write.unknown-handle", "An RDMA Write to unknown memory is reported", "DDP-16 V1-77",
           say(payload="00000000", ddp={"opcode": "write", "handle": 0xDEADBEEF}), 0x1100, 0x1102),
    _ended("read.unknown-handle", "An RDMA Read of unknown memory is reported", "RD-16 V1-77",
           say(payload={"words": [7, 0, 0, 4, 0xDEADBEEF, 0, 0]}, ddp={"opcode": "read_request"}), 0x0100, 0x1202),
    _ended("invalidate.unknown-handle", "A Send that invalidates unknown memory is reported", "RD-10",
           _reply(message={"ddp": {"opcode": "send_invalidate", "invalidate": 0xDEADBEEF}}), 0x0109, 0x0209, 0x0100),
    _ended("crc", "A wrong CRC is reported", "MPA-25 MPA-47", _reply(message={"mpa": {"crc": 1}}), 0x2002,
           needs="crc"),
    _start("startup.key", "A Reply with an unknown key ends the connection", "MPA-40 MPA-42",
           key={"text": "MPA ID Rop Frame"}),
    _start("startup.request-key", "A Reply with the key of a Request ends the connection", "MPA-43 MPA-40",
           key={"text": "MPA ID Req Frame"}),
    _start("startup.rejected", "A Reply that rejects ends the start-up", "MPA-40", flags=0x30),
    check("client.startup.depth", "A Reply with a depth of 512 gets Terminate 2006, or so many RDMA Reads are answered",
          "EM-8",
          hear({"terminate": {"code": 0x2006}, "last": True},
               {"terminate": {"code": 0x0206}, "reading": "terminate-nibbles-swapped", "last": True},
               {"end": {}, "reading": "ended-without-terminate", "last": True},
               {"message": {"header": {"version": 2}}, "unmet": "the client begins with version 2"}, *CALLS),
          _reply(credit=1), _until(reads={"not": []}),
          {"repeat": {"times": _DEPTH, "steps": [
              say(payload=[{"words": [7, 0, 0, 1, {"heard": "header.reads.0.handle"}]},
                           {"longs": [{"heard": "header.reads.0.offset"}]}], ddp={"opcode": "read_request"})]}},
          {"repeat": {"times": _DEPTH, "steps": [hear({"read_response": {"handle": 7}})]}},
          startup={"ord": _DEPTH, "flags": 0x10}),
    _start("startup.length", "A Reply with 513 octets of private data ends the connection", "MPA-36", "risky",
           length=513),
    _chunked("read.write-chunk", "A READ offers one Write chunk with room for its data, and goes on after it",
             "V1-25 V1-47", _until(each=_FITTING, **_ONE_SINK), _reply(), hear(*_OTHER_CALL)),
    _chunked("write.read-chunk", "A WRITE has its data at a Position in a Read chunk, which the server can read",
             "V1-21 V1-24 V1-15 V1-92",
             _until(each=_FITTING, procedure=_WRITE, reads=[_SOURCE]), _reply(), hear(*_OTHER_CALL)),
    _chunked("eligible", "Only data of READ, READLINK, WRITE and SYMLINK is in chunks", "V1-75 V1-13 NF-1",
             _until(each=_ELIGIBLE, procedure=_READ, reads=[], writes={"not": []}), _reply(),
             _until(each=_ELIGIBLE, procedure=_WRITE, reads={"not": []}), _reply(), hear(*_ELIGIBLE)),
    _chunked("read.no-room-for-padding", "The Write chunk of a READ has no room for padding", "V1-27",
             _until(each=_UNPADDED, procedure=_READ, item=_UNALIGNED), _reply(), hear(*_OTHER_CALL)),
    _chunked("write.no-padding", "The Read chunk of a WRITE has no padding", "V1-22",
             _until(each=_UNPADDED, procedure=_WRITE, item=_UNALIGNED), _reply(), hear(*_OTHER_CALL)),
    _chunked("reply-chunk", "A call whose reply may exceed the threshold offers a Reply chunk that takes it",
             "V1-51 V1-34", _WITH_REPLY_CHUNK, _reply(), hear(*_OTHER_CALL)),
    _chunked("long-call", "The segments of a Long Call have Position 0, and its payload is whole", "V1-32 V1-35",
             _until(type=1), _reply(), hear(*_OTHER_CALL)),
    _chunked("one-credit.read", "With one credit granted no second READ comes before the reply", "V1-2 V1-87",
             _WITH_SINK, _QUIET, _reply(credit=2), _together(2)),
    _chunked("invalidate.own-handle", "A reply that invalidates the handle of its own Write chunk is taken", "PD-5",
             _until(each=[_NO_INVALIDATION, *CALLS], **_ONE_SINK),
             _reply(message={"ddp": {"opcode": "send_invalidate", "invalidate": _SINK["handle"]}}),
             hear(*_OTHER_CALL)),
    _chunked("reply.longer-than-its-chunk", "A reply that tells more octets than its Write chunk has ends the call",
             "V1-56 V1-77", _WITH_SINK, _reply(writes=[[_TOO_LONG]]), hear(*_LOST)),
    _chunked("reply.chunk-of-two-segments", "A reply with more segments than its call offered ends the call",
             "V1-56 V1-77", _WITH_SINK, _reply(writes=[[_SINK, _SINK]]), hear(*_LOST)),
    _chunked("reply.without-its-chunk", "A reply without the Write list of its call ends the call", "V1-56 V1-77",
             _WITH_SINK, _reply(writes=[]), hear(*_LOST)),
    _chunked("reply-chunk.longer", "RDMA_NOMSG that tells more octets than its Reply chunk has ends the call",
             "V1-56 V1-77", _WITH_REPLY_CHUNK,
             _reply(type=1, reply=[{**_REPLY_SEGMENT, "length": {**_REPLY_SEGMENT["length"], "plus": 4}}],
                    message={"body": ""}), hear(*_LOST)),
    _chunked("reply-chunk.empty", "RDMA_NOMSG with no octets in its Reply chunk is no right reply", "V1-56",
             _WITH_REPLY_CHUNK, _reply(type=1, reply=[{**_REPLY_SEGMENT, "length": 0}], message={"body": ""}),
             hear(*_LOST)),
    _after("write.finished-call", "An RDMA Write to the memory of a finished READ is reported", _WITH_SINK,
           say(payload="00000000", ddp={"opcode": "write", "handle": _of_old("writes.0.0.handle"),
                                        "offset": _of_old("writes.0.0.offset")}), 0x1100, 0x1102),
    _after("read.finished-call", "An RDMA Read of the memory of a finished WRITE is reported", _WITH_SOURCE,
           say(payload=[{"words": [7, 0, 0, 4, _of_old("reads.0.handle")]}, {"longs": [_of_old("reads.0.offset")]}],
               ddp={"opcode": "read_request"}), 0x0100, 0x1202),
)  # fmt: skip
"""The checks of clients of version 1, in the order in which connections are used for them."""
