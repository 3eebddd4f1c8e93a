"""Checks of FPDUs, DDP segments and RDMAP messages: each field of each header, with each kind of mistake.

The first call of each conversation is right: a responder may send nothing before it has received one right FPDU (RFC
5044 section 7.1.2 rule 4), a Terminate neither.
"""

from __future__ import annotations

from typing import Any

from rpcrdma.check.answers import ANSWERED, NULL, NULL_OCTETS, accepted, afterwards, ended, hear, say, terminated
from rpcrdma.check.entry import Check, Step, check

__all__ = ["CHECKS"]


def _wrong(name: str, title: str, statements: str, code: int, *also: int, **message: Any) -> Check:
    """A call in a wrong frame or segment, which a Terminate answers."""
    call = {"rpc": {}, "header": {"xid": {"given": "xid", "plus": 1}}} if "payload" not in message else {}
    startup, needs = message.pop("startup", {}), message.pop("needs", "")
    steps = [say(**call, **message), *terminated(code, *also)]
    return check(name, title, statements, NULL, ANSWERED, *steps, needs=needs, startup=startup)


def _unseen(name: str, title: str, statements: str, **message: Any) -> Check:
    """A call in an unusual frame or segment, which is answered as any other."""
    call: dict[str, Any] = {"rpc": {}, "header": {"xid": {"given": "xid", "plus": 1}}, **message}
    steps: list[Step] = [say(**call), afterwards()[1]]
    return check(name, title, statements, NULL, ANSWERED, *steps)


_NUMBERED = {"xid": {"given": "index", "plus": 5000}}
_ANSWER = hear({"message": {"header": {"type": 0, **_NUMBERED}, "rpc": {"accepted": 0}}})


def _marked(name: str, title: str, statements: str, **said: Any) -> Check:
    """Calls in frames with markers, of which some are between frames and some within."""
    steps = [say(header=_NUMBERED, rpc={}, **said), _ANSWER]
    calls: Step = {"repeat": {"times": 12, "steps": steps}}
    return check(f"mpa.markers.{name}", title, statements, calls, needs="markers")


def _part_of_source(at: int) -> dict[str, Any]:
    """A segment of ten octets of the memory "source"."""
    return {"handle": {"given": "source.handle"}, "length": 10, "offset": {"given": "source.offset", "plus": at}}


