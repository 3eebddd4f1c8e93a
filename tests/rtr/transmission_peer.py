"""A bare peer that has told of the round-trip extension, and sends transmissions laid out by hand.

Nothing here uses the encoders of `rpcrdma.rtr`, so that a mistake there does not hide itself.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rtr import Preference, RoundTrip, RoundTripConfig
from rpcrdma.rtr.receive_slabs import SlabReceives
from rpcrdma.testing.endpoint_pair import BarePeer, calls_in, message
from rpcrdma.transport import Call, CallFailed, IncomingCall, Ready, ReplyArrived, Role, TransportConfig, offered
from support import raw_messages as raw
from support.octets import words

XMTREQ, XMTRESP, XMTCONT, REPTERR = 0x101, 0x102, 0x103, 0x104
EXRW, TBSN, CHOICE, BYSIZE, TOOSHORT, NOITEM = range(1, 7)
BADHMT, BADOMT, BADCONT, BADSEQ, BADXID, BADOFF, BADTBSN, BADPL = range(1, 9)

XID = 0x0BADCAFE
OCTETS = 16384
"""Of a receive buffer of either side: one segment for the header, and three pages."""
PAGE, HEAD, PAGES = 4096, 4096, 3


def in_segments(position: int, length: int, *numbers: int, offset: int = 0) -> bytes:
    """xmddp_mitem with XMDTYPE_TBSN."""
    return words(position, length, TBSN, offset, len(numbers), *numbers)


def by_rdma(position: int, length: int, *segments: raw.Segment) -> bytes:
    """xmddp_mitem with XMDTYPE_EXRW."""
    return words(position, length, EXRW, len(segments)) + b"".join(struct.pack(">IIQ", *each) for each in segments)


def array(*entries: bytes) -> bytes:
    return words(len(entries)) + b"".join(entries)


class Report(NamedTuple):
    """A REPTERR: transmissions as XID, direction and number; `values` are those of its code."""

    bad: tuple[int, int, int]
    lead: tuple[int, int, int] | None
    code: int
    values: tuple[int, ...]


class HeardTransmission:
    """A message of version 2, taken apart as far as its type says how."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.xid, self.kind = struct.unpack_from(">I8xI", octets)
        self.response = bool(octets[19] & 1)
        self.body = octets[20:]

    @property
    def report(self) -> Report:
        assert self.kind == REPTERR, f"{self.kind:#x}"
        xid, direction, number, there, *rest = struct.unpack(f">{len(self.body) // 4}I", self.body)
        lead = None
        if there:
            lead, rest = (rest[0], rest[1], rest[2]), rest[3:]
        assert self.response == (direction == 0), "RESPONSE is set for what is about a request"
        assert self.xid == xid, "the header has the XID of the transmission"
        return Report((xid, direction, number), lead, rest[0], tuple(rest[1:]))


class Item(NamedTuple):
    """xmddp_mitem; `where` are segment numbers, or memory as (handle, length, offset)."""

    position: int
    length: int
    kind: int
    where: list[int] | list[raw.Segment]


class Direction(NamedTuple):
    """xmddp_rsditem."""

    least: int
    kind: int
    threshold: int
    segments: list[raw.Segment]


