"""The bodies of the extension's messages in octets: what follows the five words that every header of version 2 has.

They are checked against the XDR and against which kind of location may stand where (section 6.2). What takes more than
the message itself is not looked at: segment numbers and offsets need the structure of the receive buffers, sequence
needs the transmissions before, and faults of that kind are answered by a Report Error, not as an unreadable header.

The usual shapes are taken in one or two steps: nothing placed, one item in segments, one direction with at most one
segment of memory. All others go word by word.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple, TypeAlias

from rpcrdma.errors import DecodeError
from rpcrdma.limits import CHUNK_SEGMENTS_MAX, RTR_ITEMS_MAX, RTR_SEGMENT_NUMBERS_MAX
from rpcrdma.transport import Segment
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.cursor import Reader

__all__ = [
    "DirectionSet",
    "Explicit",
    "InSegments",
    "Item",
    "Location",
    "NotPlaced",
    "Report",
    "ReportCode",
    "ResultDirection",
    "TransmissionId",
    "TransmitContinue",
    "TransmitRequest",
    "TransmitResponse",
    "Way",
    "decode_report",
    "decode_transmit_continue",
    "decode_transmit_request",
    "decode_transmit_response",
    "encode_report",
    "encode_transmit_continue",
    "encode_transmit_request",
    "encode_transmit_response",
]


class Explicit(NamedTuple):
    """XMDTYPE_EXRW: the data is read or written by RDMA, in memory of the requester."""

    segments: tuple[Segment, ...]


class InSegments(NamedTuple):
    """XMDTYPE_TBSN: the data came with the Sends, in the placeable segments `numbers` of their receive buffers.

    It starts `offset` octets into the first of them. Numbers count all placeable segments of the group's buffers.
    """

    offset: int
    numbers: tuple[int, ...]


class NotPlaced(enum.Enum):
    """XMDTYPE_TOOSHORT and XMDTYPE_NOITEM: a direction of the request that came to nothing."""

    TOO_SHORT = 5
    """The item is shorter than the direction demands, and is inline."""
    NO_ITEM = 6
    """The response has no item for the direction."""


Location: TypeAlias = Explicit | InSegments | NotPlaced
"""xmddp_loc: where the data of an item is."""


class Item(NamedTuple):
    """xmddp_mitem: `length` octets, without XDR padding, left out at `position` of the stream as it is without that."""

    position: int
    length: int
    where: Location


class Way(enum.IntEnum):
    """xmddp_type of a direction: how the responder is to place an item of the response."""

    EXPLICIT = 1
    """By RDMA Write."""
    SEGMENTS = 2
    """In segments of the requester's receive buffers."""
    CHOICE = 3
    """Either, as the responder likes."""
    BY_SIZE = 4
    """By RDMA Write what is long, in segments what is short."""


class ResultDirection(NamedTuple):
    """xmddp_rsditem: how one item of the response is to be placed; one shorter than `least` goes inline.

    `segments` is the memory for RDMA Writes, where `way` allows any; `explicit_from` the length from which on they are
    to be used, where `way` is `BY_SIZE`.
    """

    least: int
    way: Way
    segments: tuple[Segment, ...] = ()
    explicit_from: int = 0


class DirectionSet(NamedTuple):
    """xmddp_rsdset: directions for the response to what is at positions `begin` to `end` of the request."""

    begin: int
    end: int
    results: tuple[ResultDirection, ...]


class TransmitRequest(NamedTuple):
    """optxmt_req: `count` transmissions make up the request, the first of which this is.

    The response may have `extra_receives` transmissions beyond the first. `payload_octets` is the length of this
    transmission's payload.
    """

    items: tuple[Item, ...]
    directions: tuple[DirectionSet, ...]
    count: int  # type: ignore[assignment]  # hides tuple.count
    extra_receives: int
    payload_octets: int


class TransmitResponse(NamedTuple):
    """optxmt_resp: `count` transmissions make up the response, the first of which this is."""

    items: tuple[Item, ...]
    count: int  # type: ignore[assignment]  # hides tuple.count
    payload_octets: int


