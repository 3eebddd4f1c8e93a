"""The lists of items and of directions, which describe the location of data.

Usual shapes are decoded in one or two steps: no item, one item in segments, one direction with at most one RDMA
segment. Others are decoded word by word.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple, TypeAlias

from rpcrdma.errors import DecodeError
from rpcrdma.limits import CHUNK_SEGMENTS_MAX, RTR_ITEMS_MAX, RTR_SEGMENT_NUMBERS_MAX
from rpcrdma.transport import Segment
from rpcrdma.wire.buffers import Buffer, Reader

__all__ = [
    "DirectionSet",
    "Explicit",
    "InSegments",
    "Item",
    "Location",
    "NotPlaced",
    "ResultDirection",
    "Way",
    "decode_directions",
    "decode_items",
    "encode_directions",
    "encode_items",
]


class Explicit(NamedTuple):
    """XMDTYPE_EXRW: the item is read or written by RDMA, in `segments` of the requester's memory."""

    segments: tuple[Segment, ...]


class InSegments(NamedTuple):
    """XMDTYPE_TBSN: the item is in the placeable segments `numbers` of the receive buffers of the group.

    It starts `offset` octets into the first of them. Numbers count all placeable segments of the group's buffers.
    """

    offset: int
    numbers: tuple[int, ...]


class NotPlaced(enum.Enum):
    """XMDTYPE_TOOSHORT and XMDTYPE_NOITEM: the reason for which a direction of the request has no placed item."""

    TOO_SHORT = 5
    """The item is shorter than the direction's minimum, and inline."""
    NO_ITEM = 6
    """The response has no item for the direction."""


Location: TypeAlias = Explicit | InSegments | NotPlaced
"""xmddp_loc: the location of an item's data."""


class Item(NamedTuple):
    """xmddp_mitem: a bulk item that is removed from the payload stream.

    `length` octets without XDR padding belong at `position` of the complete stream, and are at the location `where`.
    """

    position: int
    length: int
    where: Location


class Way(enum.IntEnum):
    """How the responder must place an item of the response: xmddp_type of a direction."""

    EXPLICIT = 1
    """By RDMA Write."""
    SEGMENTS = 2
    """In segments of the requester's receive buffers."""
    CHOICE = 3
    """Either of them; the responder chooses."""
    BY_SIZE = 4
    """Long items by RDMA Write, short ones in segments."""


class ResultDirection(NamedTuple):
    """xmddp_rsditem: a direction, which instructs the responder how to place one item of the response.

    An item shorter than `least` octets stays inline. `segments` is the memory for RDMA Writes, if `way` allows them.
    `explicit_from` is the octets of the shortest item for an RDMA Write, if `way` is `BY_SIZE`.
    """

    least: int
    way: Way
    segments: tuple[Segment, ...] = ()
    explicit_from: int = 0


class DirectionSet(NamedTuple):
    """xmddp_rsdset: the directions `results` for results of the arguments at Positions from `begin` to below `end`."""

    begin: int
    end: int
    results: tuple[ResultDirection, ...]


_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""

_EXPLICIT = int(Way.EXPLICIT)
_SEGMENTS = int(Way.SEGMENTS)
_BY_SIZE = int(Way.BY_SIZE)
_WAYS = {int(way): way for way in Way}
_NOT_PLACED = {result.value: result for result in NotPlaced}

_WORD = struct.Struct(">I")
_SEGMENT = struct.Struct(">IIQ")
_ITEM = struct.Struct(">III")
_IN_SEGMENTS = struct.Struct(">II")
_SET = struct.Struct(">III")
_DIRECTION = struct.Struct(">II")

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


def encode_items(items: tuple[Item, ...]) -> bytes:
    """Encodes a list of items (xmddp_grpinfo)."""
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


def decode_items(data: Buffer, start: int, *, request: bool) -> tuple[tuple[Item, ...], int]:
    """Decodes a list of items (xmddp_grpinfo) at offset `start` of `data`.

    `request`: whether the list is that of a Transmit Request; only in a Transmit Response the location of an item may
    be a `NotPlaced`. Returns the items, and the offset behind the list.

    Raises:
        DecodeError: the octets are no such list, or it is longer than `rpcrdma.limits` allows.
    """
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


def encode_directions(directions: tuple[DirectionSet, ...]) -> bytes:
    """Encodes the directions of a request, its instructions how to place the response's items (xmddp_rsdgroup)."""
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


def decode_directions(data: Buffer, start: int) -> tuple[tuple[DirectionSet, ...], int]:
    """Decodes the directions of a request (xmddp_rsdgroup) at offset `start` of `data`.

    Returns the sets of directions, and the offset behind them.

    Raises:
        DecodeError: the octets are no such list, or it is longer than `rpcrdma.limits` allows.
    """
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