class Sent:
    """The first transmission of a group, taken apart; `begin` and `end` are of its one set of directions."""

    def __init__(self, heard: HeardTransmission) -> None:
        self._body = heard.body
        self._at = 0
        self.items = [self._item() for _ in range(self._word())]
        self.directions: list[Direction] = []
        self.begin = self.end = self.extra = 0
        if heard.kind == XMTREQ and self._word():
            self.begin, self.end = self._word(), self._word()
            self.directions = [self._direction() for _ in range(self._word())]
        self.count = self._word()
        if heard.kind == XMTREQ:
            self.extra = self._word()
        length = self._word()
        self.payload = heard.body[self._at : self._at + length]
        self.header_octets = self._at

    def _word(self) -> int:
        (word,) = struct.unpack_from(">I", self._body, self._at)
        self._at += 4
        return int(word)

    def _segments(self) -> list[raw.Segment]:
        found = []
        for _ in range(self._word()):
            found.append(struct.unpack_from(">IIQ", self._body, self._at))
            self._at += 16
        return found

    def _item(self) -> Item:
        position, length, kind = self._word(), self._word(), self._word()
        if kind == TBSN:
            assert self._word() == 0, "an offset"
            return Item(position, length, kind, [self._word() for _ in range(self._word())])
        return Item(position, length, kind, self._segments() if kind == EXRW else [])

    def _direction(self) -> Direction:
        least, kind = self._word(), self._word()
        threshold = self._word() if kind == BYSIZE else 0
        return Direction(least, kind, threshold, [] if kind == TBSN else self._segments())


