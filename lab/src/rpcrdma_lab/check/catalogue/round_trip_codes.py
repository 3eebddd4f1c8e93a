"""The code points of the round-trip extension, and the properties that the checks of either end announce.

The numbers are those of this library, from 0x101 on, since the draft's own numbers contradict each other
(draft-dnoveck-nfsv4-rpcrdma-rtrext-01).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "BY_SIZE",
    "CHOICE",
    "CONTINUE",
    "CONTINUES",
    "EXPLICIT",
    "HEADER_TYPE",
    "IN_SEGMENTS",
    "NO_ITEM",
    "OFFSET",
    "OTHER_TYPE",
    "OTHER_XID",
    "PAYLOAD",
    "REPORT",
    "REQUEST",
    "REQUESTS_MAX",
    "RESPONSE",
    "RTR_SUPPORT",
    "SEGMENT_NUMBER",
    "SEQUENCE",
    "TAKES_REQUESTS",
    "TAKES_RESPONSES",
    "TOO_SHORT",
    "TRANSMISSIONS",
    "UNEXPECTED",
    "extension_properties",
]

RTR_SUPPORT, _RECEIVE_STRUCTURE, REQUESTS_MAX, _RESPONSES_MAX = 0x101, 0x102, 0x103, 0x104
"""Numbers of the extension's properties."""
TAKES_REQUESTS, TAKES_RESPONSES, CONTINUES = 1, 2, 4
"""Bits of the property RTR Support."""
REQUEST, RESPONSE, CONTINUE, REPORT = 0x101, 0x102, 0x103, 0x104
"""Header types: Transmit Request, Transmit Response, Transmit Continue and Report Error."""
EXPLICIT, IN_SEGMENTS, CHOICE, BY_SIZE, TOO_SHORT, NO_ITEM = range(1, 7)
"""Types of items and of the places of results."""
HEADER_TYPE, OTHER_TYPE, UNEXPECTED, SEQUENCE, OTHER_XID, OFFSET, SEGMENT_NUMBER, PAYLOAD = range(1, 9)
"""Fault codes of Report Error."""

TRANSMISSIONS = 8
"""The most transmissions (messages, each a Send) of one request, and of one response, that the checks announce."""


def extension_properties(
    receive_octets: int, segments: int, segment_octets: int, *, support: int, requests_max: int = TRANSMISSIONS
) -> Sequence[Any]:
    """Returns the transport properties of an end with the round-trip extension, each as [NUMBER, VALUE].

    VALUE is octets in a form of docs/send.md, such as hex digits.

    Args:
        receive_octets: the octets of each receive buffer, and of the longest message that the end sends.
        segments: the number of segments for data in a buffer, which are the last ones; 0: none.
        segment_octets: the octets of each segment for data.
        support: the bits of the property RTR Support.
        requests_max: the most transmissions (messages, each a Send) of one request that the end accepts.
    """
    groups = [1, receive_octets - segments * segment_octets, 0, 0]
    groups += [segments, segment_octets, 0, 1] if segments else []
    return (
        [1, {"words": [receive_octets]}],
        [2, {"words": [receive_octets]}],
        [RTR_SUPPORT, {"words": [support]}],
        [_RECEIVE_STRUCTURE, {"words": [receive_octets, len(groups) // 4, *groups]}],
        [REQUESTS_MAX, {"words": [requests_max]}],
        [_RESPONSES_MAX, {"words": [TRANSMISSIONS]}],
    )
