"""One end of a connection that is handed transmissions, and writes down each step of the extension."""

from __future__ import annotations

from typing import Any

from rpcrdma.rtr import RoundTrip, RoundTripConfig
from rpcrdma.rtr.messages import (
    REPTERR,
    XMTCONT,
    XMTREQ,
    XMTRESP,
    Report,
    ReportCode,
    TransmissionId,
    TransmitContinue,
    TransmitRequest,
    TransmitResponse,
    decode_report,
    encode_transmit_continue,
    encode_transmit_request,
    encode_transmit_response,
)
from rpcrdma.rtr.properties import Support
from rpcrdma.rtr.requests import RequestCarrier, Results, SentCall
from rpcrdma.transport import Cause, ChunkLists, ExtensionMessage, IncomingItems, Refusal, Role
from rtr_link import PREFIX, Link, pattern, tried

__all__ = [
    "CALLED",
    "EACH",
    "HEAD",
    "NO_ITEMS",
    "ONE",
    "OTHER",
    "REPLIED",
    "SEGMENT",
    "SLOT",
    "THIRD",
    "Carried",
    "End",
    "Steps",
    "begin",
    "client",
    "opened",
    "reported",
    "silent_about",
]

HEAD, SEGMENT, EACH = 1024, 16, 4
SLOT = SEGMENT * EACH
ONE, OTHER, THIRD = 1, 2, 3
Steps = list[tuple[Any, ...]]


class Carried(SentCall):
    """A call of this end whose reply may have so many transmissions beyond the first one."""

    __slots__ = ("_extra_receives",)

    def __init__(self, extra_receives: int) -> None:
        self._extra_receives = extra_receives

    @property
    def responses_max(self) -> int:
        return 1 + self._extra_receives


class End(Link):
    """One end: the link of its connection writes down each step of the extension."""

    def __init__(
        self,
        *,
        role: Role = Role.SERVER,
        config: RoundTripConfig | None = None,
        told: dict[int, Any] | None = None,
        takes_calls: bool = True,
        room: int = 1 << 30,
    ) -> None:
        super().__init__()
        self.rtr = RoundTrip(config or RoundTripConfig(segment_octets=SEGMENT), receive_octets=HEAD + SLOT)
        self.extension = self.rtr.extension
        self.role, self.takes_calls, self.room = role, takes_calls, room
        self.peer: dict[int, Any] = {0x101: Support(7), 0x102: self.rtr.structure, 0x103: 8, 0x104: 8}
        self.peer |= told or {}
        self.receives: Any = None if self.extension.receives is None else self.extension.receives(HEAD + SLOT)
        self.state: Any = None
        self.between: Any = None
        self.calls: dict[int, Carried] = {}
        self.awaited: set[int] = {ONE, OTHER, THIRD}
        self.steps: Steps = []
        self.carrier: RequestCarrier | None = None
        self.extension.on_ready(self)  # type: ignore[arg-type]

    def carry(self, calls: RequestCarrier) -> None:
        self.carrier = calls

    def refuse_call(self, xid: int, cause: Cause, limit: int = 0) -> None:
        self.steps.append(("refuse", xid, cause, limit))

    def fail_call(self, xid: int, error: Exception) -> bool:
        self.steps.append(("fail", xid, type(error)))
        return xid in self.awaited

    def stop_learning(self) -> None:
        self.steps.append(("promised",))

    def carried_call(self, xid: int) -> Carried | None:
        return self.calls.get(xid)

    def expect_group(self, between: Any) -> None:
        self.between = between
        self.steps.append(("expect", between is not None))

    def hold(self, octets: int) -> bool:
        self.steps.append(("hold", octets))
        self.room -= octets
        return self.room >= 0

    def deliver_call(self, xid: int, stream: bytes, chunks: ChunkLists, items: IncomingItems) -> None:
        self.steps.append(("call", xid, stream, chunks, items))

    def deliver_reply(self, xid: int, stream: bytes, results: Results) -> bool:
        self.steps.append(("reply", xid, stream, results))
        return xid in self.awaited

    def report(self, header_type: int, body: list[bytes], *, xid: int, answer: bool) -> None:
        assert header_type == REPTERR
        self.steps.append(("report", xid, answer, decode_report(b"".join(body), 0)))

    def on_refused(self, xid: int, refusal: Refusal) -> bool:
        self.steps.append(("refused", xid, refusal))
        return True

    def take(self) -> Steps:
        """The steps since the last time."""
        taken, self.steps = self.steps, []
        return taken

    def put(self, header_type: int, xid: int, body: bytes, data: bytes = b"", *, answers: bool | None = None) -> Any:
        """Hands over a message, with `data` in placeable segments, and gives the error that is raised, if any."""
        arrived = None
        view = memoryview(body)
        if data or HEAD < PREFIX + len(body) <= HEAD + SLOT:
            buffer = self.receives.draw()
            whole = (bytes(PREFIX) + body).ljust(HEAD if data else 0, b"\0") + data
            buffer.write(0, whole)
            arrived = buffer, len(whole)
            view = buffer.head[PREFIX:]
        answers = header_type == XMTRESP if answers is None else answers
        (row,) = [row for row in self.extension.headers if row.code == header_type]
        return tried(row.handler, self, ExtensionMessage(header_type, xid, 0, answers, view, arrived))

    def request(self, xid: int = ONE, payload: bytes = b"call", *, data: bytes = b"", **fields: Any) -> Any:
        values = {"items": (), "directions": (), "count": 1, "extra_receives": 0, "payload_octets": len(payload)}
        return self.put(XMTREQ, xid, encode_transmit_request(TransmitRequest(**values | fields)) + payload, data)

    def response(self, xid: int = ONE, payload: bytes = b"repl", *, data: bytes = b"", **fields: Any) -> Any:
        values = {"items": (), "count": 1, "payload_octets": len(payload)}
        return self.put(XMTRESP, xid, encode_transmit_response(TransmitResponse(**values | fields)) + payload, data)

    def go_on(
        self,
        number: int,
        xid: int = ONE,
        lead: int = XMTREQ,
        payload: bytes = b"",
        *,
        data: bytes = b"",
        **options: Any,
    ) -> Any:
        body = encode_transmit_continue(TransmitContinue(number, lead, len(payload))) + payload
        return self.put(XMTCONT, xid, body, data, answers=options.get("answers", lead == XMTRESP))

    def assert_nothing_held(self) -> None:
        assert self.between is None
        assert self.receives._ahead == 0
        store = self.receives._store
        assert not any(slab.in_use for slab in (*store._started, *store._retired))


