"""Terminate messages as annotated fields: the cause in words, and the headers that they quote.

Layout: RFC 5040 section 4.8. Causes: there, RFC 5041 section 7.2, RFC 5044 section 8, RFC 6581 section 8.
"""

from __future__ import annotations

from rpcrdma_lab.dissect.fields import Field, FieldFault, octets_shown
from rpcrdma_lab.dissect.header_table import Row, Table

__all__ = ["CAUSES", "TERMINATE_ROWS", "terminate_fields"]

CAUSES = {
    0x0000: "local catastrophic error",
    0x0100: "RDMA Read or invalidation of an invalid handle",
    0x0101: "RDMA Read outside the bounds of the memory",
    0x0102: "access rights violation",
    0x0103: "RDMA Read of a handle of another connection",
    0x0104: "RDMA Read past the end of the offset space",
    0x0109: "invalidation of a handle that cannot be invalidated",
    0x01FF: "remote protection error",
    0x0205: "invalid RDMAP version",
    0x0206: "unexpected opcode",
    0x0207: "catastrophic error of the stream",
    0x0208: "catastrophic error, global",
    0x0209: "a handle cannot be invalidated",
    0x02FF: "remote operation error",
    0x1000: "local catastrophic error of DDP",
    0x1100: "RDMA Write to an invalid handle",
    0x1101: "RDMA Write outside the bounds of the memory",
    0x1102: "RDMA Write to a handle of another connection",
    0x1103: "RDMA Write past the end of the offset space",
    0x1104: "invalid DDP version in a tagged segment",
    0x1201: "invalid queue number",
    0x1202: "no receive buffer was posted",
    0x1203: "message sequence number out of range",
    0x1204: "invalid message offset",
    0x1205: "the message is longer than the receive buffer",
    0x1206: "invalid DDP version in an untagged segment",
    0x2001: "the TCP connection was closed or lost",
    0x2002: "CRC mismatch",
    0x2003: "marker and ULPDU length do not match",
    0x2004: "invalid MPA start-up frame",
    0x2005: "local catastrophic error of MPA",
    0x2006: "insufficient resources for RDMA Reads",
    0x2007: "no matching ready-to-receive frame",
}
"""The causes by layer, error type and error code: the first two octets of the header, 0xLTCC."""

_SECTION = "RFC 5040 4.8"
TERMINATE_ROWS = Table(
    "Terminate",
    [
        Row("Layer", 0, 1, "0 RDMAP, 1 DDP, 2 MPA", _SECTION, 0xF0),
        Row("EType", 0, 1, "type of the error in its layer", _SECTION, 0x0F),
        Row("Error Code", 1, 1, "code of the error in its type", _SECTION),
        Row("M", 2, 1, "the length of the segment is quoted", _SECTION, 0x80),
        Row("D", 2, 1, "its DDP header is quoted", _SECTION, 0x40),
        Row("R", 2, 1, "its RDMA Read Request header is quoted", _SECTION, 0x20),
        Row("Reserved", 2, 2, "reserved", _SECTION, 0x1FFF),
    ],
)
_M, _D, _R = 0x80, 0x40, 0x20
_LENGTH_OCTETS, _READ_HEADER_OCTETS = 2, 28


def terminate_fields(payload: bytes) -> tuple[Field, list[FieldFault], str]:
    """Decodes the payload of an RDMAP Terminate message: its header, and the headers of the segment that it quotes.

    Linux siw swaps layer and error type, and has M, D and R in the three low bits of their octet. Such a header is
    recognised by these bits, or because only the swapped layer and type, with the error code, have a meaning.

    Returns:
        The group of fields, their faults, and the cause as text; "" if `payload` ends within the Terminate's header.
    """
    group, faults = TERMINATE_ROWS.read(payload)
    if faults:
        return group, faults, ""
    first, code, flags = payload[:3]
    swapped = (first & 0xF) << 4 | first >> 4
    siw = first << 8 | code not in CAUSES and swapped << 8 | code in CAUSES
    if 0 < flags < _R:
        siw = True
        flags = (flags & 1) << 7 | (flags & 2) << 5 | (flags & 4) << 3
    layer_and_type = swapped if siw else first
    # The length precedes the DDP header even if the header alone is announced, D without M.
    at = TERMINATE_ROWS.size
    tagged = payload[at + _LENGTH_OCTETS : at + _LENGTH_OCTETS + 1] >= b"\x80"
    for announced, octets, name in (
        (flags & (_M | _D), _LENGTH_OCTETS, "DDP Segment Length"),
        (flags & _D, 14 if tagged else 18, "Terminated DDP Header"),
        (flags & _R, _READ_HEADER_OCTETS, "Terminated RDMA Header"),
    ):
        if not announced:
            continue
        quoted = payload[at : at + octets]
        group.fields.append(Field(name, at, len(quoted), quoted, octets_shown(quoted), "", _SECTION))
        if len(quoted) < octets:
            reason = f"{octets} octets needed, {len(quoted)} left"
            group.fields[-1].faults.append(reason)
            faults.append(FieldFault(name, at, reason, _SECTION))
            break
        at += octets
    group.size = min(at, len(payload))
    cause = CAUSES.get(layer_and_type << 8 | code, "unknown error")
    words = f"{cause} ({layer_and_type >> 4}/{layer_and_type & 0xF}/{code:02x})"
    return group, faults, words + (", layer and type swapped as Linux siw does" if layer_and_type != first else "")
