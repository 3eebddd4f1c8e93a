"""Mistakes in frames: each field of FPDUs, DDP segments and RDMA Read Requests, with the expected reactions.

The first call of each conversation is correct: a responder may send nothing, not even a Terminate, before it has
received a correct FPDU (RFC 5044 section 7.1.2 rule 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rpcrdma_lab.check.answers import (
    ANSWERED,
    LONG_ANSWERED,
    NULL,
    NULL_OCTETS,
    afterwards,
    answered,
    hear,
    say,
    terminated,
)
from rpcrdma_lab.check.entry import Check, Step, check

__all__ = ["CHECKS", "MISTAKES", "NO_READS", "FrameMistake"]

_NO_MEMORY = 0xDEADBEEF
"""A handle that no server has assigned."""
_ALL = 0xFFFFFFFF
_ALL_OFFSETS = (1 << 64) - 1


NO_READS = {"terminate": {"code": {"any": [0x0207, 0x2007, 0x0206, 0x2006, 0x1202, 0x2102]}},
            "unmet": "the server permits no RDMA Reads"}  # fmt: skip
"""The pattern of the Terminate from a server that permits no RDMA Reads, which is not judged by the check."""


class FrameMistake(NamedTuple):
    """A mistake in one field of a frame or segment, from which a check is made.

    `field` is "HEADER.FIELD" in the names of `rpcrdma send`, `kind` the identifier of the check, `said` the messages to
    send, and `outcome` the steps after them. `statements` and `needs`, separated by spaces, are identifiers of the
    tested statements and the conditions of the check; `startup` has fields of the start-up frame. With `while_reading`,
    the messages are sent while the server reads a Long Call, and its Read Request is named "read".
    """

    field: str
    kind: str
    title: str
    said: Sequence[Mapping[str, Any]]
    outcome: Sequence[Step]
    statements: str
    needs: str = ""
    startup: Mapping[str, Any] = {}
    while_reading: bool = False


def _call(plus: int = 1, **frame: Any) -> dict[str, Any]:
    """Returns the fields, for a step "say", of a NULL call.

    `plus` is added to the XID of the check's first call, and `frame` has further fields, such as "ddp" and "mpa" with
    wrong fields of segments and frames.
    """
    return {"header": {"xid": {"given": "xid", "plus": plus}}, "rpc": {}, **frame}


def _write(payload: str = "00000000", **ddp: Any) -> dict[str, Any]:
    return {"payload": payload, "ddp": {"opcode": "write", "handle": _NO_MEMORY, **ddp}}


def _request(length: int, handle: int, **ddp: Any) -> dict[str, Any]:
    """Returns the fields of an RDMA Read Request for `length` octets of the memory `handle`, from offset 0.

    `ddp` has further fields of its DDP segments; the fields are for a step "say" (docs/send.md).
    """
    return {"payload": {"words": [7, 0, 0, length, handle, 0, 0]}, "ddp": {"opcode": "read_request", **ddp}}


def _into_sink(opcode: str, payload: Any, at: int = 0, **ddp: Any) -> dict[str, Any]:
    """Returns the fields of an RDMA message that begins at octet `at` of the sink of the server's RDMA Read Request.

    An earlier step has named this request "read". `opcode` is "write" or "read_response", `payload` the octets of the
    message (docs/send.md), and `ddp` has DDP fields of segments.
    """
    place = {"handle": {"given": "read.sink"}, "offset": {"given": "read.sink_offset", "plus": at}}
    return {"payload": payload, "ddp": {"opcode": opcode, **place, **ddp}}


_TAKEN: Sequence[Step] = (afterwards()[1],)
"""The step that expects an ordinary reply to the call."""
_PASSED_OVER: Sequence[Step] = afterwards()


def _of(header: str, field: str) -> Any:
    """Returns a function that makes `FrameMistake` rows, each a mistake in the field `field` of `header`.

    The function takes fields of `FrameMistake`: `kind`, `title`, `statements`, `outcome`, then the messages to send; by
    name, `needs` and `startup`. Without messages, it makes a NULL call with further keyword arguments as DDP fields.
    """

    def row(
        kind: str,
        title: str,
        statements: str,
        outcome: Sequence[Step],
        *said: Mapping[str, Any],
        needs: str = "",
        startup: Mapping[str, Any] | None = None,
        **ddp: Any,
    ) -> FrameMistake:
        messages = said or (_call(ddp=ddp),)
        return FrameMistake(f"{header}.{field}", kind, title, messages, outcome, statements, needs, startup or {})

    return row


_length, _crc, _pad, _marker = (_of("fpdu", field) for field in ("length", "crc", "pad", "marker"))
_too_short = terminated(0x1000, 0x1202, 0x1206, 0x2003, 0x2002, 0x0207, listed=False)

FPDUS: tuple[FrameMistake, ...] = (
    _crc("mpa.crc.wrong", "A wrong CRC is reported, and its FPDU not delivered", "MPA-25 MPA-47 MPA-49",
         terminated(0x2002, listed=False), _call(mpa={"crc": 1}), startup={"flags": 0x50}),
    _pad("mpa.pad.not-zero", "Padding is not looked at", "MPA-8", _TAKEN,
         _call(ddp={"segment_octets": 17}, mpa={"pad": "ffffff"})),
    *(_length(f"mpa.length.{name}", f"A frame of {octets} octets, too short for a DDP header, ends the connection",
              "DDP-16", _too_short, {"payload": "", "mpa": {"length": octets}})
      for name, octets in (("0", 0), ("1", 1), ("below-a-header", 2))),
    _length("mpa.length.largest", "A frame of 65,535 octets, too long for a buffer, ends the connection", "DDP-16",
            terminated(0x1205, 0x1202, 0x2003, listed=False, long=True),
            {"payload": {"zeros": 65517}, "ddp": {"segment_octets": 65517}}),
    _marker("mpa.markers.pointer", "A marker that points elsewhere is reported", "MPA-47",
            terminated(0x2003, listed=False), {"payload": {"zeros": 600}, "mpa": {"marker": 4}}, needs="markers"),
)  # fmt: skip
"""Mistakes in each field of FPDUs (RFC 5044 section 4)."""

_model, _ddp, _ddp_bits = (_of("untagged", field) for field in ("tagged", "version", "reserved"))
_rdmap, _rdmap_bits, _opcode = (_of("untagged", field) for field in ("rdmap_version", "rdmap_reserved", "opcode"))
_tag, _queue, _number = (_of("untagged", field) for field in ("invalidate", "queue", "number"))
_offset, _last = (_of("untagged", field) for field in ("offset", "last"))
_unknown_number = terminated(0x1203, 0x1202)
_unknown_offset = terminated(0x1204, 0x1205)

UNTAGGED: tuple[FrameMistake, ...] = (
    *(_ddp(f"ddp.version.untagged-{version}", f"DDP version {version} in an untagged segment is reported",
           "DDP-4 DDP-18", terminated(0x1206, listed=False), version=version) for version in (0, 2, 3)),
    _ddp_bits("ddp.reserved", "Reserved bits of DDP are not looked at", "DDP-4", _TAKEN, reserved=15),
    _queue("ddp.queue.3", "A message to queue 3 is reported", "DDP-16 DDP-18 RD-15", terminated(0x1201),
           queue=3, number=1),
    _queue("ddp.queue.last", "A message to queue 0xFFFFFFFF is reported", "DDP-16 DDP-18 RD-15", terminated(0x1201),
           queue=_ALL, number=1),
    _queue("rdmap.opcode.send-in-queue-1", "A Send in the queue of Read Requests is reported", "RD-2 RD-16 RD-15",
           terminated(0x0206, 0x1201, 0x1203), queue=1, number=1),
    _queue("rdmap.opcode.send-in-queue-2", "A Send in the queue of Terminates is reported", "RD-2 RD-16 RD-15",
           terminated(0x0206, 0x1201, 0x1203), queue=2, number=1),
    _number("ddp.number.skipped", "A message number that skips three is reported", "DDP-6 DDP-18 RD-15",
            terminated(0x1203, 0x1202, awaited=True), number=5),
    _number("ddp.number.far", "A message number beyond any buffer is reported", "DDP-16 DDP-6 DDP-18 RD-15",
            _unknown_number, number=0x7FFFFFFF),
    _number("ddp.number.largest", "Message number 0xFFFFFFFF is reported", "DDP-16 DDP-6 DDP-18 RD-15",
            _unknown_number, number=_ALL),
    _number("ddp.number.repeated", "A message number that has been used is reported", "DDP-6 DDP-18 RD-15",
            _unknown_number, number=1),
    _number("ddp.number.zero", "Message number 0 is reported", "DDP-6 DDP-18 RD-15", _unknown_number, number=0),
    _offset("ddp.offset.first-not-zero", "A message that begins at offset 4 is reported", "DDP-6 DDP-18 RD-15",
            terminated(0x1204, awaited=True), offset=4),
    _offset("ddp.offset.beyond", "A segment far beyond the end of any buffer is reported", "DDP-16 DDP-18 RD-15",
            _unknown_offset, offset=0x7FFFFFFF),
    _offset("ddp.offset.largest", "A segment whose end is beyond offset 0xFFFFFFFF is reported",
            "DDP-16 DDP-18 RD-15", _unknown_offset, offset=_ALL),
    _offset("ddp.offset.gap", "Segments that leave a gap make no message", "DDP-11 DDP-8 DDP-18 RD-15",
            terminated(0x1204, awaited=True), _call(cut=32, ddp={"last": 0}),
            {"payload": NULL_OCTETS, "ddp": {"number": 2, "offset": 36}}),
    _offset("ddp.offset.overlap", "Segments that overlap with the same octets are reported, or make the message",
            "DDP-8 DDP-18", terminated(0x1204, other=(answered(),)), {"rpc": {}, "cut": 32, "ddp": {"last": 0}},
            {"payload": NULL_OCTETS, "ddp": {"number": 2, "offset": 28}}),
    _offset("ddp.message.too-long", "A message longer than the buffer for it is reported", "DDP-16 DDP-18 RD-15",
            terminated(0x1205, 0x1202, long=True), {"payload": {"zeros": 300_000}}),
    _last("ddp.last.never", "A message without L is not delivered when the next one comes", "DDP-2 DDP-3 DDP-11 RD-15",
          terminated(0x1203, 0x1202, awaited=True), _call(ddp={"last": 0}), _call(2)),
    _last("ddp.last.early", "A segment behind the one with L is reported", "DDP-2 DDP-6 RD-15",
          terminated(0x1203, 0x1202, 0x1204,
                     other=({"message": {"header": {"type": 4}}, "reading": "short-message-refused", "last": True},)),
          _call(cut=20, ddp={"last": 1}), {"payload": NULL_OCTETS, "ddp": {"number": 2, "offset": 20}}),
    *(_rdmap(f"rdmap.version.{version}", f"RDMAP version {version} is reported", "RD-16 RD-1",
             terminated(0x0205, listed=False), rdmap_version=version) for version in (0, 2, 3)),
    _rdmap_bits("rdmap.reserved", "Reserved bits of RDMAP are not looked at", "RD-1", _TAKEN, rdmap_reserved=3),
    *(_opcode(f"rdmap.opcode.{opcode}", f"An unknown message, of opcode {opcode}, is reported", "RD-16",
              terminated(0x0206, listed=False), opcode=opcode) for opcode in range(8, 16)),
    _opcode("rdmap.opcode.untagged-write", "An RDMA Write in an untagged segment is reported", "RD-2 RD-16 RD-15",
            terminated(0x0206), opcode="write", tagged=0, queue=0),
    _opcode("rdmap.opcode.untagged-response", "An RDMA Read Response in an untagged segment is reported",
            "RD-2 RD-16 RD-15", terminated(0x0206), opcode="read_response", tagged=0, queue=0),
    _model("rdmap.opcode.tagged-send", "A Send in a tagged segment is reported", "RD-2 RD-16 RD-15",
           terminated(0x0206, 0x1100), {"payload": "00000000", "ddp": {"opcode": "send", "tagged": 1}}),
    _tag("rdmap.send.names-a-tag", "The tag to invalidate is not looked at in a Send", "RD-2", _TAKEN,
         invalidate=_NO_MEMORY),
    *(_tag(f"rdmap.invalidate.{name}", f"A Send that invalidates {words} is reported", statements,
           terminated(0x0109, 0x0209, 0x0100), opcode=opcode, invalidate=handle)
      for name, words, statements, opcode, handle in (
          ("unknown-handle", "unknown memory", "RD-10 RD-15", "send_invalidate", _NO_MEMORY),
          ("handle-0", "the handle 0", "RD-10 RD-15", "send_invalidate", 0),
          ("largest", "the handle 0xFFFFFFFF", "RD-10 RD-15", "send_invalidate", _ALL),
          ("solicited", "unknown memory, with Solicited Event,", "RD-10 RD-9 RD-15", "send_solicited_invalidate",
           _NO_MEMORY))),
)  # fmt: skip
"""Mistakes in each field of untagged segments (RFC 5041 section 4.3, RFC 5040 section 4.1)."""

_ddp, _ddp_bits, _handle = (_of("tagged", field) for field in ("version", "reserved", "handle"))
_rdmap, _rdmap_bits, _opcode = (_of("tagged", field) for field in ("rdmap_version", "rdmap_reserved", "opcode"))

TAGGED: tuple[FrameMistake, ...] = (
    *(_ddp(f"ddp.version.tagged-{version}", f"DDP version {version} in a tagged segment is reported", "DDP-4 DDP-18",
           terminated(0x1104, listed=False), _write("00", handle=1, version=version)) for version in (0, 2, 3)),
    _ddp_bits("ddp.reserved.tagged", "Reserved bits of DDP are not looked at in a tagged segment", "DDP-4",
              _PASSED_OVER, _write("", reserved=15)),
    *(_rdmap(f"rdmap.version.tagged-{version}", f"RDMAP version {version} in a tagged segment is reported",
             "RD-16 RD-1", terminated(0x0205, listed=False), _write("", rdmap_version=version)) for version in (0, 3)),
    _rdmap_bits("rdmap.reserved.tagged", "Reserved bits of RDMAP are not looked at in a tagged segment", "RD-1",
                _PASSED_OVER, _write("", rdmap_reserved=3)),
    _opcode("rdmap.opcode.tagged-15", "An unknown message in a tagged segment is reported", "RD-16",
            terminated(0x0206, 0x1100, listed=False), _write(opcode=15, tagged=1)),
    _opcode("rdmap.opcode.tagged-read-request", "An RDMA Read Request in a tagged segment is reported",
            "RD-2 RD-16 RD-15", terminated(0x0206, 0x1100), _write(opcode="read_request", tagged=1)),
    _opcode("rdmap.response.not-asked-for", "An RDMA Read Response to no request is reported", "RD-16 DDP-16 RD-15",
            terminated(0x1100, 0x0206), _write(opcode="read_response")),
    *(_handle(f"ddp.write.{name}", f"An RDMA Write to {words} is reported", "DDP-16 DDP-19 RD-15",
              terminated(0x1100, 0x1102), _write(handle=handle))
      for name, words, handle in (("unknown-handle", "unknown memory", _NO_MEMORY), ("handle-0", "the handle 0", 0),
                                  ("handle-largest", "the handle 0xFFFFFFFF", _ALL))),
    _handle("ddp.write.empty", "The handle of an RDMA Write of no octets is not looked at", "DDP-9", _PASSED_OVER,
            _write("")),
    _of("tagged", "offset")("ddp.write.empty-at-the-end", "The offset of an RDMA Write of no octets is not looked at",
                            "DDP-9", _PASSED_OVER, _write("", offset=_ALL_OFFSETS)),
)  # fmt: skip
"""Mistakes in each field of tagged segments (RFC 5041 section 4.2)."""

_LONG_CALL = {"source": {"content": NULL_OCTETS, "answered": False}}
_LENGTH = 40
"""Octets of the Long Call that the server reads."""
_FIRST_PART = {"words": NULL_OCTETS["words"][:9]}
_READ: Sequence[Step] = (
    say(header={"type": 1, "reads": [{"position": 0, "memory": "source"}]}),
    hear({"read_request": {"length": _LENGTH}, "as": "read"},
         {"read_request": {}, "unmet": "the server reads a Long Call in parts"}),
)  # fmt: skip
_opcode, _handle, _offset, _last = (_of("tagged", field) for field in ("opcode", "handle", "offset", "last"))

ACCESSES: tuple[FrameMistake, ...] = tuple(
    row._replace(while_reading=True)
    for row in (
        _offset("rdmap.response.beyond", "A Response beyond the memory that was asked for is reported",
                "RD-16 DDP-16 RD-15", terminated(0x1101), _into_sink("read_response", {"zeros": _LENGTH + 4})),
        _offset("rdmap.response.other-offset", "A Response to another offset than the one asked for is reported",
                "RD-16 DDP-16 RD-15", terminated(0x1101), _into_sink("read_response", NULL_OCTETS, 4)),
        _handle("rdmap.response.other-handle", "A Response to another handle than the one asked for is reported",
                "RD-16 DDP-16 RD-15", terminated(0x1100, 0x1102, 0x0206),
                _into_sink("read_response", NULL_OCTETS, handle=_NO_MEMORY)),
        # No section has the code for it: the segment alone is right.
        _last("rdmap.response.too-short", "A call of which a Response has read too little is not run", "RD-16 RD-8",
              terminated(0x1101, listed=False), _into_sink("read_response", _FIRST_PART, last=1)),
        _last("rdmap.response.without-last", "A Response is complete with its segment with L alone",
              "DDP-2 DDP-11 RD-8 RD-3",
              [{"quiet": {"milliseconds": 50}},
               say(**_into_sink("read_response", {"words": NULL_OCTETS["words"][9:]}, _LENGTH - 4)),
               hear(LONG_ANSWERED)],
              _into_sink("read_response", _FIRST_PART, last=0)),
        _offset("ddp.write.beyond", "An RDMA Write beyond the end of valid memory is reported",
                "DDP-16 DDP-18 RD-15", terminated(0x1101, 0x1100, 0x1102),
                _into_sink("write", {"zeros": _LENGTH + 4})),
        # A server that adds offset and length without a look at the carry may write anywhere.
        _offset("ddp.write.wraps", "An RDMA Write beyond the last offset is reported", "DDP-16 DDP-18 RD-15",
                terminated(0x1103, 0x1101, 0x1100, 0x1102), _into_sink("write", {"zeros": 8}, offset=(1 << 64) - 4),
                needs="risky"),
        # A server that takes the octets has them where other data may be by then.
        _handle("ddp.write.finished-read", "The memory of a finished RDMA Read cannot be written any more",
                "RD-17 DDP-19",
                [hear(LONG_ANSWERED), say(**_into_sink("write", "00000000")), say(**_call()),
                 *terminated(0x1100, 0x1102, other=[{**answered(1), "reading": "filled-memory-stays-open"}])],
                _into_sink("read_response", NULL_OCTETS), needs="risky"),
    )
)  # fmt: skip
"""Mistakes in tagged segments to registered memory: that into which the server reads a Long Call."""

_source, _octets, _place = (_of("read_request", field) for field in ("handle", "payload", "queue"))
_no_source = terminated(0x0100, 0x0103, 0x1202)

REQUESTS: tuple[FrameMistake, ...] = (
    *(_source(f"rdmap.read.{name}", f"An RDMA Read of {words} is reported", "RD-16 RD-7 RD-15", _no_source,
              _request(4, handle))
      for name, words, handle in (("unknown-handle", "unknown memory", _NO_MEMORY), ("handle-0", "the handle 0", 0),
                                  ("handle-largest", "the handle 0xFFFFFFFF", _ALL))),
    _of("read_request", "length")("rdmap.read.longest", "An RDMA Read of 0xFFFFFFFF octets is reported",
                                  "RD-16 RD-7 RD-15", _no_source, _request(_ALL, _NO_MEMORY)),
    *(_octets(f"rdmap.read.of-{octets}-octets", f"An RDMA Read Request of {octets} octets is reported",
              "RD-16 RD-15", terminated(0x02FF, 0x1204, 0x1205, 0x0206, 0x0100, 0x0103, 0x1202),
              {"payload": {"zeros": octets}, "ddp": {"opcode": "read_request"}}) for octets in (0, 24, 32)),
    _place("rdmap.read.in-queue-0", "An RDMA Read Request in the queue of Sends is reported", "RD-2 RD-16 RD-15",
           terminated(0x1201, 0x0206, 0x0100, 0x0103), _request(4, _NO_MEMORY, queue=0)),
    _of("read_request", "number")("rdmap.read.number-far", "An RDMA Read Request of a far number is reported",
                                  "DDP-16 DDP-18 RD-15", terminated(0x1203, 0x1202, 0x0100, 0x0103),
                                  _request(4, _NO_MEMORY, number=0x7FFFFFFF)),
    _of("read_request", "last")("rdmap.read.without-last", "An RDMA Read Request without L is not answered",
                                "DDP-2 RD-15", terminated(0x02FF, 0x0206, 0x0100, 0x0103, 0x1202, awaited=True),
                                _request(4, _NO_MEMORY, last=0)),
    _of("read_request", "sink")(
        "rdmap.read.empty", "An RDMA Read of no octets is answered without a look at any handle, and names its sink",
        "RD-7 RD-3 RD-8",
        [hear({"read_response": {"handle": _ALL, "offset": _ALL_OFFSETS, "payload": "", "last": 1}}, NO_READS)],
        {"payload": {"words": [_ALL, _ALL, _ALL, 0, _NO_MEMORY, 0, 0]}, "ddp": {"opcode": "read_request"}}),
)  # fmt: skip
"""Mistakes in RDMA Read Requests (RFC 5040 section 4.4)."""

MISTAKES: tuple[FrameMistake, ...] = (*FPDUS, *UNTAGGED, *TAGGED, *ACCESSES, *REQUESTS)
"""The mistakes of each kind in each field of each header."""


def _check(row: FrameMistake) -> Check:
    before = _READ if row.while_reading else (NULL, ANSWERED)
    memory = {"memory": _LONG_CALL} if row.while_reading else {}
    steps = (*before, *(say(**each) for each in row.said), *row.outcome)
    return check(row.kind, row.title, row.statements, *steps, needs=row.needs, startup=row.startup, **memory)


CHECKS: tuple[Check, ...] = tuple(map(_check, MISTAKES))
"""A check of each of the mistakes."""
