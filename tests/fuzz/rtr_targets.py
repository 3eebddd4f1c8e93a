"""Fuzz targets: the messages and transport properties of the round-trip extension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from decoder_targets import FuzzTarget, golden
from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.rtr.messages import (
    decode_report,
    decode_transmit_continue,
    decode_transmit_request,
    decode_transmit_response,
    encode_report,
    encode_transmit_continue,
    encode_transmit_request,
    encode_transmit_response,
)
from rpcrdma.rtr.properties import (
    decode_buffer_structure,
    decode_support,
    decode_transmission_limit,
    encode_buffer_structure,
    encode_support,
    encode_transmission_limit,
)
from rpcrdma.wire.buffers import Buffer

__all__ = ["ROUND_TRIP"]


def message_target(
    decode: Callable[[Buffer, int], tuple[Any, int]], encode: Callable[[Any], bytes]
) -> Callable[[bytes], None]:
    """A body after any octet: a decoded one is encoded to the same octets."""

    def run(data: bytes) -> None:
        try:
            value, end = decode(memoryview(data), 1)
        except DecodeError:
            return
        assert encode(value) == data[1:end]

    return run


def report(data: Buffer, start: int) -> tuple[Any, int]:
    """It has no payload, so it ends where the data end."""
    return decode_report(data, start), len(data)


def structure(data: bytes) -> None:
    """A receive buffer structure: its segments fill the buffer, and are no more than are allowed."""
    try:
        found = decode_buffer_structure(data)
    except DecodeError:
        return
    assert sum(length for _, length, _ in found.segments) == found.octets
    assert 0 < len(found.segments) <= limits.RTR_BUFFER_SEGMENTS_MAX
    assert len(found.placeable) <= len(found.segments)
    assert decode_buffer_structure(encode_buffer_structure(found)) == found


def words(data: bytes) -> None:
    """The properties that are single words."""
    try:
        support, limit = decode_support(data), decode_transmission_limit(data)
    except DecodeError:
        assert len(data) != 4
        return
    assert decode_support(encode_support(support)) == support
    assert encode_transmission_limit(limit) == data


def _seeds(*tables: str) -> list[bytes]:
    return [b"\0" + octets for octets in golden("rtr/messages.toml", *tables, "malformed")]


ROUND_TRIP = [
    FuzzTarget("rtr_request", message_target(decode_transmit_request, encode_transmit_request), _seeds("request")),
    FuzzTarget("rtr_response", message_target(decode_transmit_response, encode_transmit_response), _seeds("response")),
    FuzzTarget("rtr_continue", message_target(decode_transmit_continue, encode_transmit_continue), _seeds("continue")),
    FuzzTarget("rtr_report", message_target(report, encode_report), _seeds("report")),
    FuzzTarget("rtr_buffer_structure", structure, golden("rtr/messages.toml", "structure", "malformed_structure")),
    FuzzTarget("rtr_words", words, [bytes(4), b"\0\0\0\7", b"\xff" * 5]),
]
"""The targets, named after the message or property that they decode."""