CHECKS: tuple[Check, ...] = (
    # FPDUs
    _wrong("mpa.crc.wrong", "A wrong CRC is reported, and its FPDU not delivered", "MPA-25 MPA-47 MPA-49", 0x2002,
           mpa={"crc": 1}, startup={"flags": 0x50}),
    _unseen("mpa.pad.not-zero", "Padding is not looked at", "MPA-8",
            ddp={"segment_octets": 17}, mpa={"pad": "ffffff"}),
    _unseen("mpa.frame.in-pieces", "A frame that comes in pieces of seven octets is taken", "MPA-29 MPA-51 MPA-30",
            mpa={"pieces": 7}),
    _wrong("mpa.length.below-a-header", "A frame too short for a DDP header ends the connection", "DDP-16", 0x1000,
           0x1202, 0x1206, 0x2003, 0x0207, payload="", mpa={"length": 2}),
    _marked("taken", "A server that demands markers takes frames with them", "MPA-18 MPA-33"),
    _marked("reserved", "The reserved half of markers is not looked at", "MPA-10", mpa={"marker": 0x10000}),
    _wrong("mpa.markers.pointer", "A marker that points elsewhere is reported", "MPA-47", 0x2003,
           payload={"zeros": 600}, mpa={"marker": 4}, needs="markers"),
    check(
        "mpa.frame.cut",
        "A frame that the stream ends within is not delivered, and the connection ends",
        "MPA-4",
        NULL,
        ANSWERED,
        say(header={"xid": {"given": "xid", "plus": 1}}, rpc={}, mpa={"cut": 40}),
        {"end": {}},
        hear({"end": {}}, {"terminate": {}}),
    ),
    # DDP
    _wrong("ddp.version.untagged-0", "DDP version 0 in an untagged segment is reported", "DDP-4 DDP-18", 0x1206,
           ddp={"version": 0}),
    _wrong("ddp.version.untagged-2", "DDP version 2 in an untagged segment is reported", "DDP-4 DDP-18", 0x1206,
           ddp={"version": 2}),
    _wrong("ddp.version.tagged-2", "DDP version 2 in a tagged segment is reported", "DDP-4 DDP-18", 0x1104,
           payload="00", ddp={"opcode": "write", "version": 2, "handle": 1}),
    _unseen("ddp.reserved", "Reserved bits of DDP are not looked at", "DDP-4", ddp={"reserved": 15}),
    _wrong("ddp.queue.3", "A message to queue 3 is reported", "DDP-16 DDP-18", 0x1201, ddp={"queue": 3, "number": 1}),
    _wrong("ddp.queue.last", "A message to queue 0xFFFFFFFF is reported", "DDP-16 DDP-18", 0x1201,
           ddp={"queue": 0xFFFFFFFF, "number": 1}),
    _wrong("ddp.number.skipped", "A message number that skips three is reported", "DDP-6 DDP-18", 0x1203, 0x1202,
           ddp={"number": 5}),
    _wrong("ddp.number.repeated", "A message number that has been used is reported", "DDP-6 DDP-18", 0x1203, 0x1202,
           ddp={"number": 1}),
    _wrong("ddp.number.zero", "Message number 0 is reported", "DDP-6 DDP-18", 0x1203, 0x1202, ddp={"number": 0}),
    _wrong("ddp.offset.first-not-zero", "A message that begins at offset 4 is reported", "DDP-6 DDP-18", 0x1204,
           ddp={"offset": 4}),
    _wrong("ddp.offset.beyond", "A segment far beyond the end of any buffer is reported", "DDP-16 DDP-18", 0x1204,
           0x1205, ddp={"offset": 0x7FFFFFFF}),
    _wrong("ddp.message.too-long", "A message longer than the buffer for it is reported", "DDP-16 DDP-18", 0x1205,
           0x1202, payload={"zeros": 300_000}),
    _unseen("ddp.segments.of-8-octets", "A message in segments of eight octets is taken", "DDP-11 DDP-7",
            ddp={"segment_octets": 8}),
    _wrong("ddp.write.unknown-handle", "An RDMA Write to unknown memory is reported", "DDP-16 DDP-19", 0x1100, 0x1102,
           payload="00000000", ddp={"opcode": "write", "handle": 0xDEADBEEF}),
    check(
        "ddp.write.empty",
        "The handle of an RDMA Write of no octets is not looked at",
        "DDP-9",
        NULL,
        ANSWERED,
        say(payload="", ddp={"opcode": "write", "handle": 0xDEADBEEF}),
        *afterwards(),
    ),
    check(
        "ddp.after-an-error",
        "After an error nothing more is delivered",
        "DDP-17 RD-15",
        NULL,
        ANSWERED,
        say(header={"xid": {"given": "xid", "plus": 1}}, rpc={}, ddp={"queue": 3, "number": 1}),
        say(header={"xid": {"given": "xid", "plus": 2}}, rpc={}),
        hear({"terminate": {}}, {"end": {}}),
        hear({"end": {}}),
    ),
    # RDMAP
    _wrong("rdmap.version.0", "RDMAP version 0 is reported", "RD-16 RD-1", 0x0205, ddp={"rdmap_version": 0}),
    _wrong("rdmap.version.2", "RDMAP version 2 is reported", "RD-16 RD-1", 0x0205, ddp={"rdmap_version": 2}),
    _unseen("rdmap.reserved", "Reserved bits of RDMAP are not looked at", "RD-1", ddp={"rdmap_reserved": 3}),
    _wrong("rdmap.opcode.14", "An unknown message is reported", "RD-16", 0x0206, ddp={"opcode": 14}),
    _wrong("rdmap.opcode.send-in-queue-1", "A Send in the queue of Read Requests is reported", "RD-2 RD-16", 0x0206,
           0x1201, 0x1203, ddp={"queue": 1, "number": 1}),
    _wrong("rdmap.opcode.tagged-send", "A Send in a tagged segment is reported", "RD-2 RD-16", 0x0206, 0x1100,
           payload="00000000", ddp={"opcode": "send", "tagged": 1}),
    _wrong("rdmap.opcode.untagged-write", "An RDMA Write in an untagged segment is reported", "RD-2 RD-16", 0x0206,
           ddp={"opcode": "write", "tagged": 0, "queue": 0}),
    _wrong("rdmap.response.not-asked-for", "An RDMA Read Response to no request is reported", "RD-16 DDP-16", 0x1100,
           0x0206, payload="00000000", ddp={"opcode": "read_response", "handle": 0xDEADBEEF}),
    _unseen("rdmap.send.solicited", "A Send with Solicited Event is delivered as a Send is", "RD-9",
            ddp={"opcode": "send_solicited"}),
    _unseen("rdmap.send.names-a-tag", "The tag to invalidate is not looked at in a Send", "RD-2",
            ddp={"invalidate": 0xDEADBEEF}),
    _wrong("rdmap.invalidate.unknown-handle", "A Send that invalidates unknown memory is reported", "RD-10", 0x0109,
           0x0209, 0x0100, ddp={"opcode": "send_invalidate", "invalidate": 0xDEADBEEF}),
    _wrong("rdmap.read.unknown-handle", "An RDMA Read of unknown memory is reported", "RD-16 RD-7", 0x0100, 0x0103,
           0x1202, payload={"words": [7, 0, 0, 4, 0xDEADBEEF, 0, 0]}, ddp={"opcode": "read_request"}),
    check(
        "rdmap.read.one-at-a-time",
        "With a depth of 1, no second RDMA Read comes before the Response to the first",
        "RD-13 V1-89",
        say(header={"type": 1, "reads": [{"position": 0, **_part_of_source(at)} for at in (0, 10, 20, 30)]}),
        hear(accepted()),
        memory={"source": {"content": NULL_OCTETS, "alone_ms": 30}},
        startup={"ird": 1, "ord": 1},
    ),
    check(
        "rdmap.terminate.layout",
        "A Terminate is as long as the bits of its header demand",
        "RD-4",
        NULL,
        ANSWERED,
        say(header={"xid": {"given": "xid", "plus": 1}}, rpc={}, ddp={"queue": 3, "number": 1}),
        hear(
            {"terminate": {"whole": 1}},
            {"terminate": {"code": 0x2101}, "reading": "terminate-nibbles-swapped"},
            {"end": {}, "reading": "ended-without-terminate"},
        ),
    ),
    check(
        "rdmap.terminate",
        "After a Terminate of the other side the connection ends without another one",
        "RD-11 RD-14",
        NULL,
        ANSWERED,
        say(payload="02ff0000", ddp={"opcode": "terminate"}),
        *ended(),
    ),
    check(
        "rdmap.half-closed",
        "After the other side has ended its stream the connection ends",
        "DDP-14",
        NULL,
        ANSWERED,
        {"end": {}},
        hear({"end": {}}, {"terminate": {}}),
    ),
)  # fmt: skip
"""Checks of frames, segments and messages of iWARP."""
