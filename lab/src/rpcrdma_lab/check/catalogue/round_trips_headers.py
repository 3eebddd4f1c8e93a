"""Mistakes in headers of the round-trip extension, with the outcome of each (draft-dnoveck-nfsv4-rpcrdma-rtrext-01).

Each mistake is a row of the type `Mistake` of `rpcrdma_lab.check.catalogue.headers`. Its outcome is "BAD_XDR" or a
list of patterns: a report, or the answers that the draft leaves open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rpcrdma_lab.check.answers import NULL_OCTETS, say
from rpcrdma_lab.check.catalogue.files import write_call
from rpcrdma_lab.check.catalogue.headers import Mistake
from rpcrdma_lab.check.catalogue.round_trip_codes import (
    BY_SIZE,
    CHOICE,
    CONTINUE,
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
    TOO_SHORT,
    UNEXPECTED,
)
from rpcrdma_lab.check.catalogue.version_2 import V2

__all__ = ["ANY_END", "answered", "continuation", "mistakes", "request", "write_request"]

ANY_END = 0xFFFFFFFF
"""The end of a range that includes all arguments."""
_XID = {"given": "xid"}
_NEXT = {**_XID, "plus": 1}
_LARGEST = 0xFFFFFFFF
_ROOM = 40
"""Octets of the payload of a request with a NULL call."""


def request(*, rpc: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Returns the fields of a Transmit Request of one transmission, with a NULL call or the given `rpc` or "body".

    "body", "bulk", "cut" and "append" of `fields` are fields of the message (docs/send.md), others of its header.
    """
    message: dict[str, Any]
    message = {name: fields.pop(name) for name in ("body", "bulk", "cut", "append") if name in fields}
    if "body" not in message:
        message["rpc"] = rpc or {}
    return {"header": {"type": REQUEST, "count": 1, **fields}, **message}


def continuation(number: Any, body: Any = "", **fields: Any) -> dict[str, Any]:
    """Returns the fields of a Transmit Continue, transmission `number` of a request, with the payload `body`.

    `number` is a number and `body` octets of docs/send.md. "bulk" of `fields` is a field of the message; the others are
    fields of its header.
    """
    message = {name: fields.pop(name) for name in ("bulk",) if name in fields}
    return {"header": {"type": CONTINUE, "number": number, "begun_by": REQUEST, **fields}, "body": body, **message}


def write_request(octets: int, *items: Mapping[str, Any], bulk: Any = None, **fields: Any) -> Any:
    """Returns the fields of a Transmit Request with a WRITE of `octets` octets, whose data are where `items` say.

    Each item has "type", and the "numbers" of receive buffer segments or memory "segments". `bulk` are octets
    (docs/send.md) for the first segment of the receive buffer; None: none. "body", "cut" and "append" of `fields` are
    fields of the message (docs/send.md), the others are fields of its header.
    """
    placed = [{"position": {"given": "write_position"}, "length": octets, **item} for item in items]
    at = {"at": {"given": "2.segment_at"}}
    more = {} if bulk is None else {"bulk": {**at, "data": bulk}}
    return request(rpc=write_call(octets), items=placed, **more, **fields)


def answered() -> list[dict[str, Any]]:
    """Returns patterns of a successful reply without results: one in an RDMA2_MSG, and one in a Transmit Response."""
    header = {"type": RESPONSE, "xid": _XID, "count": 1, "items": [], "flags": 1}
    rpc = {"xid": _XID, "direction": 1, "accepted": 0, "results": ""}
    return [V2.answered(), {"message": {"header": header, "rpc": rpc, "invalidates": None}}]