class TransmitContinue(NamedTuple):
    """optxmt_cont: transmission `number` of a group, counted from 0, whose first one had the header type `begun_by`."""

    number: int
    begun_by: int
    payload_octets: int


class TransmissionId(NamedTuple):
    """xms_id: `direction` is 0 for the transmissions of a request, 1 for those of a response."""

    xid: int
    direction: int
    number: int


class ReportCode(enum.IntEnum):
    """optr_err: what is wrong with a transmission."""

    HEADER_TYPE = 1
    """One of the protocol's own within a group."""
    OPTIONAL_TYPE = 2
    """One of the extension's that does not continue the group."""
    CONTINUATION = 3
    """No group was there to be continued."""
    SEQUENCE = 4
    XID = 5
    OFFSET = 6
    SEGMENT_NUMBER = 7
    PAYLOAD = 8
    """A length that does not fit into the transmission."""


class Report(NamedTuple):
    """optrept_err: what is wrong with the transmission `bad`, `lead` being one before it that has led to it.

    `words` are, by the code: what was expected and what came; a value with its minimum and maximum; or none.
    """

    bad: TransmissionId
    lead: TransmissionId | None
    code: ReportCode
    words: tuple[int, ...]


_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""

_EXPLICIT = int(Way.EXPLICIT)
_SEGMENTS = int(Way.SEGMENTS)
_BY_SIZE = int(Way.BY_SIZE)
_WAYS = {int(way): way for way in Way}
_NOT_PLACED = {result.value: result for result in NotPlaced}
_REPORT_CODES = {int(code): code for code in ReportCode}
_REPORT_WORDS = dict.fromkeys(ReportCode, 2) | {
    ReportCode.CONTINUATION: 0,
    ReportCode.OFFSET: 3,
    ReportCode.SEGMENT_NUMBER: 3,
    ReportCode.PAYLOAD: 3,
}

_WORD = struct.Struct(">I")
_SEGMENT = struct.Struct(">IIQ")
_ITEM = struct.Struct(">III")
_IN_SEGMENTS = struct.Struct(">II")
_SET = struct.Struct(">III")
_DIRECTION = struct.Struct(">II")
_ID = struct.Struct(">III")

_REQUEST_PLAIN = struct.Struct(">IIIII")
_REQUEST_END = struct.Struct(">III")
_RESPONSE_PLAIN = struct.Struct(">III")
_RESPONSE_END = struct.Struct(">II")
_CONTINUE = struct.Struct(">III")

_ONE_ITEM = struct.Struct(">IIIIII")
"""The count of items, one in segments, and the count of its segment numbers, which follow."""
_FEW = 16
_NUMBERS = tuple(struct.Struct(f">{count}I") for count in range(_FEW + 1))
_ONE_IN_FEW = tuple(struct.Struct(f">{6 + count}I") for count in range(_FEW + 1))
_ONE_DIRECTION = struct.Struct(">IIIIII")
"""The count of sets, one of them, with one direction."""
_ONE_SEGMENT = struct.Struct(">IIIQ")
_BOUND_AND_ONE_SEGMENT = struct.Struct(">IIIIQ")

_ZERO = b"\0\0\0\0"


def encode_transmit_request(request: TransmitRequest) -> bytes:
    """optxmt_req."""
    items, directions, count, extra_receives, payload_octets = request
    if not items and not directions:
        return _REQUEST_PLAIN.pack(0, 0, count, extra_receives, payload_octets)
    end = _REQUEST_END.pack(count, extra_receives, payload_octets)
    return _encode_items(items) + _encode_directions(directions) + end


