"""Checks of clients with the round-trip extension of version 2 (draft-dnoveck-nfsv4-rpcrdma-rtrext-01).

The scripted server announces the extension by the code points of this library. A directed READ, whose result may be in
segments of the client's receive buffers, is answered by hand: {"given": "client.segment_at"} and the names beside it
are those of the client's Receive Buffer Structure. Other requests with directions are refused, and may be repeated as
plain messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rpcrdma_lab.check.answers import hear, say
from rpcrdma_lab.check.catalogue.clients_version_2 import Version2Client
from rpcrdma_lab.check.catalogue.round_trip_codes import (
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
    RTR_SUPPORT,
    SEGMENT_NUMBER,
    SEQUENCE,
    TAKES_REQUESTS,
    TAKES_RESPONSES,
    TOO_SHORT,
    TRANSMISSIONS,
    UNEXPECTED,
    extension_properties,
)
from rpcrdma_lab.check.catalogue.version_2 import CODES
from rpcrdma_lab.check.entry import Check, Step

__all__ = ["CLIENT_CHECKS"]

_NO_CONTINUATION = TAKES_REQUESTS | TAKES_RESPONSES
_ALL_KINDS = _NO_CONTINUATION | CONTINUES
_HEAD, _SEGMENT_OCTETS, _SEGMENTS = 1024, 4096, 8
_RECEIVE_OCTETS = _HEAD + _SEGMENTS * _SEGMENT_OCTETS

_XID = {"heard": "header.xid"}
_OTHER = {**_XID, "plus": 1000}
_SILENCE = {"quiet": {"milliseconds": {"given": "pause_ms"}}}
_READ, _WRITE = 6, 7
_LEAST_MAX = 2048
"""The largest least length of a direction for a READ that is answered by hand: the result is 4 octets longer."""
_LENGTH = {"heard": "header.directions.0.results.0.least", "plus": 4}
_RESULT_AT = 44
"""The Position of the data in the result of a READ without attributes."""
_CALLS_MAX = 8
_NO_EXTENSION = "the client tells no round-trip extension"
_NO_SEGMENTS = "the client's receive buffers have no segments for data"


def _properties(
    support: int = _ALL_KINDS, transmissions: int = TRANSMISSIONS, segments: int = _SEGMENTS
) -> Sequence[Any]:
    """Returns the scripted server's transport properties, each as [NUMBER, VALUE]; VALUE is octets (docs/send.md).

    `support` has the bits of RTR Support, `transmissions` is the most messages (each a Send) of one request that the
    server accepts, and `segments` the number of segments for data in each of its receive buffers.
    """
    return extension_properties(_RECEIVE_OCTETS, segments, _SEGMENT_OCTETS, support=support, requests_max=transmissions)


class _Checks:
    """Makes the checks of clients with the round-trip extension (draft-dnoveck-nfsv4-rpcrdma-rtrext-01)."""

    def __init__(self) -> None:
        self.client = Version2Client(_RECEIVE_OCTETS)

    def request(self, **fields: Any) -> dict[str, Any]:
        """Returns the pattern of a Transmit Request that the server accepts; `fields` replace fields of its header."""
        items = {"all": {"type": {"any": [EXPLICIT, IN_SEGMENTS]}}}
        ways = {"all": {"type": {"any": [EXPLICIT, IN_SEGMENTS, CHOICE, BY_SIZE]}}}
        header = {
            "version": 2,
            "type": REQUEST,
            "count": {"min": 1, "max": TRANSMISSIONS},
            "items": items,
            "directions": {"all": {"results": ways}},
            "flags": 0,
            **fields,
        }
        return {"message": {"header": header, "octets": {"max": _RECEIVE_OCTETS}, "invalidates": None}}

    def check(
        self,
        name: str,
        title: str,
        statements: str,
        *steps: Step,
        told: Sequence[Any] | None = None,
        segments: bool = False,
        agrees: Mapping[str, Any] | None = None,
    ) -> Check:
        """Returns a check for clients with the round-trip extension; for others its precondition is not met.

        Args:
            name: the check's identifier after "client.v2.rtr.".
            title: the expected behaviour as text.
            statements: the identifiers of the tested statements, separated by spaces.
            steps: the steps after both sides' transport properties.
            told: the transport properties that the scripted server sends, each as [NUMBER, VALUE], with the value as
                octets (docs/send.md); None: those of `_properties()`, which announce the whole extension.
            segments: whether the client must also have segments for data in its receive buffers.
            agrees: further fields of the pattern of the client's properties.
        """
        client = self.client
        properties = client.properties["message"]
        none = {str(RTR_SUPPORT): {"any": [None, "", {"words": [0]}]}}
        without = {"message": {**properties, "header": {**properties["header"], "properties": none}}}
        plain = {"message": {**properties, "buffer": {"segments": None}}, "unmet": _NO_SEGMENTS}
        lacking = [{**without, "unmet": _NO_EXTENSION}, *([plain] if segments else [])]
        right = {"message": {**properties, **(agrees or {})}, "as": "client"}
        begin = (client.told(*(told or _properties()), xid=1), hear(*lacking, right))
        return client.whole(f"rtr.{name}", title, statements, *begin, *steps, needs="program")

    def until(self, request: Mapping[str, Any] | None = None, **until: Any) -> Step:
        """Returns a step that answers calls until one matches `until`; that call stays unanswered, and is named "call".

        `until` has patterns of message fields, such as "header" and "rpc". Each Transmit Request must match the pattern
        `request`; None: `request()`.
        """
        each = [*self.client.calls, request or self.request()]
        return {"serve": {"each": [{**one, "as": "call"} for one in each], "until": until}}

    @property
    def other(self) -> list[dict[str, Any]]:
        """Patterns of calls whose XID differs from that of the call named "call"."""
        named = {"xid": {"not": {"given": "call.xid"}}}
        return [
            {"message": {**each["message"], "header": {**each["message"]["header"], **named}}}
            for each in (*self.client.calls, self.request())
        ]

    @property
    def going_on(self) -> Step:
        """The step that expects any call, even with a used XID, or the end of the connection."""
        return hear(*self.client.calls, self.request(), {"end": {}})

    def directed(self, *, extra: int = 0) -> Step:
        """Returns a step that answers calls until a Transmit Request with a READ, which stays unanswered.

        The request permits the READ's data in segments of the client's receive buffers, if the data has a least length
        that the request states: at most 2048 octets. It announces at least `extra` further receives for the response.
        """
        ways: list[dict[str, Any]] = [
            {"type": {"any": [IN_SEGMENTS, CHOICE]}},
            {"type": BY_SIZE, "explicit_from": {"min": _SEGMENT_OCTETS}},
        ]
        results = [{"any": [{"least": {"max": _LEAST_MAX}, **way} for way in ways]}]
        header = {"type": REQUEST, "directions": [{"results": results}], "extra_receives": {"min": extra}}
        return self.until(header=header, rpc={"procedure": _READ})

    def response(self, *items: Mapping[str, Any], **message: Any) -> Step:
        """Returns a step that answers a READ by a Transmit Response, whose data is in a segment of a receive buffer.

        Each of `items` states the place of data, as `placed` returns it: "position" and "length" in octets, "type" (of
        `round_trip_codes`), and "offset" in the segments with the "numbers". Without `items` the response states no
        place. `message` replaces usual fields of the message; its "header" replaces fields of the header.
        """
        header: dict[str, Any] = {"type": RESPONSE, "xid": _XID, "count": 1, "items": list(items), "flags": 1}
        header |= message.pop("header", {})
        results = message.pop("results", {"words": [0, 0, _LENGTH, 0, _LENGTH]})
        bulk = {"bulk": {"at": {"given": "client.segment_at"}, "data": {"pattern": _LENGTH}}}
        rpc = {"xid": header["xid"], "accepted": 0, "results": results}
        return say(header=header, rpc=rpc, **{**bulk, **message})

    def placed(self, **item: Any) -> dict[str, Any]:
        """Returns the entry in a Transmit Response's header for READ data in segment 0 of the client's receive buffers.

        `item` replaces fields of the entry.
        """
        return {"position": _RESULT_AT, "length": _LENGTH, "type": IN_SEGMENTS, "offset": 0, "numbers": [0], **item}

    def continued(self, number: int = 1, **header: Any) -> Step:
        """Returns a step that sends a Transmit Continue, transmission `number` of a response, without payload.

        `header` replaces fields of its header.
        """
        given = {"type": CONTINUE, "xid": _XID, "number": number, "begun_by": RESPONSE, "flags": 1, **header}
        return say(header=given, body="")

    def reported(self, fault: int, number: int = 0, xid: Any = None) -> list[Step]:
        """Returns steps that expect a Report Error of the client about a transmission, and that the client continues.

        `fault` is the report's code, `number` that of the transmission in its response, from 0 on, and `xid` the XID, a
        number or reference of docs/send.md (None: that of the message named "call"). The client may also disconnect
        after the report. A Report Error with other fields counts as another reading of the draft, not as a failure.
        """
        xid = xid or {"given": "call.xid"}
        header = {"type": REPORT, "version": 2, "xid": xid, "flags": 0}
        header |= {"bad": {"xid": xid, "direction": 1, "number": number}, "fault": fault}
        reports = [
            {"message": {"header": header, "invalidates": None}},
            {"message": {"header": {"type": REPORT}}, "reading": "other-report"},
        ]
        each = [*reports, *self.client.calls, self.request()]
        until = {"header": {"type": REPORT}}
        return [{"serve": {"each": each, "until": until, "most": _CALLS_MAX}}, self.going_on]

    def requests(self) -> list[Check]:
        """Returns the checks of Transmit Requests, and of limits in the server's properties that they have to keep."""
        of_request = {"header": {"type": REQUEST}}
        in_pieces = {"header": {"type": REQUEST, "count": {"min": 2}}}
        next_piece = {"type": CONTINUE, "xid": _XID, "number": 1, "begun_by": REQUEST, "flags": 0}
        any_write, any_read = {"rpc": {"procedure": _WRITE}}, {"rpc": {"procedure": _READ}}
        one = self.request(count=1)
        plain = self.request(items={"all": {"type": EXPLICIT}})
        return [
            self.check("properties", "The Receive Buffer Size is the sum of the segments of the structure",
                       "RT-10 RT-29", self.until(), {"answer": {}}, agrees={"buffer": {"agrees": {"any": [None, 1]}}}),
            self.check("request", "A Transmit Request has right places, directions and counts", "RT-6 RT-12 RT-19",
                       self.until(**of_request), {"answer": {}}, hear(*self.client.calls, *self.other)),
            self.check("request.items", "The data of a WRITE come at the places that its request tells",
                       "RT-23 RT-24 RT-5 RT-15",
                       self.until(header={"type": REQUEST, "items": [{"type": IN_SEGMENTS}]}), {"answer": {}},
                       hear(*self.other)),
            self.check("request.in-pieces", "The transmissions of a request follow each other with their numbers",
                       "RT-2 RT-13 RT-1", self.until(**in_pieces), hear({"message": {"header": next_piece}})),
            self.check("request.limit", "A request has no more transmissions than the server takes", "RT-11",
                       self.until(one, **any_write), {"answer": {}}, hear(*self.other),
                       told=_properties(transmissions=1)),
            self.check("request.no-continuation", "A server without continuation gets requests of one transmission",
                       "RT-20 RT-11", self.until(one, **any_write), {"answer": {}}, hear(*self.other),
                       told=_properties(support=_NO_CONTINUATION)),
            self.check("request.no-segments", "A server without segments for data gets none in requests", "RT-28 RT-6",
                       self.until(plain, **any_write), {"answer": {}}, hear(*self.other),
                       told=_properties(segments=0)),
            self.check("request.not-taken", "A server that takes no requests gets none", "RT-20 RT-19",
                       {"serve": {"each": self.client.calls, "until": any_read}}, told=_properties(support=0)),
            self.check("request.refused", "After INVAL_HTYPE the call fails, or comes again without the extension",
                       "RT-20 V2-36", self.until(**of_request),
                       self.client.error(CODES["INVAL_HTYPE"]),
                       hear(*self.client.calls, *self.other, {"end": {}})),
            self.check("request.reported", "After a Report Error the call fails, or comes again without the extension",
                       "RT-4", self.until(**of_request),
                       say(header={"type": REPORT, "xid": _XID, "bad": {"xid": _XID, "direction": 0, "number": 0},
                                   "fault": PAYLOAD, "numbers": [1, 0, 0], "flags": 1}),
                       hear(*self.client.calls, *self.other, {"end": {}})),
        ]  # fmt: skip

    def responses(self) -> list[Check]:
        """Returns the checks of clients that get well-formed Transmit Responses to READs."""
        right = self.response(self.placed())

        def read(name: str, title: str, statements: str, *steps: Step, extra: int = 0) -> Check:
            return self.check(f"response.{name}", title, statements, self.directed(extra=extra), *steps,
                              hear(*self.other), segments=True)  # fmt: skip

        in_next = self.placed(numbers=[{"given": "client.segments"}])
        more = {"bulk": {"at": {"given": "client.segment_at"}, "data": {"pattern": _LENGTH}}}
        second = self.continued()
        return [
            read("in-segment", "A result in a segment of the client's buffer is taken", "RT-7 RT-24 RT-5", right),
            read("too-short", "A result below the least length is taken inline", "RT-8 RT-25",
                 self.response({"position": _RESULT_AT, "length": 8, "type": TOO_SHORT},
                               results={"words": [0, 0, 8, 0, 8, 1, 2]}, bulk={"at": 0, "data": ""})),
            read("no-item", "A result without data is taken", "RT-25 RT-7",
                 self.response({"type": NO_ITEM}, results={"words": [5, 0]}, bulk={"at": 0, "data": ""})),
            read("continued", "A result in the segments of a second buffer is taken", "RT-5 RT-13 RT-18",
                 self.response(in_next, header={"count": 2}, bulk={"at": 0, "data": ""}),
                 {"say": {**second["say"], **more}}, extra=1),
        ]  # fmt: skip

    def faults(self) -> list[Check]:
        """Returns the checks of wrong responses: a Report Error follows each that decodes and answers a call."""

        def wrong(name: str, title: str, statements: str, said: Sequence[Step], *then: Step, extra: int = 0) -> Check:
            steps = (self.directed(extra=extra), *said, *then)
            return self.check(f"response.{name}", title, statements, *steps, segments=True)

        def placed(name: str, title: str, item: Mapping[str, Any], fault: int) -> Check:
            said = [self.response(self.placed(**item))]
            return wrong(name, title, "RT-14 RT-5 RT-4", said, *self.reported(fault))

        def in_group(name: str, title: str, statements: str, second: Step, *reported: Step) -> Check:
            first = self.response(self.placed(), header={"count": 2})
            return wrong(name, title, statements, [first, second], *reported, extra=1)

        def undecodable(name: str, title: str, item: Mapping[str, Any]) -> Check:
            return wrong(name, title, "RT-32 RT-6", [self.response(item)], self.going_on)

        octets = {"given": "client.segment_octets"}
        within = say(header={"xid": _XID, "type": 0, "flags": 1}, rpc={"xid": _XID, "accepted": 0})
        return [
            placed("number-beyond", "The number of a segment beyond the buffers is reported", {"numbers": [9999]},
                   SEGMENT_NUMBER),
            placed("offset-beyond", "An offset beyond the segment is reported", {"offset": octets}, OFFSET),
            placed("length-beyond", "A result longer than its segments is reported",
                   {"length": {**octets, "plus": 4}}, PAYLOAD),
            wrong("payload-beyond", "A payload longer than the transmission is reported", "RT-12 RT-14",
                  [self.response(self.placed(), header={"payload_octets": 1 << 20})], *self.reported(PAYLOAD)),
            wrong("count-0", "A response of no transmissions is reported", "RT-14 RT-18",
                  [self.response(self.placed(), header={"count": 0})], *self.reported(SEQUENCE)),
            wrong("count-beyond", "A response of more transmissions than its request permits is reported",
                  "RT-18 RT-11 RT-14",
                  [self.response(self.placed(), header={"count": {"heard": "header.extra_receives", "plus": 2}})],
                  *self.reported(SEQUENCE)),
            wrong("continuation-of-nothing", "A continuation of nothing is reported", "RT-14 RT-33",
                  [self.continued()], *self.reported(UNEXPECTED, 1)),
            in_group("number-skipped", "A transmission number of a response that skips one is reported",
                     "RT-2 RT-14 RT-33", self.continued(2), *self.reported(SEQUENCE, 2)),
            in_group("xid-other", "A continuation of a response with another XID is reported", "RT-13 RT-14",
                     self.continued(xid=_OTHER), *self.reported(OTHER_XID, 1, {"given": "call.xid", "plus": 1000})),
            in_group("begun-by-request", "A continuation of a request in a response is reported", "RT-14 RT-2",
                     self.continued(begun_by=REQUEST), *self.reported(OTHER_TYPE, 1)),
            in_group("message-within", "A message of version 2 within a response is reported", "RT-2 RT-14", within,
                     *self.reported(HEADER_TYPE)),
            undecodable("item-choice", "A result with the place of type 3 ends the call without a report",
                        {"position": _RESULT_AT, "length": 4, "type": CHOICE}),
            undecodable("item-by-size", "A result with the place of type 4 ends the call without a report",
                        {"position": _RESULT_AT, "length": 4, "type": BY_SIZE}),
            wrong("other-xid", "A response to no call is discarded", "RT-19 V2-84",
                  [self.response(self.placed(), header={"xid": _OTHER}), self.response(self.placed())],
                  hear(*self.other)),
        ]  # fmt: skip

    def all(self) -> list[Check]:
        """Returns all checks of clients with the extension, those of requests first."""
        return [*self.requests(), *self.responses(), *self.faults()]


CLIENT_CHECKS: tuple[Check, ...] = tuple(_Checks().all())
"""The checks of the extension, in the order in which connections are used for them."""