class _Rows:
    """Makes `Mistake` rows: wrong headers of the round-trip extension, with the answers that are expected."""

    def __init__(self) -> None:
        self._given = {name: {"given": f"2.{name}"} for name in ("segment_octets", "segments", "requests_max")}

    def _reported(
        self, fault: int, *numbers: Any, number: int = 0, plus: int = 0, leads: bool = False
    ) -> list[dict[str, Any]]:
        """Returns patterns of a Report Error about a faulty transmission of a request, and of other errors.

        Any other Report Error, and any RDMA2_ERROR, with this XID or that of the check's first call counts as another
        reading of the draft, not as a failure.

        Args:
            fault: the report's error code.
            numbers: the 32-bit words after the code.
            number: the number of the faulty transmission in its request, from 0 on (field "bad" of the report).
            plus: is added to the XID of the check's first call; the sum is the XID of the report and of the faulty
                transmission.
            leads: whether the field "lead" of the report may have transmission 0 of the first call; otherwise this
                field must be empty.
        """
        xid = {**_XID, "plus": plus}
        lead = {"any": [None, {"xid": _XID, "direction": 0, "number": 0}]} if leads else None
        header = {"type": REPORT, "version": 2, "xid": xid, "bad": {"xid": xid, "direction": 0, "number": number}}
        exact = {**header, "fault": fault, "numbers": list(numbers), "lead": lead, "flags": 1}
        xids = {"any": [_XID, xid]}
        return [
            {"message": {"header": exact, "invalidates": None}},
            {**self._of_type(REPORT, xids), "reading": "other-report"},
            {**self._of_type(4, xids), "reading": "error-in-place-of-report"},
        ]

    def _of_type(self, kind: int, xid: Any = _XID) -> dict[str, Any]:
        """Returns the pattern of any message of header type `kind`, Report Error or RDMA2_ERROR, with this XID."""
        header = {"type": kind, "version": 2, "xid": xid, "flags": 1}
        return {"message": {"header": header, "invalidates": None}}

    def _undecodable(self) -> Iterator[Mistake]:
        """Yields requests with headers that break the XDR, or with item types of responses (rtrext-01 section 6.2)."""
        kinds = {"choice": CHOICE, "by-size": BY_SIZE, "too-short": TOO_SHORT, "no-item": NO_ITEM, "9": 9}
        # For places of results in a request, which decode, the draft has no number of a fault.
        places_of_results = [self._of_type(4), self._of_type(REPORT)]
        for name, kind in kinds.items():
            outcome = places_of_results if kind in {TOO_SHORT, NO_ITEM} else "BAD_XDR"
            yield Mistake("items", name, f"An item of a request with the place of type {kind} is refused",
                          request(items=[{"position": 40, "length": 4, "type": kind}]), outcome, "RT-6 RT-32",
                          name=f"item.{name}")  # fmt: skip
        for name in ("too-short", "no-item", "9"):
            results = [{"least": 0, "type": kinds[name]}]
            yield Mistake("directions", name, f"A direction of type {kinds[name]} is refused",
                          request(directions=[{"begin": 0, "end": 40, "results": results}]), "BAD_XDR", "RT-6 RT-32",
                          name=f"direction.{name}")  # fmt: skip
        start = 20
        fields = ("items", "directions", "count", "extra_receives", "payload_octets")
        for index, field in enumerate(fields):
            octets = 4 * index
            title = f"A Transmit Request that ends after {octets} octets of it is refused"
            yield Mistake(field, "cut", title, request(cut=start + octets), "BAD_XDR", "RT-32", name=f"cut.{octets}")
        prefix = [_XID, 2, 0x40_0004, REQUEST, 0]
        one = {"position": 40, "length": 4}
        segments = [{"handle": 0x5EED, "length": 64}]
        none: dict[str, Any] = {"begin": 0, "end": 40, "results": []}
        counts: dict[str, tuple[str, dict[str, Any]]] = {
            "items.count-largest": ("items", {"header": None, "body": {"words": [*prefix, _LARGEST, 0, 0, 0, 0]}}),
            "items.numbers-count-largest": (
                "numbers of segments",
                request(items=[{**one, "type": IN_SEGMENTS, "numbers": [0], "count": _LARGEST}]),
            ),
            "items.segments-count-largest": (
                "segments of an item",
                request(items=[{**one, "type": EXPLICIT, "segments": segments, "count": _LARGEST}]),
            ),
            "directions.count-largest": (
                "sets of directions",
                {"header": None, "body": {"words": [*prefix, 0, _LARGEST, 0, 0, 0]}},
            ),
            "directions.results-count-largest": (
                "directions",
                request(directions=[{**none, "count": _LARGEST}]),
            ),
        }
        for name, (words, message) in counts.items():
            field, which = name.split(".")
            title = f"A count of 4,294,967,295 {words} is refused"
            yield Mistake(field, which, title, message, "BAD_XDR", "RT-32")

    def _numbers(self) -> Iterator[Mistake]:
        """Yields requests with numbers that contradict each other or the server's limits, and the answers expected."""
        limit, reported = self._given["requests_max"], self._reported
        more = {**limit, "plus": 1}
        yield Mistake("count", "0", "A request of no transmissions is reported", request(count=0),
                      reported(SEQUENCE, limit, 0), "RT-14 RT-11")  # fmt: skip
        yield Mistake("count", "beyond", "A request of more transmissions than the server takes is reported",
                      request(count=more), reported(SEQUENCE, limit, more), "RT-11 RT-14")  # fmt: skip
        yield Mistake("payload_octets", "beyond", "A payload longer than the transmission is reported",
                      request(payload_octets=_ROOM + 1), reported(PAYLOAD, _ROOM + 1, 0, _ROOM), "RT-12 RT-14",
                      name="payload.beyond")  # fmt: skip
        yield Mistake("payload_octets", "late", "A payload that begins in the second transmission is reported",
                      continuation(1, NULL_OCTETS), reported(PAYLOAD, _ROOM, 0, 0, number=1, leads=True),
                      "RT-30 RT-31", "continuation", before=(say(**request(body="", count=2)),),
                      name="payload.late")  # fmt: skip
        yield Mistake("extra_receives", "largest", "A request with all receives for its answer is answered",
                      request(extra_receives=_LARGEST), answered(), "RT-18")  # fmt: skip
        ranges = [{"begin": 0, "end": 40, "results": []}, {"begin": 20, "end": 40, "results": []}]
        yield Mistake("directions", "overlap", "Ranges of directions that overlap are reported",
                      request(directions=ranges), reported(OFFSET, 20, 40, ANY_END), "RT-9 RT-14",
                      name="ranges.overlap")  # fmt: skip

    def _groups(self) -> Iterator[Mistake]:
        """Yields a Transmit Continue without a request, and wrong second messages of requests of two messages.

        Each `Mistake` has the answers expected.
        """
        yield Mistake("number", "nothing", "A continuation of nothing is reported", continuation(1),
                      self._reported(UNEXPECTED, number=1), "RT-14 RT-33", name="continue.nothing")  # fmt: skip
        rows: dict[str, tuple[str, str, dict[str, Any], tuple[Any, ...], int, int]] = {
            "number.skipped": ("A transmission number that skips one", "RT-2 RT-14 RT-33",
                               continuation(2, "00000000"), (SEQUENCE, 1, 2), 2, 0),
            "number.repeated": ("A transmission number that has been used", "RT-2 RT-14",
                                continuation(0, "00000000"), (SEQUENCE, 1, 0), 0, 0),
            "xid.other": ("A continuation with another XID", "RT-13 RT-14",
                          continuation(1, "00000000", xid=_NEXT), (OTHER_XID, _XID, _NEXT), 1, 1),
            "begun_by.response": ("A continuation of a response in a request", "RT-14 RT-2",
                                  continuation(1, "00000000", begun_by=RESPONSE),
                                  (OTHER_TYPE, REQUEST, RESPONSE), 1, 0),
            "type.request": ("A second request within a request", "RT-2 RT-14", request(xid=_NEXT),
                             (OTHER_TYPE, CONTINUE, REQUEST), 0, 1),
            "type.message": ("A message of version 2 within a request", "RT-2 RT-14",
                             {"header": {"xid": _NEXT}, "rpc": {}}, (HEADER_TYPE, CONTINUE, 0), 0, 1),
        }  # fmt: skip
        ids = {"type.request": "request.within", "type.message": "message.within"}
        for name, (title, statements, message, fault, number, plus) in rows.items():
            field, kind = name.split(".")
            outcome = self._reported(*fault, number=number, plus=plus, leads=True)
            first = say(**request(body={"words": [_XID, 0]}, count=2))
            yield Mistake(field, kind, f"{title} is reported", message, outcome, statements, "continuation",
                          before=(first,), name=ids.get(name, ""))  # fmt: skip

    def _places(self) -> Iterator[Mistake]:
        """Yields WRITEs whose items name wrong segments, offsets, lengths or Positions, and the answers expected."""
        octets, segments = self._given["segment_octets"], self._given["segments"]
        data, position = {"pattern": 100}, {"given": "write_position"}
        rows: dict[str, tuple[str, dict[str, Any], tuple[Any, ...]]] = {
            "number-beyond": ("The number of a segment beyond the buffers", {"numbers": [segments]},
                              (SEGMENT_NUMBER, segments, 0, {**segments, "plus": -1})),
            "offset-beyond": ("An offset beyond the segment", {"offset": octets},
                              (OFFSET, octets, 0, {**octets, "plus": -1})),
            "length-beyond": ("An item longer than its segments", {"length": {**octets, "plus": 4}},
                              (PAYLOAD, {**octets, "plus": 4}, 0, octets)),
            "position-unaligned": ("An item at a Position that is no multiple of four",
                                   {"position": {**position, "plus": 2}},
                                   (OFFSET, {**position, "plus": 2}, 0, position)),
        }  # fmt: skip
        needs = "nfs write segments"
        for kind, (title, item, fault) in rows.items():
            message = write_request(100, {"type": IN_SEGMENTS, "numbers": [0], **item}, bulk=data)
            yield Mistake("items", kind, f"{title} is reported", message, self._reported(*fault), "RT-14 RT-5", needs,
                          name=f"place.{kind}")  # fmt: skip
        # The draft lets a report be missing for them, and has no number for the fault.
        refused = [self._of_type(REPORT), self._of_type(4)]
        done = {**V2.done(), "reading": "unused-chunk-ignored"}
        usual = {"type": IN_SEGMENTS, "numbers": [0]}
        wrong: dict[str, tuple[str, list[dict[str, Any]], list[dict[str, Any]]]] = {
            "number-twice": ("A segment that an item names twice is refused, or not needed",
                             [{**usual, "numbers": [0, 0]}], [*refused, V2.done()]),
            "position-twice": ("Two items at one Position are refused", [usual, usual], [*refused, done]),
            "position-descending": ("Items whose Positions descend are refused",
                                    [usual, {**usual, "position": {**position, "plus": -4}, "length": 4}],
                                    [*refused, done]),
        }  # fmt: skip
        for kind, (title, items, outcome) in wrong.items():
            message = write_request(100, *items, bulk=data)
            yield Mistake("items", kind, title, message, outcome, "RT-14 RT-23", needs, name=f"place.{kind}")

    def _reports(self) -> Iterator[Mistake]:
        """Yields messages of the type Report Error that do not decode, which a server has to discard or refuse."""
        going_on = V2.afterwards(2)
        (answer,) = going_on[1]["hear"]
        outcome = [{**answer, "last": True}, V2.error("BAD_XDR")]
        bad = {"xid": _XID, "direction": 1, "number": 0}
        right = {"type": REPORT, "bad": bad, "fault": UNEXPECTED}
        rows: dict[str, tuple[str, dict[str, Any]]] = {
            "bad.direction-7": ("A report that does not decode", {"bad": {**bad, "direction": 7}, "fault": 99}),
            "fault.99": ("A report of an unknown fault", {"fault": 99}),
            "lead.present-2": ("A report with a word of 2 before its second transmission", {"lead_end": 2}),
            "numbers.missing": ("A report without the numbers of its fault", {"fault": SEQUENCE}),
        }
        for name, (title, fields) in rows.items():
            field, kind = name.split(".")
            yield Mistake(field, kind, f"{title} is discarded or refused", {"header": {**right, **fields}}, outcome,
                          "RT-4", behind=(going_on[0],), then=(going_on[1],),
                          name="report.undecodable" if field == "bad" else f"report.{name}")  # fmt: skip

    def all(self) -> Iterator[Mistake]:
        """Yields all wrong headers of the extension that the checks send, each with the answers expected."""
        yield from self._numbers()
        yield from self._groups()
        yield from self._undecodable()
        yield from self._places()
        yield from self._reports()


def mistakes() -> tuple[Mistake, ...]:
    """Returns the faulty headers of the round-trip extension that the checks send, with a server's expected answers."""
    return tuple(_Rows().all())