def decode_transmit_request(data: Buffer, start: int) -> tuple[TransmitRequest, int]:
    """The optxmt_req at `start`, and where its payload begins.

    Raises:
        DecodeError: the octets are no such message, or it is longer than `rpcrdma.limits` allows.
    """
    if len(data) - start < _REQUEST_PLAIN.size:
        raise _short("Transmit Request", data, start, _REQUEST_PLAIN.size)
    none, neither, count, extra_receives, payload_octets = _REQUEST_PLAIN.unpack_from(data, start)
    if not none and not neither:
        request = _tuple(TransmitRequest, ((), (), count, extra_receives, payload_octets))
        return request, start + _REQUEST_PLAIN.size
    items, pos = _decode_items(data, start, request=True)
    directions, pos = _decode_directions(data, pos)
    if len(data) - pos < _REQUEST_END.size:
        raise _short("optxrq_count", data, pos, _REQUEST_END.size)
    count, extra_receives, payload_octets = _REQUEST_END.unpack_from(data, pos)
    request = _tuple(TransmitRequest, (items, directions, count, extra_receives, payload_octets))
    return request, pos + _REQUEST_END.size


def encode_transmit_response(response: TransmitResponse) -> bytes:
    """optxmt_resp."""
    items, count, payload_octets = response
    if not items:
        return _RESPONSE_PLAIN.pack(0, count, payload_octets)
    return _encode_items(items) + _RESPONSE_END.pack(count, payload_octets)


def decode_transmit_response(data: Buffer, start: int) -> tuple[TransmitResponse, int]:
    """The optxmt_resp at `start`, and where its payload begins.

    Raises:
        DecodeError: the octets are no such message, or it is longer than `rpcrdma.limits` allows.
    """
    if len(data) - start < _RESPONSE_PLAIN.size:
        raise _short("Transmit Response", data, start, _RESPONSE_PLAIN.size)
    none, count, payload_octets = _RESPONSE_PLAIN.unpack_from(data, start)
    if not none:
        return _tuple(TransmitResponse, ((), count, payload_octets)), start + _RESPONSE_PLAIN.size
    items, pos = _decode_items(data, start, request=False)
    if len(data) - pos < _RESPONSE_END.size:
        raise _short("optxrs_count", data, pos, _RESPONSE_END.size)
    count, payload_octets = _RESPONSE_END.unpack_from(data, pos)
    return _tuple(TransmitResponse, (items, count, payload_octets)), pos + _RESPONSE_END.size


def encode_transmit_continue(message: TransmitContinue) -> bytes:
    """optxmt_cont."""
    return _CONTINUE.pack(*message)


def decode_transmit_continue(data: Buffer, start: int) -> tuple[TransmitContinue, int]:
    """The optxmt_cont at `start`, and where its payload begins.

    Raises:
        DecodeError: the octets are no such message.
    """
    if len(data) - start < _CONTINUE.size:
        raise _short("Transmit Continue", data, start, _CONTINUE.size)
    return _tuple(TransmitContinue, _CONTINUE.unpack_from(data, start)), start + _CONTINUE.size


def encode_report(report: Report) -> bytes:
    """optrept_err."""
    bad, lead, code, words = report
    assert len(words) == _REPORT_WORDS[code], f"{code.name} has {_REPORT_WORDS[code]} words"
    out = _ID.pack(*bad)
    out += _ZERO if lead is None else _WORD.pack(1) + _ID.pack(*lead)
    return out + _WORD.pack(code) + _NUMBERS[len(words)].pack(*words)


def decode_report(data: Buffer, start: int) -> Report:
    """The optrept_err that `data` is from `start` on: it has no payload.

    Raises:
        DecodeError: the octets are no such message.
    """
    reader = Reader(data)
    reader.pos = start
    bad = _decode_id(reader, "optre_bad")
    there = reader.u32("optre_lead")
    if there > 1:
        raise DecodeError("optre_lead", reader.pos - 4, "0 or 1", str(there), rfc="4506 4.19")
    lead = _decode_id(reader, "optre_lead") if there else None
    number = reader.u32("optre_which")
    code = _REPORT_CODES.get(number)
    if code is None:
        raise DecodeError("optre_which", reader.pos - 4, "1 to 8", str(number))
    words = reader.take(_NUMBERS[_REPORT_WORDS[code]], "optre_info")
    reader.done("Report Error")
    return Report(bad, lead, code, words)


