"""Encoding and decoding of the extension's message bodies, which follow the header prefix of version 2.

Decoding checks the XDR, and the kinds of location that a list allows (section 6.2). Other checks need further state:
segment numbers and offsets the structure of the receive buffers, the sequence the previous transmissions. Faults of
these kinds are answered by a Report Error, not as an unreadable header.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple, NoReturn

from rpcrdma.errors import DecodeError, RemoteProtocolError
from rpcrdma.rtr.placements import (
    DirectionSet,
    Explicit,
    InSegments,
    Item,
    Location,
    NotPlaced,
    ResultDirection,
    Way,
    decode_directions,
    decode_items,
    encode_directions,
    encode_items,
)
from rpcrdma.wire.buffers import Buffer, Reader

__all__ = [
    "REPTERR",
    "XMTCONT",
    "XMTREQ",
    "XMTRESP",
    "DirectionSet",
    "Explicit",
    "InSegments",
    "Item",
    "Location",
    "NotPlaced",
    "Report",
    "ReportCode",
    "ResultDirection",
    "TransmissionFault",
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
    "expected",
    "out_of_range",
]

XMTREQ = 0x101
"""Transmit Request: a request, or its first part."""
XMTRESP = 0x102
"""Transmit Response: a response, or its first part."""
XMTCONT = 0x103
"""Transmit Continue: a further part of either."""
REPTERR = 0x104
"""Report Error: refuses a transmission."""


class TransmitRequest(NamedTuple):
    """optxmt_req: the header of a Transmit Request, the first of the `count` messages (transmissions) of a call.

    `items` are the bulk items of the call, `directions` state how the responder must place those of the response. The
    response may have `extra_receives` transmissions beyond the first one. `payload_octets` is the length of this
    transmission's payload.
    """

    items: tuple[Item, ...]
    directions: tuple[DirectionSet, ...]
    count: int  # type: ignore[assignment]  # hides tuple.count
    extra_receives: int
    payload_octets: int


class TransmitResponse(NamedTuple):
    """optxmt_resp: the header of a Transmit Response, the first of the `count` messages (transmissions) of a reply.

    `items` has an entry for each direction of the request. `payload_octets` is the length of this transmission's
    payload.
    """

    items: tuple[Item, ...]
    count: int  # type: ignore[assignment]  # hides tuple.count
    payload_octets: int


class TransmitContinue(NamedTuple):
    """optxmt_cont: the header of a Transmit Continue, a further transmission of a group.

    `number` counts the transmissions of the group from 0, `begun_by` is the header type of the first one, and
    `payload_octets` is the length of this transmission's payload.
    """

    number: int
    begun_by: int
    payload_octets: int


class TransmissionId(NamedTuple):
    """xms_id: names a transmission by the XID and the number in its group.

    `direction` is 0 for the transmissions of a request, 1 for those of a response.
    """

    xid: int
    direction: int
    number: int


class ReportCode(enum.IntEnum):
    """The fault of a transmission of the round-trip extension, as a Report Error states it (optr_err)."""

    HEADER_TYPE = 1
    """A message of the version within a group."""
    OPTIONAL_TYPE = 2
    """A message of an extension that does not continue the group."""
    CONTINUATION = 3
    """There was no group to continue."""
    SEQUENCE = 4
    XID = 5
    OFFSET = 6
    SEGMENT_NUMBER = 7
    PAYLOAD = 8
    """A length exceeds its bound, such as the end of the transmission or of the item's segments."""


class Report(NamedTuple):
    """optrept_err: the content of a Report Error, about the faulty transmission `bad`.

    `lead` names the transmission that began its group; None without a group. `words` depend on `code`: the expected and
    the received value; or a value with its minimum and maximum; or none.
    """

    bad: TransmissionId
    lead: TransmissionId | None
    code: ReportCode
    words: tuple[int, ...]


class TransmissionFault(RemoteProtocolError):
    """Raised for a fault in the transmissions of a call or reply; `code` and `words` are for the `Report` about it."""

    def __init__(self, code: ReportCode, *words: int) -> None:
        self.code = code
        self.words = words
        super().__init__(f"{code.name.lower().replace('_', ' ')} {words}", rfc="rtrext 9.5")

    def report(self, bad: TransmissionId, lead: TransmissionId | None) -> Report:
        """Returns the content of the Report Error about the transmission `bad`, in the group that `lead` began.

        `lead` is None if there was no group.
        """
        return Report(bad, lead, self.code, self.words)


def expected(code: ReportCode, need: int, have: int) -> NoReturn:
    """Raises the fault `code`: a field of a transmission has the value `have`, where only `need` is valid.

    Raises:
        TransmissionFault: always.
    """
    raise TransmissionFault(code, need, have)


def out_of_range(code: ReportCode, value: int, least: int, most: int) -> NoReturn:
    """Raises the fault `code`: the `value` of a transmission's field is not from `least` to `most`, or is misaligned.

    Raises:
        TransmissionFault: always.
    """
    raise TransmissionFault(code, value, max(0, least) & 0xFFFFFFFF, max(0, most) & 0xFFFFFFFF)


_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""

_REPORT_CODES = {int(code): code for code in ReportCode}
_REPORT_WORDS = dict.fromkeys(ReportCode, 2) | {
    ReportCode.CONTINUATION: 0,
    ReportCode.OFFSET: 3,
    ReportCode.SEGMENT_NUMBER: 3,
    ReportCode.PAYLOAD: 3,
}

