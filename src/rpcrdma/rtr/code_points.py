"""Header types, transport properties and bits of the round-trip extension.

The draft has two sets of numbers that contradict each other, and version 2 has come to use both: here all are beyond
what its revisions may take.
"""

from __future__ import annotations

import enum

__all__ = [
    "RECEIVE_STRUCTURE",
    "REPTERR",
    "REQUEST_RECEIVE_LIMIT",
    "RESPONSE_SEND_LIMIT",
    "RTR_SUPPORT",
    "XMTCONT",
    "XMTREQ",
    "XMTRESP",
    "Support",
]

# Header types

XMTREQ = 0x101
"""Transmit Request: a request, or the first part of one."""
XMTRESP = 0x102
"""Transmit Response: a response, or the first part of one."""
XMTCONT = 0x103
"""Transmit Continue: a further part of either."""
REPTERR = 0x104
"""Report Error: says why a transmission was not taken."""

# Transport properties

RTR_SUPPORT = 0x101
RECEIVE_STRUCTURE = 0x102
REQUEST_RECEIVE_LIMIT = 0x103
RESPONSE_SEND_LIMIT = 0x104


class Support(enum.IntFlag):
    """The property RTR Support: which of the header types its sender takes."""

    REQUEST = 1
    RESPONSE = 2
    CONTINUE = 4
