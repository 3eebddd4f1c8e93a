"""Checks of the round-trip extension in both drafts of version 2 (draft-dnoveck-nfsv4-rpcrdma-rtrext-01).

Its code points are those of `round_trip_codes`; a server that tells other ones is not seen. The names of given values
begin with the version: "2.segment_at" is the offset of the first segment for bulk data in a receive buffer of the
server, "2.segment_octets" its length, "2.segments" the number of such segments in a buffer, and "2.requests_max" the
transmissions of the longest request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rpcrdma.check.answers import NULL_OCTETS, hear, say
from rpcrdma.check.catalogue.round_trip_codes import (
    BY_SIZE,
    CHOICE,
    CONTINUE,
    CONTINUES,
    EXPLICIT,
    HEADER_TYPE,
    IN_SEGMENTS,
    NO_ITEM,
    OFFSET,
    OTHER_TYPE,
    OTHER_XID,
    PAYLOAD,
    REPORT,
    REQUEST,
    RESPONSE,
    SEGMENT_NUMBER,
    SEQUENCE,
    TAKES_REQUESTS,
    TAKES_RESPONSES,
    TOO_SHORT,
    UNEXPECTED,
    extension_properties,
)
from rpcrdma.check.catalogue.version_2 import DRAFTS, Draft
from rpcrdma.check.entry import Check, Step

__all__ = ["CHECKS", "PROPERTIES"]

_HEAD, _SEGMENT_OCTETS, _SEGMENTS = 1024, 1024, 4
_RECEIVE_OCTETS = _HEAD + _SEGMENTS * _SEGMENT_OCTETS
PROPERTIES: Sequence[Any] = extension_properties(
    _RECEIVE_OCTETS, _SEGMENTS, _SEGMENT_OCTETS, support=TAKES_REQUESTS | TAKES_RESPONSES | CONTINUES
)
"""The properties that the checks tell: a receive buffer is 1,024 octets for headers, and four segments for data."""

_XID = {"given": "xid"}
_SINK_SEGMENT = {"memory": "sink"}
_SINK = {"sink": {"octets": 512, "may": "write"}}
_ANY_END = 0xFFFFFFFF
_RESULT_AT = {"any": [128, 44]}
"""The Position of the data in the result of a READ, with and without attributes (RFC 1813 section 3.3.6)."""
_RPC_HEADER_OCTETS = 40
"""The shortest RPC header; procedure arguments come behind it."""
_CALLER = {"credential": {"given": "credential"}}


def _request(*, rpc: Mapping[str, Any] | None = None, **fields: Any) -> Step:
    """A Transmit Request of one transmission, with an empty call unless `rpc` has another."""
    message: dict[str, Any]
    message = {name: fields.pop(name) for name in ("body", "bulk", "cut", "append") if name in fields}
    if "body" not in message:
        message["rpc"] = rpc or {}
    return say(header={"type": REQUEST, "count": 1, **fields}, **message)


def _continue(number: Any, body: Any = "", **fields: Any) -> Step:
    """A Transmit Continue."""
    message = {name: fields.pop(name) for name in ("bulk",) if name in fields}
    return say(header={"type": CONTINUE, "number": number, "begun_by": REQUEST, **fields}, body=body, **message)


def _read(count: int, *results: Mapping[str, Any], extra: int = 0, begin: int = 0, end: int = _ANY_END) -> Step:
    """READ from the start of the file, with these directions for its result."""
    args = [{"opaque": {"given": "file"}}, {"longs": [0]}, {"words": [count]}]
    rpc = {"procedure": 6, "args": args, **_CALLER}
    directions = [{"begin": begin, "end": end, "results": list(results)}]
    return _request(rpc=rpc, directions=directions, extra_receives=extra)


def _write(draft: Draft, octets: int, item: Mapping[str, Any], *, bulk: Any = None, **fields: Any) -> Step:
    """WRITE of a pattern whose data is at this place."""
    args = [{"opaque": {"given": "written"}}, {"longs": [0]}, {"words": [octets, 2, octets]}]
    placed = {"position": {"given": "write_position"}, "length": octets, **item}
    at = {"at": {"given": f"{draft.version}.segment_at"}}
    more = {} if bulk is None else {"bulk": {**at, "data": bulk}}
    return _request(rpc={"procedure": 7, "args": args, **_CALLER}, items=[placed], **more, **fields)


def _read_back(draft: Draft, count: int) -> list[Step]:
    """A READ of the written file has the pattern."""
    args = [{"opaque": {"given": "written"}}, {"longs": [0]}, {"words": [count]}]
    xid = {**_XID, "plus": 1}
    answer = draft.accepted(1)
    rpc = {**answer["message"]["rpc"], "result_status": 0, "results": {"ends": {"opaque": {"pattern": count}}}}
    return [
        say(header={"xid": xid}, rpc={"procedure": 6, "args": args, **_CALLER}),
        hear({"message": {**answer["message"], "rpc": rpc}}),
    ]


class _Checks:
    """The checks of one draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = replace(draft, family=f"{draft.family}.rtr")
        self._reply_flags = {"flags": 1} if draft.version == "2" else {}

    def check(
        self, name: str, title: str, statements: str, *steps: Step, needs: str = "", **conversation: Any
    ) -> Check:
        """A check behind the properties of both sides."""
        draft = self._draft
        own = {need: f"{draft.version}.{need}" for need in ("requests", "continuation", "segments")}
        words = [own.get(need, need) for need in ("requests", *needs.split())]
        begin = [draft.told(*PROPERTIES), draft.introduction[1]]
        return draft.first(name, title, statements, *begin, *steps, needs=" ".join(words), **conversation)

    def answered(self) -> Step:
        """A successful answer without results, in a message of version 2 or in a Transmit Response."""
        header = {"type": RESPONSE, "xid": _XID, "count": 1, "items": [], **self._reply_flags}
        rpc = {"xid": _XID, "direction": 1, "accepted": 0}
        return hear(self._draft.accepted(), {"message": {"header": header, "rpc": rpc}})

    def response(self, *items: Mapping[str, Any], count: Any = 1, **message: Any) -> Step:
        """A Transmit Response with results at these places."""
        header = {"type": RESPONSE, "xid": _XID, "version": 2, "count": count, "items": list(items)}
        rpc = {"xid": _XID, "direction": 1, "accepted": 0, **message.pop("rpc", {"result_status": 0})}
        return hear({"message": {"header": {**header, **self._reply_flags}, "rpc": rpc, **message}})

    def reported(self, fault: int, *numbers: Any, number: int = 0, plus: int = 0, leads: bool = True) -> list[Step]:
        """Report Error about this transmission of a request; the connection goes on."""
        draft = self._draft
        xid = {**_XID, "plus": plus}
        lead = {"any": [None, {"xid": _XID, "direction": 0, "number": 0}]} if leads else None
        header = {"type": REPORT, "version": 2, "xid": xid, "bad": {"xid": xid, "direction": 0, "number": number}}
        exact = {**header, "fault": fault, "numbers": list(numbers), "lead": lead, **self._reply_flags}
        other = {"version": 2, "xid": {"any": [_XID, xid]}, **self._reply_flags}
        return [
            hear(
                {"message": {"header": exact, "invalidates": None}},
                {"message": {"header": {"type": REPORT, **other}, "invalidates": None}, "reading": "other-report"},
                {"message": {"header": {"type": 4, **other}}, "reading": "error-in-place-of-report"},
            ),
            *draft.afterwards(2),
        ]

    def undecodable(self, name: str, title: str, statements: str, step: Step) -> Check:
        """A header against the XDR: BAD_XDR, and the connection goes on."""
        draft = self._draft
        return self.check(name, title, statements, step, hear(draft.error("BAD_XDR")), *draft.afterwards())

    def in_group(self, name: str, title: str, statements: str, wrong: Step, *reported: Step) -> Check:
        """A wrong second transmission of a request of two."""
        first = _request(body={"words": [_XID, 0]}, count=2)
        return self.check(name, title, statements, first, wrong, *reported, needs="continuation")

    def requests(self) -> list[Check]:
        """Requests in one transmission and in several."""
        draft, version = self._draft, self._draft.version
        head = {"words": [_XID, 0]}
        tail = {"words": [2, {"given": "program"}, {"given": "program_version"}, 0, 0, 0, 0, 0]}
        receive = {2: {"any": [None, {"words": [{"given": f"{version}.receive_octets"}]}]}}
        told = {
            "version": 2,
            "type": draft.properties,
            "properties": {str(which): has for which, has in receive.items()},
        }
        whole = [self.answered(), *draft.afterwards()]
        return [
            draft.first("properties", "The Receive Buffer Size is the sum of the segments of the structure",
                       "RT-10 RT-29", draft.told(*PROPERTIES), hear({"message": {"header": told}}),
                       needs=f"{version}.requests"),
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
                       hear({"message": {"header": {"xid": _XID}, "rpc": {"direction": 1, "status": 1}}}),
                       *draft.afterwards(), needs="continuation"),
            self.check("report.discarded", "A report of no transmission of the server is discarded", "RT-4",
                       say(header={"type": REPORT, "bad": {"xid": _XID, "direction": 1, "number": 0},
                                   "fault": UNEXPECTED}), *draft.afterwards()),
            self.check("report.undecodable", "A report that does not decode is discarded", "RT-4",
                       say(header={"type": REPORT, "bad": {"xid": _XID, "direction": 7, "number": 0}, "fault": 99}),
                       *draft.afterwards()),
            self.check("response.to-no-call", "A Transmit Response to no call is discarded", "RT-19",
                       say(header={"type": RESPONSE, "count": 1, **self._reply_flags}, body={"words": [_XID, 1, 0]}),
                       *draft.afterwards()),
        ]  # fmt: skip

    def groups(self) -> list[Check]:
        """Faults of groups, each with its report."""
        version = self._draft.version
        limit = {"given": f"{version}.requests_max"}
        more = {**limit, "plus": 1}
        next_xid = {"xid": {**_XID, "plus": 1}}
        usual = {"type": 0} if version == "2" else {"type": 10}
        room = 40
        return [
            self.check("count.0", "A request of no transmissions is reported", "RT-14 RT-11", _request(count=0),
                       *self.reported(SEQUENCE, limit, 0, leads=False)),
            self.check("count.beyond", "A request of more transmissions than the server takes is reported",
                       "RT-11 RT-14", _request(count=more), *self.reported(SEQUENCE, limit, more, leads=False)),
            self.check("payload.beyond", "A payload longer than the transmission is reported", "RT-12 RT-14",
                       _request(payload_octets=room + 1), *self.reported(PAYLOAD, room + 1, 0, room, leads=False)),
            self.check("continue.nothing", "A continuation of nothing is reported", "RT-14 RT-33", _continue(1),
                       *self.reported(UNEXPECTED, number=1, leads=False)),
            self.in_group("number.skipped", "A transmission number that skips one is reported", "RT-2 RT-14 RT-33",
                          _continue(2, "00000000"), *self.reported(SEQUENCE, 1, 2, number=2)),
            self.in_group("number.repeated", "A transmission number that has been used is reported", "RT-2 RT-14",
                          _continue(0, "00000000"), *self.reported(SEQUENCE, 1, 0)),
            self.in_group("xid.other", "A continuation with another XID is reported", "RT-13 RT-14",
                          _continue(1, "00000000", **next_xid),
                          *self.reported(OTHER_XID, _XID, next_xid["xid"], number=1, plus=1)),
            self.in_group("begun-by.response", "A continuation of a response in a request is reported", "RT-14 RT-2",
                          _continue(1, "00000000", begun_by=RESPONSE),
                          *self.reported(OTHER_TYPE, REQUEST, RESPONSE, number=1)),
            self.in_group("request.within", "A second request within a request is reported", "RT-2 RT-14",
                          _request(**next_xid), *self.reported(OTHER_TYPE, CONTINUE, REQUEST, plus=1)),
            self.in_group("message.within", "A message of version 2 within a request is reported", "RT-2 RT-14",
                          say(header=next_xid, rpc={}),
                          *self.reported(HEADER_TYPE, CONTINUE, usual["type"], plus=1)),
            self.check("payload.late", "A payload that begins in the second transmission is reported", "RT-30 RT-31",
                       _request(body="", count=2), _continue(1, NULL_OCTETS),
                       *self.reported(PAYLOAD, room, 0, 0, number=1), needs="continuation"),
            self.check("ranges.overlap", "Ranges of directions that overlap are reported", "RT-9 RT-14",
                       _request(directions=[{"begin": 0, "end": 40, "results": []},
                                            {"begin": 20, "end": 40, "results": []}]),
                       *self.reported(OFFSET, 20, 40, _ANY_END, leads=False)),
        ]  # fmt: skip

    def mistakes(self) -> list[Check]:
        """Headers against the XDR, and places against the table of contexts (section 6.2)."""
        kinds = {"choice": CHOICE, "by-size": BY_SIZE, "too-short": TOO_SHORT, "no-item": NO_ITEM, "9": 9}
        results = {"too-short": TOO_SHORT, "no-item": NO_ITEM, "9": 9}
        start = 20 if self._draft.version == "2" else 16
        return [
            *(self.undecodable(f"item.{name}", f"An item of a request with the place of type {kind} is refused",
                               "RT-6 RT-32", _request(items=[{"position": 40, "length": 4, "type": kind}]))
              for name, kind in kinds.items()),
            *(self.undecodable(f"direction.{name}", f"A direction of type {kind} is refused", "RT-6 RT-32",
                               _request(directions=[{"begin": 0, "end": 40,
                                                     "results": [{"least": 0, "type": kind}]}]))
              for name, kind in results.items()),
            *(self.undecodable(f"cut.{octets}", f"A Transmit Request that ends after {octets} octets of it is refused",
                               "RT-32", _request(cut=start + octets)) for octets in (0, 4, 8, 12, 16)),
            self.undecodable("items.count-largest", "A count of 4,294,967,295 items is refused", "RT-32",
                             say(header=None, body=self._counted_items())),
        ]  # fmt: skip

    def _counted_items(self) -> Any:
        prefix = [_XID, 2, 0x40_0004, REQUEST, 0] if self._draft.version == "2" else [_XID, 2, 1000, REQUEST]
        return {"words": [*prefix, _ANY_END, 0, 0, 0, 0]}

    def items(self) -> list[Check]:
        """Data of requests in segments of the server's buffers, and by RDMA."""
        draft, version = self._draft, self._draft.version
        octets = {"given": f"{version}.segment_octets"}
        segments = {"given": f"{version}.segments"}
        data = {"pattern": 100}
        position = {"given": "write_position"}

        def wrong(name: str, title: str, item: Mapping[str, Any], fault: int, *numbers: Any) -> Check:
            step = _write(draft, 100, {"type": IN_SEGMENTS, "numbers": [0], **item}, bulk=data)
            return self.check(name, title, "RT-14 RT-5", step, *self.reported(fault, *numbers, leads=False),
                              needs="nfs write segments")  # fmt: skip

        def taken(name: str, title: str, statements: str, *steps: Step, needs: str = "", memory: Any = None) -> Check:
            answer = draft.accepted()
            pattern = {**answer["message"], "rpc": {**answer["message"]["rpc"], "result_status": 0}}
            return self.check(name, title, statements, *steps, hear({"message": pattern}), *_read_back(draft, 100),
                              needs=f"nfs write {needs}", memory=memory or {})  # fmt: skip

        source = {"source": {"content": data}}
        return [
            taken("write.in-segment", "WRITE takes its data from a segment of the receive buffer", "RT-23 RT-24 RT-12",
                  _write(draft, 100, {"type": IN_SEGMENTS, "numbers": [0]}, bulk=data), needs="segments"),
            taken("write.at-an-offset", "WRITE takes data that begins within a segment", "RT-23",
                  _write(draft, 100, {"type": IN_SEGMENTS, "offset": 8, "numbers": [0]},
                         bulk=[{"zeros": 8}, data]), needs="segments"),
            taken("write.in-continuation", "Segments are numbered through all buffers of a request, unused ones, too",
                  "RT-5 RT-13",
                  _write(draft, 100, {"type": IN_SEGMENTS, "numbers": [segments]}, count=2),
                  _continue(1, bulk={"at": {"given": f"{version}.segment_at"}, "data": data}),
                  needs="segments continuation"),
            taken("write.explicit", "WRITE reads its data from the memory that the request names", "RT-23",
                  _write(draft, 100, {"type": EXPLICIT, "segments": [{"memory": "source"}]}), memory=source),
            wrong("place.number-beyond", "The number of a segment beyond the buffers is reported",
                  {"numbers": [segments]},
                  SEGMENT_NUMBER, segments, 0, {**segments, "plus": -1}),
            wrong("place.offset-beyond", "An offset beyond the segment is reported",
                  {"offset": octets}, OFFSET, octets, 0,
                  {**octets, "plus": -1}),
            wrong("place.length-beyond", "An item longer than its segments is reported",
                  {"length": {**octets, "plus": 4}},
                  PAYLOAD, {**octets, "plus": 4}, 0, octets),
            wrong("place.position-unaligned", "An item at a Position that is no multiple of four is reported",
                  {"position": {**position, "plus": 2}}, OFFSET, {**position, "plus": 2}, 0, position),
        ]  # fmt: skip

    def directions(self) -> list[Check]:
        """Results in segments of the check's buffers, and by RDMA, in the allowed combinations (section 7.4)."""
        draft = self._draft
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
            return self.check(f"read.{name}", title, statements, *steps, *draft.afterwards(),
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
                 hear({"message": {"header": {"type": CONTINUE, "xid": _XID, "number": 1, "begun_by": RESPONSE,
                                              "payload_octets": 0, **self._reply_flags},
                                   "body": {"ends": {"given": "content", "from": 4096, "first": 904}}}})),
            read("no-room", "A result takes no more transmissions than the request permits", "RT-18 RT-11",
                 _read(5000, by_send), hear({"message": {"header": {"type": 4, "xid": _XID}}})),
            self.check("direction.unused", "A direction of a call without results is answered with none", "RT-25 RT-7",
                       _request(directions=[{"begin": 0, "end": _ANY_END, "results": [by_rdma]}]),
                       self.response(none, rpc={}), untouched, *draft.afterwards(), memory=_SINK),
        ]  # fmt: skip


def _all(draft: Draft) -> Sequence[Check]:
    checks = _Checks(draft)
    return [*checks.requests(), *checks.groups(), *checks.mistakes(), *checks.items(), *checks.directions()]


CHECKS: tuple[Check, ...] = tuple(each for draft in DRAFTS for each in _all(draft))
"""Checks of the round-trip extension."""
