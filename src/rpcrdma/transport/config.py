"""The settings of the transport."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from rpcrdma import limits
from rpcrdma.transport.private_data import (
    DEFAULT_INLINE_OCTETS,
    INLINE_OCTETS_MAX,
    PrivateData,
    encode_private_data,
)

__all__ = ["OFFERED_OCTETS_MIN", "ReverseSupport", "Role", "TransportConfig"]

OFFERED_OCTETS_MIN = 4096
"""The largest message, in octets, that every peer receives before it has sent its transport properties."""

_WORD_MAX = (1 << 32) - 1
"""The largest number in a word of a header: credits, and the length of a segment."""


class Role(enum.Enum):
    """The role of one end of a connection: client or server."""

    CLIENT = "client"
    """The active opener: requester in the forward direction."""
    SERVER = "server"
    """The passive end: responder in the forward direction."""


class ReverseSupport(enum.Enum):
    """The means that calls from server to client (the reverse direction) and their replies may use."""

    NONE = "none"
    """No calls."""
    INLINE = "inline"
    """Calls and replies without chunks, in one message each."""
    GENERAL = "general"
    """Calls and replies with all means of the forward direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportConfig:
    """Settings of RPC-over-RDMA for one connection; sizes are in octets.

    Raises:
        ValueError: a setting is out of its range.
    """

    inline_send_octets: int = 36864
    """The largest message sent in version 1, whose peers exchange message sizes as private data (RFC 8797). A multiple
    of 1024, at most 262144. Linux sends and receives 4096, and the smaller size of both ends holds."""
    inline_receive_octets: int = 36864
    """The size of receive buffers in version 1, and so the largest message received. A multiple of 1024, at most
    262144."""
    offered_send_octets: int = 36864
    """The largest message sent in versions whose peers exchange message sizes as transport properties; 4096 to 262144.

    32 KiB of data and all headers fit in one message, which costs 20 to 35 % less processor time than RDMA. Larger
    messages would save 15 to 30 % for 64 KiB, too, but half as many would fit into `limits.GRANTED_OCTETS_MAX`."""
    offered_receive_octets: int = 36864
    """The size of receive buffers in such versions; 4096 to 262144."""
    in_messages_octets_max: int | None = None
    """The most octets, headers included, of a call or a reply that travels in messages although RDMA could move items
    of it; for versions with transport properties, which continue what is longer than one message in further ones.
    None: up to the length at which messages cost as much as RDMA (docs/versions.md, `rpcrdma.transport.plan_call`):
    one message for a reply with bulk results, several for a call or another reply."""
    credits_requested: int = 256
    """Calls that a client wants to have in flight; a Linux server grants 64."""
    credits_granted: int = 128
    """Calls that a server takes at once; a Linux client requests 128. Version 2 takes fewer if messages of so many
    calls could have more than `limits.GRANTED_OCTETS_MAX` octets."""
    reverse_credits_requested: int = 16
    """Server: calls to the client that it wants to have in flight on a client's connection."""
    reverse_credits_granted: int = 16
    """Client: calls of the server that it takes at once if it offers services; a Linux client takes 16."""
    reverse_chunks: bool = False
    """Version 1: whether this side uses and takes chunks in the reverse direction (RFC 8167 section 5.3), unlike Linux.

    Without them a client answers a reverse call that has some with ERR_CHUNK, and a server's reverse calls and their
    replies must fit inline.
    """
    segment_octets_max: int = 1 << 20
    """The largest segment of an exposed region; 1 MiB is the most that Linux registers at once."""
    read_chunks_max: int = limits.READ_CHUNKS_MAX - 1
    """The most arguments of one call, the largest first, in Read chunks of their own. The others stay in the stream,
    which has a further Read chunk if it is too long for a message."""
    remote_invalidation: bool = True
    """Whether the peer's replies may invalidate this side's memory (RFC 8797 section 4.1), and this side's replies
    the peer's."""
    call_octets_pulled_max: int = limits.CALL_OCTETS_PULLED_MAX
    """Octets of all Read chunks of one call that this side takes; a larger call is refused (version 1: ERR_CHUNK)."""
    reply_octets_max: int = limits.REPLY_OCTETS_MAX
    """The most octets that a call offers for its result, and for each directly placed item without memory of the
    caller, if the program's definition permits more. In version 1, larger results are refused with ERR_CHUNK."""
    stalled_s: float = limits.RDMA_STALLED_S
    """Seconds within which a peer must answer the RDMA Reads of one call, complete a message that it sends in
    pieces, and take a reply; else the connection is aborted, in any case within twice this time."""

    def __post_init__(self) -> None:
        for name in ("inline_send_octets", "inline_receive_octets"):
            if not DEFAULT_INLINE_OCTETS <= getattr(self, name) <= INLINE_OCTETS_MAX:
                raise ValueError(f"{name} must be from {DEFAULT_INLINE_OCTETS} to {INLINE_OCTETS_MAX}")
            if getattr(self, name) % 1024:
                raise ValueError(f"{name} must be a multiple of 1024")
        for name in ("offered_send_octets", "offered_receive_octets"):
            if not OFFERED_OCTETS_MIN <= getattr(self, name) <= INLINE_OCTETS_MAX:
                raise ValueError(f"{name} must be from {OFFERED_OCTETS_MIN} to {INLINE_OCTETS_MAX}")
        for name in (
            "credits_requested",
            "credits_granted",
            "reverse_credits_requested",
            "reverse_credits_granted",
            "segment_octets_max",
        ):
            if not 1 <= getattr(self, name) <= _WORD_MAX:
                raise ValueError(f"{name} must be from 1 to {_WORD_MAX}")
        for name in ("call_octets_pulled_max", "reply_octets_max"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in ("in_messages_octets_max", "read_chunks_max"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"{name} must be at least 0")
        if not self.stalled_s > 0:
            raise ValueError("stalled_s must be more than 0")

    @property
    def abilities(self) -> PrivateData:
        """This side's private data (RFC 8797): remote invalidation and the largest messages of version 1."""
        return PrivateData(self.remote_invalidation, self.inline_send_octets, self.inline_receive_octets)

    def private_data(self) -> bytes:
        """Returns this side's encoded private data (RFC 8797), to pass on when the queue pair connects or accepts."""
        return encode_private_data(self.abilities)