_WORD = struct.Struct(">I")
_ID = struct.Struct(">III")
_INFO = {count: struct.Struct(f">{count}I") for count in (0, 2, 3)}

_REQUEST_PLAIN = struct.Struct(">IIIII")
_REQUEST_END = struct.Struct(">III")
_RESPONSE_PLAIN = struct.Struct(">III")
_RESPONSE_END = struct.Struct(">II")
_CONTINUE = struct.Struct(">III")

_ZERO = b"\0\0\0\0"


def encode_transmit_request(request: TransmitRequest) -> bytes:
    """Encodes the header of a Transmit Request (optxmt_req), without payload."""
    items, directions, count, extra_receives, payload_octets = request
    if not items and not directions:
        return _REQUEST_PLAIN.pack(0, 0, count, extra_receives, payload_octets)
    end = _REQUEST_END.pack(count, extra_receives, payload_octets)
    return encode_items(items) + encode_directions(directions) + end


def decode_transmit_request(data: Buffer, start: int) -> tuple[TransmitRequest, int]:
    """Decodes the header of a Transmit Request at offset `start` of `data`.

    Returns the header, and the offset of its payload.

    Raises:
        DecodeError: the octets are no such header, or it is longer than `rpcrdma.limits` allows.
    """
    if len(data) - start < _REQUEST_PLAIN.size:
        raise _short("Transmit Request", data, start, _REQUEST_PLAIN.size)
    none, neither, count, extra_receives, payload_octets = _REQUEST_PLAIN.unpack_from(data, start)
    if not none and not neither:
        request = _tuple(TransmitRequest, ((), (), count, extra_receives, payload_octets))
        return request, start + _REQUEST_PLAIN.size
    items, pos = decode_items(data, start, request=True)
    directions, pos = decode_directions(data, pos)
    if len(data) - pos < _REQUEST_END.size:
        raise _short("optxrq_count", data, pos, _REQUEST_END.size)
    count, extra_receives, payload_octets = _REQUEST_END.unpack_from(data, pos)
    request = _tuple(TransmitRequest, (items, directions, count, extra_receives, payload_octets))
    return request, pos + _REQUEST_END.size


def encode_transmit_response(response: TransmitResponse) -> bytes:
    """Encodes the header of a Transmit Response (optxmt_resp), without payload."""
    items, count, payload_octets = response
    if not items:
        return _RESPONSE_PLAIN.pack(0, count, payload_octets)
    return encode_items(items) + _RESPONSE_END.pack(count, payload_octets)


def decode_transmit_response(data: Buffer, start: int) -> tuple[TransmitResponse, int]:
    """Decodes the header of a Transmit Response at offset `start` of `data`.

    Returns the header, and the offset of its payload.

    Raises:
        DecodeError: the octets are no such header, or it is longer than `rpcrdma.limits` allows.
    """
    if len(data) - start < _RESPONSE_PLAIN.size:
        raise _short("Transmit Response", data, start, _RESPONSE_PLAIN.size)
    none, count, payload_octets = _RESPONSE_PLAIN.unpack_from(data, start)
    if not none:
        return _tuple(TransmitResponse, ((), count, payload_octets)), start + _RESPONSE_PLAIN.size
    items, pos = decode_items(data, start, request=False)
    if len(data) - pos < _RESPONSE_END.size:
        raise _short("optxrs_count", data, pos, _RESPONSE_END.size)
    count, payload_octets = _RESPONSE_END.unpack_from(data, pos)
    return _tuple(TransmitResponse, (items, count, payload_octets)), pos + _RESPONSE_END.size


def encode_transmit_continue(message: TransmitContinue) -> bytes:
    """Encodes the header of a Transmit Continue (optxmt_cont), without payload."""
    return _CONTINUE.pack(*message)


def decode_transmit_continue(data: Buffer, start: int) -> tuple[TransmitContinue, int]:
    """Decodes the header of a Transmit Continue at offset `start` of `data`.

    Returns the header, and the offset of its payload.

    Raises:
        DecodeError: the octets are too few.
    """
    if len(data) - start < _CONTINUE.size:
        raise _short("Transmit Continue", data, start, _CONTINUE.size)
    return _tuple(TransmitContinue, _CONTINUE.unpack_from(data, start)), start + _CONTINUE.size


def encode_report(report: Report) -> bytes:
    """Encodes the body of a Report Error (optrept_err); asserts that `report.words` has as many words as its code."""
    bad, lead, code, words = report
    assert len(words) == _REPORT_WORDS[code], f"{code.name} has {_REPORT_WORDS[code]} words"
    out = _ID.pack(*bad)
    out += _ZERO if lead is None else _WORD.pack(1) + _ID.pack(*lead)
    return out + _WORD.pack(code) + _INFO[len(words)].pack(*words)


def decode_report(data: Buffer, start: int) -> Report:
    """Decodes the body of a Report Error, which extends from offset `start` to the end of `data`.

    Raises:
        DecodeError: the octets are no such body, or further ones follow it.
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
    words = reader.take(_INFO[_REPORT_WORDS[code]], "optre_info")
    reader.done("Report Error")
    return Report(bad, lead, code, words)


def _decode_id(reader: Reader, field: str) -> TransmissionId:
    xid, direction, number = reader.take(_ID, field)
    if direction > 1:
        raise DecodeError(field, reader.pos - 8, "0 or 1 as xmsi_dir", str(direction))
    return TransmissionId(xid, direction, number)


def _short(field: str, data: Buffer, pos: int, need: int) -> DecodeError:
    return DecodeError(field, pos, f"{need} octets", str(max(0, len(data) - pos)))
