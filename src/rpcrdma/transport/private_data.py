"""The private data that peers exchange while connecting: sizes and remote invalidation (RFC 8797)."""

from __future__ import annotations

import struct
from typing import NamedTuple

__all__ = [
    "DEFAULT_INLINE_OCTETS",
    "INLINE_OCTETS_MAX",
    "Agreement",
    "PrivateData",
    "agree",
    "decode_private_data",
    "encode_private_data",
]

DEFAULT_INLINE_OCTETS = 1024
"""The receive size of a peer without private data (RFC 8166 section 3.3.3)."""
INLINE_OCTETS_MAX = 256 * 1024

_FORMAT = struct.Struct(">IBBBB")
_IDENTIFIER = b"\xf6\xab\x0e\x18"
_VERSION = 1
_REMOTE_INVALIDATION = 0x01


class PrivateData(NamedTuple):
    """The abilities of one peer, as its private data states them (RFC 8797).

    `remote_invalidation`: the peer supports Send with Invalidate. `send_octets` and `receive_octets` are the largest
    Sends that the peer makes and receives: 1024 to 262144.
    """

    remote_invalidation: bool = False
    send_octets: int = DEFAULT_INLINE_OCTETS
    receive_octets: int = DEFAULT_INLINE_OCTETS


class Agreement(NamedTuple):
    """The agreement of both peers for a connection, seen from one side.

    `send_octets` and `receive_octets` are the largest messages, in octets, that this side sends and receives.
    `remote_invalidation`: whether responders use Send with Invalidate.
    """

    send_octets: int
    receive_octets: int
    remote_invalidation: bool


def encode_private_data(data: PrivateData) -> bytes:
    """Encodes the eight octets of RFC 8797 section 4; sizes are rounded down to a multiple of 1024.

    The caller has checked that the sizes are within 1024 to 262144 octets; struct.error if one does not fit its octet.
    """
    return _FORMAT.pack(
        0xF6AB0E18,
        _VERSION,
        _REMOTE_INVALIDATION if data.remote_invalidation else 0,
        data.send_octets // 1024 - 1,
        data.receive_octets // 1024 - 1,
    )


def decode_private_data(octets: bytes) -> PrivateData | None:
    """Decodes the first RFC 8797 message of format version 1 that occurs anywhere in `octets` (section 5.2).

    Returns the peer's message sizes and remote invalidation; None if `octets` has no whole message of this format.
    """
    start = octets.find(_IDENTIFIER)
    while start >= 0:
        if start + _FORMAT.size > len(octets):
            return None
        _, version, flags, send, receive = _FORMAT.unpack_from(octets, start)
        if version == _VERSION:
            return PrivateData(bool(flags & _REMOTE_INVALIDATION), (send + 1) * 1024, (receive + 1) * 1024)
        start = octets.find(_IDENTIFIER, start + 1)
    return None


def agree(own: PrivateData, peer: PrivateData | None) -> Agreement:
    """Returns the largest messages and the use of remote invalidation that follow from both sides' private data.

    The results are those of the `own` side. A `peer` of None, which has sent no private data, receives and sends 1024
    octets (RFC 8797 section 5.1) without remote invalidation.
    """
    if peer is None:
        return Agreement(DEFAULT_INLINE_OCTETS, DEFAULT_INLINE_OCTETS, remote_invalidation=False)
    return Agreement(
        min(own.send_octets, peer.receive_octets),
        min(own.receive_octets, peer.send_octets),
        own.remote_invalidation and peer.remote_invalidation,
    )