def _decode_id(reader: Reader, field: str) -> TransmissionId:
    xid, direction, number = reader.take(_ID, field)
    if direction > 1:
        raise DecodeError(field, reader.pos - 8, "0 or 1 as xmsi_dir", str(direction))
    return TransmissionId(xid, direction, number)


def _short(field: str, data: Buffer, pos: int, need: int) -> DecodeError:
    return DecodeError(field, pos, f"{need} octets", str(max(0, len(data) - pos)))


def _encode_items(items: tuple[Item, ...]) -> bytes:
    """xmddp_grpinfo."""
    if not items:
        return _ZERO
    if len(items) == 1:
        position, length, where = items[0]
        if isinstance(where, InSegments) and len(where.numbers) <= _FEW:
            offset, numbers = where
            count = len(numbers)
            return _ONE_IN_FEW[count].pack(1, position, length, _SEGMENTS, offset, count, *numbers)
    out = bytearray(_WORD.pack(len(items)))
    for position, length, where in items:
        if isinstance(where, InSegments):
            out += _ITEM.pack(position, length, _SEGMENTS)
            out += _IN_SEGMENTS.pack(where.offset, len(where.numbers))
            out += struct.pack(f">{len(where.numbers)}I", *where.numbers)
        elif isinstance(where, Explicit):
            out += _ITEM.pack(position, length, _EXPLICIT)
            _encode_segments(out, where.segments)
        else:
            out += _ITEM.pack(position, length, where.value)
    return bytes(out)


def _decode_items(data: Buffer, start: int, *, request: bool) -> tuple[tuple[Item, ...], int]:
    """xmddp_grpinfo, and where it ends; both short shapes here, the others in `_read_items`."""
    room = len(data) - start
    if room >= _ONE_ITEM.size:
        items, position, length, kind, offset, count = _ONE_ITEM.unpack_from(data, start)
        if not items:
            return (), start + _WORD.size
        if items == 1 and kind == _SEGMENTS and count <= _FEW and room >= _ONE_ITEM.size + 4 * count:
            pos = start + _ONE_ITEM.size
            where = _tuple(InSegments, (offset, _NUMBERS[count].unpack_from(data, pos)))
            return (_tuple(Item, (position, length, where)),), pos + 4 * count
    reader = Reader(data)
    reader.pos = start
    return _read_items(reader, request=request), reader.pos


def _read_items(reader: Reader, *, request: bool) -> tuple[Item, ...]:
    count = _read_count(reader, "items", RTR_ITEMS_MAX)
    items = []
    for _ in range(count):
        position, length, kind = reader.take(_ITEM, "xmddp_mitem")
        where: Location
        if kind == _SEGMENTS:
            offset = reader.u32("xmdl_offset")
            numbers = _read_count(reader, "xmdl_bsnum", RTR_SEGMENT_NUMBERS_MAX)
            where = InSegments(offset, struct.unpack(f">{numbers}I", reader.view(4 * numbers, "xmdl_bsnum")))
        elif kind == _EXPLICIT:
            where = Explicit(_read_segments(reader, "xmdl_ex"))
        elif kind in _NOT_PLACED and not request:
            where = _NOT_PLACED[kind]
        else:
            need = "1 or 2" if request else "1, 2, 5 or 6"
            raise DecodeError("xmdmi_where", reader.pos - 4, need, str(kind), rfc="rtrext 6.2")
        items.append(Item(position, length, where))
    return tuple(items)


def _encode_directions(directions: tuple[DirectionSet, ...]) -> bytes:
    """xmddp_rsdgroup."""
    if not directions:
        return _ZERO
    if len(directions) == 1 and len(directions[0].results) == 1:
        begin, end, ((least, way, segments, explicit_from),) = directions[0]
        start = _ONE_DIRECTION.pack(1, begin, end, 1, least, way)
        if way == _SEGMENTS:
            return start
        if len(segments) == 1:
            if way == _BY_SIZE:
                return start + _BOUND_AND_ONE_SEGMENT.pack(explicit_from, 1, *segments[0])
            return start + _ONE_SEGMENT.pack(1, *segments[0])
    out = bytearray(_WORD.pack(len(directions)))
    for begin, end, results in directions:
        out += _SET.pack(begin, end, len(results))
        for least, way, segments, explicit_from in results:
            out += _DIRECTION.pack(least, way)
            if way == _BY_SIZE:
                out += _WORD.pack(explicit_from)
            if way != _SEGMENTS:
                _encode_segments(out, segments)
    return bytes(out)