def client(**options: Any) -> End:
    end = End(role=Role.CLIENT, **options)
    end.take()
    return end


def reported(
    xid: int, way: int, number: int, lead: tuple[int, int, int] | None, code: ReportCode, *words: int
) -> tuple[Any, ...]:
    there = None if lead is None else TransmissionId(*lead)
    return "report", xid, way == 0, Report(TransmissionId(xid, way, number), there, code, words)


NO_ITEMS = IncomingItems({}, 0, None)
CALLED = ("call", ONE, b"call", ChunkLists((), (), None), NO_ITEMS)
REPLIED = ("reply", ONE, b"repl", Results((), {}, 0))


def begin(end: End, lead: int, xid: int = ONE, **fields: Any) -> Any:
    return end.request(xid, **fields) if lead == XMTREQ else end.response(xid, **fields)


def opened(lead: int, *, count: int = 3, **options: Any) -> End:
    """An end with a group that is open."""
    end = End(**options)
    assert begin(end, lead, count=count, data=pattern(SLOT)) is None
    end.take()
    return end


def silent_about(end: End, *xids: int) -> None:
    """Of these more may come; of another one nothing was dropped."""
    for xid in xids:
        for data in (b"", b"data"):
            assert end.go_on(1, xid, data=data) is None
            assert end.take() == []
    end.assert_nothing_held()
    end.go_on(1, 9, data=b"data")
    assert end.take() == [reported(9, 0, 1, None, ReportCode.CONTINUATION)]
    # That one is dropped in turn, alone.
    end.go_on(2, 9, data=b"data")
    assert end.take() == []
    end.go_on(2, xids[0], data=b"data")
    assert end.take() == [reported(xids[0], 0, 2, None, ReportCode.CONTINUATION)]
    end.assert_nothing_held()
