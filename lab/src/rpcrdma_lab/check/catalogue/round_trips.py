"""Checks of the round-trip extension of version 2 (draft-dnoveck-nfsv4-rpcrdma-rtrext-01).

Its code points are those of `round_trip_codes`; a server with other code points is not recognised. The names of given
values begin with the version: "2.segment_at" is the offset of the first segment for bulk data in a receive buffer of
the server, "2.segment_octets" its length, "2.segments" the number of such segments in a buffer, and "2.requests_max"
the number of transmissions of the longest request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rpcrdma_lab.check.answers import NULL_OCTETS, hear, say
from rpcrdma_lab.check.catalogue.files import made_old, read_call, shown
from rpcrdma_lab.check.catalogue.round_trip_codes import (
    BY_SIZE,
    CHOICE,
    CONTINUE,
    CONTINUES,
    EXPLICIT,
    IN_SEGMENTS,
    NO_ITEM,
    REPORT,
    RESPONSE,
    TAKES_REQUESTS,
    TAKES_RESPONSES,
    TOO_SHORT,
    UNEXPECTED,
    extension_properties,
)
from rpcrdma_lab.check.catalogue.round_trips_headers import (
    ANY_END,
    answered,
    continuation,
    mistakes,
    request,
    write_request,
)
from rpcrdma_lab.check.catalogue.version_2 import CONNPROP, Family
from rpcrdma_lab.check.entry import Check, Step

__all__ = ["CHECKS", "PROPERTIES"]

_HEAD, _SEGMENT_OCTETS, _SEGMENTS = 1024, 1024, 4
_RECEIVE_OCTETS = _HEAD + _SEGMENTS * _SEGMENT_OCTETS
PROPERTIES: Sequence[Any] = extension_properties(
    _RECEIVE_OCTETS, _SEGMENTS, _SEGMENT_OCTETS, support=TAKES_REQUESTS | TAKES_RESPONSES | CONTINUES
)
"""The properties that the checks announce: receive buffers of 1,024 octets for headers and four segments for data."""

_XID = {"given": "xid"}
_SINK_SEGMENT = {"memory": "sink"}
_SINK = {"sink": {"octets": 512, "may": "write"}}
_RESULT_AT = {"any": [128, 44]}
"""The pattern of the Position of a READ's data: with or without attributes (RFC 1813 section 3.3.6)."""
_RPC_HEADER_OCTETS = 40
"""Octets of the shortest RPC call header; arguments follow."""


def _request(**message: Any) -> Step:
    return say(**request(**message))


def _continue(number: Any, body: Any = "", **fields: Any) -> Step:
    return say(**continuation(number, body, **fields))


def _read(count: int, *results: Mapping[str, Any], extra: int = 0, begin: int = 0, end: int = ANY_END) -> Step:
    """Returns a step that sends a Transmit Request with a READ of `count` octets, whose data returns as `results` say.

    Each of `results`, directions for result data, has "least", "type" and others (docs/send.md). They hold for results
    that belong to arguments between the octets `begin` and `end` of the call. `extra` is the number of further receives
    for the response.
    """
    directions = [{"begin": begin, "end": end, "results": list(results)}]
    return _request(rpc=read_call(count), directions=directions, extra_receives=extra)


def _write(octets: int, item: Mapping[str, Any], **fields: Any) -> Step:
    return say(**write_request(octets, item, **fields))


_FAMILY = Family("v2.rtr")