def _decode_directions(data: Buffer, start: int) -> tuple[tuple[DirectionSet, ...], int]:
    """xmddp_rsdgroup, and where it ends; the short shapes here, the others in `_read_directions`."""
    room = len(data) - start
    if room >= _WORD.size and not _WORD.unpack_from(data, start)[0]:
        return (), start + _WORD.size
    if room >= _ONE_DIRECTION.size:
        sets, begin, end, results, least, kind = _ONE_DIRECTION.unpack_from(data, start)
        way = _WAYS.get(kind)
        if sets == results == 1 and way is not None:
            pos = start + _ONE_DIRECTION.size
            room -= _ONE_DIRECTION.size
            segments: tuple[Segment, ...] | None = None
            explicit_from = 0
            if kind == _SEGMENTS:
                segments = ()
            elif kind == _BY_SIZE:
                if room >= _BOUND_AND_ONE_SEGMENT.size:
                    explicit_from, count, handle, length, offset = _BOUND_AND_ONE_SEGMENT.unpack_from(data, pos)
                    if count == 1:
                        segments = (_tuple(Segment, (handle, length, offset)),)
                        pos += _BOUND_AND_ONE_SEGMENT.size
            elif room >= _ONE_SEGMENT.size:
                count, handle, length, offset = _ONE_SEGMENT.unpack_from(data, pos)
                if count == 1:
                    segments = (_tuple(Segment, (handle, length, offset)),)
                    pos += _ONE_SEGMENT.size
            if segments is not None:
                direction = _tuple(ResultDirection, (least, way, segments, explicit_from))
                return (_tuple(DirectionSet, (begin, end, (direction,))),), pos
    reader = Reader(data)
    reader.pos = start
    return _read_directions(reader), reader.pos


def _read_directions(reader: Reader) -> tuple[DirectionSet, ...]:
    left = RTR_ITEMS_MAX
    sets = []
    for _ in range(_read_count(reader, "sets of directions", RTR_ITEMS_MAX)):
        begin, end = reader.take(_DIRECTION, "xmdrsds_range")
        count = _read_count(reader, "directions", left)
        left -= count
        sets.append(DirectionSet(begin, end, tuple(_read_direction(reader) for _ in range(count))))
    return tuple(sets)


def _read_direction(reader: Reader) -> ResultDirection:
    least, kind = reader.take(_DIRECTION, "xmddp_rsditem")
    way = _WAYS.get(kind)
    if way is None:
        raise DecodeError("xmdrsdi_loc", reader.pos - 4, "1 to 4", str(kind), rfc="rtrext 6.2")
    if way is Way.SEGMENTS:
        return ResultDirection(least, way)
    explicit_from = reader.u32("xmdrsdl_dsdov") if way is Way.BY_SIZE else 0
    return ResultDirection(least, way, _read_segments(reader, "xmdrsdl_ex"), explicit_from)


def _encode_segments(out: bytearray, segments: tuple[Segment, ...]) -> None:
    out += _WORD.pack(len(segments))
    for segment in segments:
        out += _SEGMENT.pack(*segment)


def _read_segments(reader: Reader, field: str) -> tuple[Segment, ...]:
    count = _read_count(reader, field, CHUNK_SEGMENTS_MAX)
    return tuple(map(Segment._make, _SEGMENT.iter_unpack(reader.view(16 * count, field))))


def _read_count(reader: Reader, field: str, limit: int) -> int:
    count = reader.u32(field)
    if count > limit:
        raise DecodeError(field, reader.pos - 4, f"at most {limit}", str(count))
    return count