class TransmissionPeer(BarePeer):
    """One endpoint with the extension, and a peer that tells these properties of itself.

    `properties` are words to be told besides, or instead, by their numbers; None for one to be left out.
    """

    def __init__(
        self,
        role: Role,
        config: TransportConfig | None = None,
        *,
        give: int = 64,
        preference: Preference = Preference.SEGMENTS,
        support: int = 7,
        limits: tuple[int, int] = (8, 8),
        structure: bytes | None = None,
        properties: Mapping[int, int | None] = {},
        settings: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.give = give
        config = config or TransportConfig(offered_receive_octets=OCTETS, offered_send_octets=OCTETS)
        rules = RoundTripConfig(preference=preference, **(settings or {}))
        self.extension = RoundTrip(rules, receive_octets=config.offered_receive_octets)
        super().__init__(
            role,
            config,
            dialects=offered("2"),
            ready=False,
            receive_octets=3 * OCTETS,
            extensions=[self.extension.extension],
            **options,
        )
        if structure is None:
            structure = words(OCTETS, 2, 1, HEAD, 0, 0, PAGES, PAGE, PAGE, 1)
        told = {raw.SEND_SIZE: words(OCTETS), raw.RECEIVE_SIZE: words(OCTETS)}
        told |= {0x101: words(support), 0x102: structure, 0x103: words(limits[0]), 0x104: words(limits[1])}
        told |= {number: b"" if value is None else words(value) for number, value in properties.items()}
        pairs = [(number, value) for number, value in told.items() if properties.get(number, 0) is not None]
        self.put(1, 5, raw.property_set(*pairs))
        self.ready = [type(event) for event in self.endpoint_events()] == [Ready]
        self.introduced = self.heard()

    def header(self, xid: int, kind: int, *, response: bool = False) -> bytes:
        return raw.prefix(xid, kind, int(response), give=self.give)

    def put(self, xid: int, kind: int, body: bytes = b"", *, response: bool = False) -> None:
        """Sends one message."""
        self.send(self.header(xid, kind, response=response) + body)

    def padded(self, xid: int, kind: int, body: bytes, data: bytes, *, start: int = HEAD, response: bool) -> None:
        """Sends one message whose `data` stand `start` octets after the start of its header."""
        header = self.header(xid, kind, response=response)
        body = header + body
        assert not data or len(body) <= start
        self.send(body + bytes(start - len(body) if data else 0) + data)

    def request(
        self,
        payload: bytes,
        *items: bytes,
        xid: int = XID,
        directions: bytes = bytes(4),
        count: int = 1,
        extra: int = 0,
        length: int | None = None,
        data: bytes = b"",
        start: int = HEAD,
    ) -> None:
        """A Transmit Request."""
        length = len(payload) if length is None else length
        body = array(*items) + directions + words(count, extra, length) + payload
        self.padded(xid, XMTREQ, body, data, start=start, response=False)

    def response(
        self,
        payload: bytes,
        *items: bytes,
        xid: int = XID,
        count: int = 1,
        length: int | None = None,
        data: bytes = b"",
        start: int = HEAD,
    ) -> None:
        """A Transmit Response."""
        length = len(payload) if length is None else length
        body = array(*items) + words(count, length) + payload
        self.padded(xid, XMTRESP, body, data, start=start, response=True)

    def go_on(
        self,
        number: int,
        payload: bytes = b"",
        *,
        xid: int = XID,
        begun_by: int = XMTREQ,
        length: int | None = None,
        data: bytes = b"",
        start: int = HEAD,
    ) -> None:
        """A Transmit Continue."""
        body = words(number, begun_by, len(payload) if length is None else length) + payload
        self.padded(xid, XMTCONT, body, data, start=start, response=begun_by == XMTRESP)

    def grant(self) -> None:
        """A message that only grants credits."""
        self.put(0, 1, bytes(16))

    def plain_call(self, xid: int = XID) -> None:
        lists = bytes(16)
        self.put(xid, 0, lists + words(xid, 0))

    def plain_reply(self, xid: int) -> None:
        lists = bytes(16)
        self.put(xid, 0, lists + words(xid, 1), response=True)

    def heard(self) -> list[HeardTransmission]:
        """The messages that the endpoint has sent since the last call of this, except grants."""
        self.run()
        found = [HeardTransmission(octets) for octets in self.received]
        self.received.clear()
        self.invalidated.clear()
        return [each for each in found if each.xid]

    def reported(self) -> Report:
        """The one message that the endpoint has sent, a REPTERR; no call was reported, and nothing is held."""
        (heard,) = self.heard()
        report = heard.report
        self.assert_nothing_held()
        return report

    def assert_nothing_held(self) -> None:
        assert not self.endpoint_pd.regions
        receives = self.endpoint._receives.pool
        assert isinstance(receives, SlabReceives)
        if self.endpoint._receives.arrived is None:
            assert not receives._ahead, f"{receives._ahead} receive buffers are kept"

    @property
    def slabs_in_use(self) -> list[bool]:
        """Of the slabs of the connection and of the store, whether anything refers to their memory."""
        (store,) = self.extension._stores.values()
        receives = self.endpoint._receives.pool
        assert isinstance(receives, SlabReceives)
        return [slab.in_use for slab in (receives._slab, *store._started, *store._retired) if slab is not None]

    def arrived(self) -> IncomingCall:
        (incoming,) = calls_in(self.endpoint_events())
        return incoming

    def assert_serves(self, *, xid: int = 0x600D) -> None:
        """A proper call in two transmissions, with an item, is still run and answered."""
        data = bytes(range(256)) * 64
        self.request(
            words(xid, 0, len(data)), in_segments(12, len(data), 0, 1, 2, 3), xid=xid, count=2, data=data[: 3 * PAGE]
        )
        self.go_on(1, xid=xid, data=data[3 * PAGE :])
        incoming = self.arrived()
        incoming.decoder.octets(8, "start")
        assert incoming.decoder.bulk(1 << 20, "item") == data
        self.endpoint.reply(incoming, message(xid, 1))
        assert [heard.xid for heard in self.heard()] == [xid]
        self.assert_nothing_held()

    def call(self, xid: int, argument: bytes | None = None, result: int | None = None) -> Call:
        """A call of the endpoint."""
        items = () if result is None else (result,)
        return self.endpoint.call(xid, message(xid, 0, (b"argument", argument)), ReplyBound(8 + 4 * len(items), items))

    def ended(self) -> list[tuple[int, bytes | Exception]]:
        """The calls of the endpoint that have ended: each with the bytes of its reply or its error."""
        found: list[tuple[int, bytes | Exception]] = []
        for event in self.endpoint_events():
            if isinstance(event, CallFailed):
                found.append((event.call.xid, event.error))
            else:
                assert isinstance(event, ReplyArrived), event
                found.append((event.call.xid, bytes(event.decoder.octets(8, "reply"))))
        return found