class _Checks:
    """Makes the checks of servers with the round-trip extension, which share its patterns and steps."""

    def check(
        self, name: str, title: str, statements: str, *steps: Step, needs: str = "", **conversation: Any
    ) -> Check:
        """Returns a check whose `steps` follow the messages with the transport properties of both sides.

        `name` is the check's identifier after "v2.rtr." and `title` its expected behaviour as text; `statements` and
        `needs` are identifiers of the tested statements and of the check's conditions, separated by spaces. Each check
        has the condition "2.requests" (the server takes Transmit Requests), too. `conversation` has further keys of the
        conversation (docs/send.md).
        """
        own = {need: f"2.{need}" for need in ("requests", "continuation", "segments")}
        words = [own.get(need, need) for need in ("requests", *needs.split())]
        begin = [_FAMILY.told(*PROPERTIES), _FAMILY.introduction[1]]
        return _FAMILY.first(name, title, statements, *begin, *steps, needs=" ".join(words), **conversation)

    def response(self, *items: Mapping[str, Any], count: Any = 1, **message: Any) -> Step:
        """Returns a step that expects a Transmit Response in `count` messages, a number or a pattern.

        `items` are patterns of its header's items, which state the places of result data. `message` replaces fields of
        the message's pattern.
        """
        header = {"type": RESPONSE, "xid": _XID, "version": 2, "count": count, "items": list(items)}
        rpc = {"xid": _XID, "direction": 1, "accepted": 0, **message.pop("rpc", {"result_status": 0})}
        return hear({"message": {"header": {**header, "flags": 1}, "rpc": rpc, **message}})

    def mistakes(self) -> list[Check]:
        """Returns the checks of requests and reports with wrong headers, or with a wrong sequence of transmissions."""
        checks = []
        for row in mistakes():
            answers = [_FAMILY.error(row.outcome)] if isinstance(row.outcome, str) else row.outcome
            # A transmission of a faulty group may have the next XID.
            steps = [*row.behind, hear(*answers), *(row.then or _FAMILY.afterwards(2))]
            checks.append(
                self.check(row.id, row.title, row.statements, *row.before, say(**row.message), *steps, needs=row.needs,
                           **row.conversation)
            )  # fmt: skip
        return checks

    def requests(self) -> list[Check]:
        """Returns the checks of right requests, of the server's properties, and of reports and responses to nothing."""
        head = {"words": [_XID, 0]}
        tail = {"words": [2, {"given": "program"}, {"given": "program_version"}, 0, 0, 0, 0, 0]}
        receive = {2: {"any": [None, {"words": [{"given": "2.receive_octets"}]}]}}
        told = {
            "version": 2,
            "type": CONNPROP,
            "properties": {str(which): has for which, has in receive.items()},
        }
        whole = [hear(*answered()), *_FAMILY.afterwards()]
        return [
            _FAMILY.first("properties", "The Receive Buffer Size is the sum of the segments of the structure",
                       "RT-10 RT-29", _FAMILY.told(*PROPERTIES), hear({"message": {"header": told}}),
                       needs="2.requests"),
            self.check("null", "An empty call in a Transmit Request is answered", "RT-19 RT-12 RT-30", _request(),
                       *whole),
            self.check("padding-behind", "Octets behind the payload are passed over", "RT-12",
                       _request(append={"zeros": 64}), *whole),
            self.check("pieces.two", "A request in two transmissions is joined", "RT-13 RT-2 RT-30",
                       _request(body=head, count=2), _continue(1, tail), *whole, needs="continuation"),
            self.check("pieces.empty", "A continuation without a payload is taken", "RT-13",
                       _request(body=NULL_OCTETS, count=2), _continue(1), *whole, needs="continuation"),
            self.check("pieces.denied", "RPC version 3 in two transmissions is denied, and not reported", "RT-32",
                       _request(body=head, count=2), _continue(1, {"words": [3, *tail["words"][1:]]}),
                       hear({"message": {"header": {"xid": _XID, "version": 2}, "invalidates": None,
                                         "rpc": {"xid": _XID, "direction": 1, "status": 1}}}),
                       *_FAMILY.afterwards(), needs="continuation"),
            self.check("report.discarded", "A report of no transmission of the server is discarded", "RT-4",
                       say(header={"type": REPORT, "bad": {"xid": _XID, "direction": 1, "number": 0},
                                   "fault": UNEXPECTED}), *_FAMILY.afterwards()),
            self.check("response.to-no-call", "A Transmit Response to no call is discarded", "RT-19",
                       say(header={"type": RESPONSE, "count": 1, "flags": 1}, body={"words": [_XID, 1, 0]}),
                       *_FAMILY.afterwards()),
        ]  # fmt: skip

    def items(self) -> list[Check]:
        """Returns the checks of request data in segments of the server's receive buffers, and by RDMA."""
        segments = {"given": "2.segments"}
        data = {"pattern": 100}

        def taken(name: str, title: str, statements: str, *steps: Step, needs: str = "", memory: Any = None) -> Check:
            seen = shown(100, statements.partition(" ")[0])
            return self.check(name, title, statements, *made_old(), *steps, hear(_FAMILY.done()), *seen,
                              needs=f"nfs write {needs}", memory=memory or {})  # fmt: skip

        source = {"source": {"content": data}}
        return [
            taken("write.in-segment", "WRITE takes its data from a segment of the receive buffer", "RT-23 RT-24 RT-12",
                  _write(100, {"type": IN_SEGMENTS, "numbers": [0]}, bulk=data), needs="segments"),
            taken("write.at-an-offset", "WRITE takes data that begins within a segment", "RT-23",
                  _write(100, {"type": IN_SEGMENTS, "offset": 8, "numbers": [0]},
                         bulk=[{"zeros": 8}, data]), needs="segments"),
            taken("write.in-continuation", "Segments are numbered through all buffers of a request, unused ones, too",
                  "RT-5 RT-13",
                  _write(100, {"type": IN_SEGMENTS, "numbers": [segments]}, count=2),
                  _continue(1, bulk={"at": {"given": "2.segment_at"}, "data": data}),
                  needs="segments continuation"),
            taken("write.explicit", "WRITE reads its data from the memory that the request names", "RT-23",
                  _write(100, {"type": EXPLICIT, "segments": [{"memory": "source"}]}), memory=source),
        ]  # fmt: skip

    def directions(self) -> list[Check]:
        """Returns the checks of READ data in segments of receive buffers and by RDMA, in the allowed combinations.

        They are those of section 7.4 of draft-dnoveck-nfsv4-rpcrdma-rtrext-01.
        """
        content = {"given": "content", "first": 100}
        by_send = {"least": 0, "type": IN_SEGMENTS}
        by_rdma = {"least": 0, "type": EXPLICIT, "segments": [_SINK_SEGMENT]}
        in_segment = {"position": _RESULT_AT, "length": 100, "type": IN_SEGMENTS, "offset": 0, "numbers": [0]}
        written = {"handle": {"given": "sink.handle"}, "offset": {"given": "sink.offset"}, "length": 100}
        explicit = {"position": _RESULT_AT, "length": 100, "type": EXPLICIT, "segments": [written]}
        short = {"type": TOO_SHORT}
        none = {"type": NO_ITEM}
        placed = {"octets": _HEAD + 100, "body": {"ends": [{"zeros": 256}, content]}}
        inline = {"rpc": {"result_status": 0, "results": {"ends": {"opaque": content}}}}
        memory = {"memory": {"sink": {"written": 100, "data": content}}}
        untouched = {"memory": {"sink": {"written": 0}}}

        def read(name: str, title: str, statements: str, *steps: Step, needs: str = "") -> Check:
            return self.check(f"read.{name}", title, statements, *steps, *_FAMILY.afterwards(),
                              needs=f"nfs file {needs}", memory=_SINK)  # fmt: skip

        return [
            read("in-segment", "A result comes in a segment of the check's buffer, behind zeros", "RT-7 RT-15 RT-24",
                 _read(100, by_send), self.response(in_segment, **placed)),
            read("explicit", "A result is written to the memory of its direction", "RT-7 RT-26",
                 _read(100, by_rdma), self.response(explicit), memory),
            read("choice", "A result whose place is free comes in a segment or is written", "RT-7",
                 _read(100, {**by_rdma, "type": CHOICE}), self.response({"any": [in_segment, explicit]})),
            read("by-size-below", "A result below the bound comes in a segment", "RT-7",
                 _read(100, {**by_rdma, "type": BY_SIZE, "explicit_from": 101}),
                 self.response(in_segment, **placed), untouched),
            read("by-size-from", "A result from the bound on is written", "RT-7",
                 _read(100, {**by_rdma, "type": BY_SIZE, "explicit_from": 100}), self.response(explicit), memory),
            read("too-short", "A result below the least length is inline and uses up its direction", "RT-8 RT-25",
                 _read(100, {**by_rdma, "least": 101}), self.response(short, **inline), untouched),
            read("two-directions", "A direction for which there is no result is answered with none", "RT-25 RT-7",
                 _read(100, by_send, by_rdma), self.response(in_segment, none, **placed), untouched),
            read("range-of-the-header", "A direction whose range has no arguments holds for no result", "RT-27",
                 _read(100, by_rdma, end=_RPC_HEADER_OCTETS), self.response(none, **inline), untouched),
            read("continued", "A result longer than one buffer continues in the segments of the next one",
                 "RT-5 RT-18 RT-16 RT-1", _read(5000, by_send, extra=2),
                 self.response({"position": _RESULT_AT, "length": 5000, "type": IN_SEGMENTS, "offset": 0,
                                "numbers": [0, 1, 2, 3, 4]}, count=2,
                               body={"ends": {"given": "content", "first": 4096}}),
                 hear({"message": {"header": {"type": CONTINUE, "version": 2, "xid": _XID, "number": 1,
                                              "begun_by": RESPONSE, "payload_octets": 0, "flags": 1},
                                   "body": {"ends": {"given": "content", "from": 4096, "first": 904}}}}),
                 untouched),
            read("no-room", "A result takes no more transmissions than the request permits", "RT-18 RT-11",
                 _read(5000, by_send), hear({"message": {"header": {"type": 4, "xid": _XID}}})),
            self.check("direction.unused", "A direction of a call without results is answered with none", "RT-25 RT-7",
                       _request(directions=[{"begin": 0, "end": ANY_END, "results": [by_rdma]}]),
                       self.response(none, rpc={}), untouched, *_FAMILY.afterwards(), memory=_SINK),
        ]  # fmt: skip


def _all() -> Sequence[Check]:
    checks = _Checks()
    return [*checks.requests(), *checks.mistakes(), *checks.items(), *checks.directions()]


CHECKS: tuple[Check, ...] = tuple(_all())
"""Checks of the round-trip extension, of servers."""
