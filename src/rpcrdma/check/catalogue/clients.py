"""Checks of clients of version 1: a scripted server makes a mistake, and hears how the client goes on.

Each takes one connection, on which the client makes two calls or more of procedure 0 or of any other.
"""

from __future__ import annotations

from typing import Any

from rpcrdma.check.answers import hear, say
from rpcrdma.check.entry import Check, Step, check

__all__ = ["CLIENT_CHECKS"]

_XID = {"heard": "header.xid"}
_CALL = {
    "message": {
        "header": {"version": 1, "credit": {"min": 1}, "type": {"any": [0, 1]}},
        "rpc": {"direction": 0, "rpc_version": 2, "status": None},
        "invalidates": None,
    }
}
_FIRST: Step = {"first": _CALL}
_NEXT: Step = hear(_CALL)


def _reply(**header: Any) -> Step:
    """A successful reply without results, with these fields in its header."""
    return say(header={"xid": _XID, **header}, rpc={"xid": _XID, "accepted": 0})


def _discarded(name: str, title: str, statements: str, wrong: Step) -> Check:
    """A wrong reply, after which nothing comes before the right one."""
    steps = (_FIRST, wrong, {"quiet": {"milliseconds": 100}}, _reply(), _NEXT)
    return check(f"client.{name}", title, statements, *steps)


def _ended(name: str, title: str, statements: str, wrong: Step, *codes: int) -> Check:
    """An access that the client has not permitted: it sends a Terminate."""
    terminate = {"terminate": {"code": {"any": list(codes)}}}
    return check(f"client.{name}", title, statements, _FIRST, wrong, hear(terminate))


def _start(name: str, title: str, statements: str, **frame: Any) -> Check:
    """A wrong MPA Reply, after which the client ends the connection."""
    return check(f"client.{name}", title, statements, hear({"end": {}}), startup=frame)


CLIENT_CHECKS: tuple[Check, ...] = (
    check("client.calls", "A call has a right header, and its RPC header the same XID", "V1-40 V1-38 V1-36 OR-1",
          {"first": _CALL}, _reply(), _NEXT, _reply()),
    check("client.one-call-before-the-first-reply", "No second call comes before the first reply", "V1-8 V1-7",
          _FIRST, {"quiet": {"milliseconds": 200}}, _reply(), _NEXT),
    check("client.one-credit", "With one credit granted no second call comes before the reply", "V1-2 V1-87",
          _FIRST, _reply(credit=1), _NEXT, {"quiet": {"milliseconds": 200}}, _reply(credit=1), _NEXT),
    _discarded("reply.other-version", "A reply of version 9 is discarded", "V1-56", _reply(version=9)),
    _discarded("reply.other-xid", "A reply to no call is discarded", "V1-56",
               say(header={"xid": {**_XID, "plus": 1000}}, rpc={"xid": {**_XID, "plus": 1000}, "accepted": 0})),
    _discarded("reply.msgp", "RDMA_MSGP is discarded", "V1-70", _reply(type=2)),
    _discarded("reply.done", "RDMA_DONE is discarded", "V1-72", say(header={"xid": _XID, "type": 3})),
    _discarded("reply.unknown-type", "A reply of an unknown type is discarded", "V1-56", _reply(type=77)),
    _discarded("reply.cut-at-12", "A message of 12 octets is discarded", "V1-54",
               say(header={"xid": _XID}, rpc={"xid": _XID, "accepted": 0}, cut=12)),
    _discarded("reply.cut-at-24", "A message of 24 octets is discarded", "V1-54",
               say(header={"xid": _XID}, rpc={"xid": _XID, "accepted": 0}, cut=24)),
    _discarded("reply.lists-broken", "A reply whose Write list does not decode is discarded", "V1-56",
               _reply(writes=[{"count": 0xFFFFFFFF, "segments": []}])),
    _discarded("error.undecodable", "RDMA_ERROR with an unknown code is discarded", "V1-58",
               say(header={"xid": _XID, "type": 4, "error": 99})),
    check("client.error.chunk", "After ERR_CHUNK the call is not sent again on the connection", "V1-57 NF-13", _FIRST,
          say(header={"xid": _XID, "type": 4, "error": 2}),
          hear({"message": {**_CALL["message"], "rpc": {"direction": 0, "xid": {"not": _XID}}}}, {"end": {}})),
    _ended("write.unknown-handle", "An RDMA Write to unknown memory is reported", "DDP-16 V1-77",
           say(payload="00000000", ddp={"opcode": "write", "handle": 0xDEADBEEF}), 0x1100, 0x1102),
    _ended("read.unknown-handle", "An RDMA Read of unknown memory is reported", "RD-16 V1-77",
           say(payload={"words": [7, 0, 0, 4, 0xDEADBEEF, 0, 0]}, ddp={"opcode": "read_request"}), 0x0100, 0x1202),
    _ended("invalidate.unknown-handle", "A Send that invalidates unknown memory is reported", "RD-10",
           say(header={"xid": _XID}, rpc={"xid": _XID, "accepted": 0},
               ddp={"opcode": "send_invalidate", "invalidate": 0xDEADBEEF}), 0x0109, 0x0209, 0x0100),
    _ended("crc", "A wrong CRC is reported", "MPA-25 MPA-47",
           say(header={"xid": _XID}, rpc={"xid": _XID, "accepted": 0}, mpa={"crc": 1}), 0x2002),
    _start("startup.key", "A Reply with an unknown key ends the connection", "MPA-40 MPA-42",
           key={"text": "MPA ID Rop Frame"}),
    _start("startup.rejected", "A Reply that rejects ends the start-up", "MPA-40", flags=0x70),
    _start("startup.length", "A Reply with 513 octets of private data ends the connection", "MPA-36", length=513),
)  # fmt: skip
"""The checks in the order in which connections meet them."""
