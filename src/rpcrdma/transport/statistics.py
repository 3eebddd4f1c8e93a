"""Counters of one connection, and the names that Linux has for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Final

__all__ = ["LINUX_CLIENT", "LINUX_SERVER", "TransportStatistics", "add_up", "linux_counters"]


@dataclass(slots=True)
class TransportStatistics:
    """The counters of one connection, from this side's point of view, since the connection was made.

    The same names count on both sides: a server counts the calls that it answers. A call of several forms, such as one
    with a Read chunk and a Write chunk, counts in the counter of each.
    """

    calls: int = 0
    """Calls answered or finally refused."""
    calls_short: int = 0
    """Answered calls in messages of the version that, with their replies, have no chunk but an unused Reply chunk."""
    calls_read_chunk: int = 0
    """Calls with an argument in a Read chunk."""
    calls_write_chunk: int = 0
    """Calls with a Write chunk for a result."""
    calls_long: int = 0
    """Long Calls: the call in a Position-Zero Read chunk."""
    replies_long: int = 0
    """Long Replies: the reply in the Reply chunk."""
    calls_failed: int = 0
    """Calls that ended with an RDMA_ERROR, or a reply that breaks the protocol (client)."""
    calls_abandoned: int = 0
    """Calls given up after they were sent, before their replies (client)."""
    sends: int = 0
    receives: int = 0
    rdma_reads: int = 0
    """RDMA Reads made (server)."""
    rdma_writes: int = 0
    """RDMA Writes made (server)."""
    octets_read: int = 0
    octets_written: int = 0
    registrations: int = 0
    """Memory regions exposed to the peer (client), or registered to be filled by RDMA Reads (server)."""
    device_registrations: int = 0
    """System calls by which an RDMA device registered the memory of a call or a Send; 0 without a device."""
    registrations_reused: int = 0
    """Uses of memory that the device had registered for an earlier one."""
    remote_invalidations: int = 0
    """Handles that the peer ended along with its reply (client), or that this side ended so (server)."""
    discarded: int = 0
    """Messages silently dropped, as the protocol demands."""
    errors_sent: int = 0
    """RDMA_ERROR messages sent."""
    bad_xids: int = 0
    """Replies and errors without a waiting call (client)."""
    bad_replies: int = 0
    """Replies that break the protocol, such as by chunks that do not match those of the call (client)."""
    calls_unsendable: int = 0
    """Calls that could not be put into a message (client)."""
    segments_read: int = 0
    """Segments of Read chunks offered (client)."""
    segments_write: int = 0
    """Segments of Write chunks offered (client)."""
    segments_reply: int = 0
    """Segments of Reply chunks offered (client)."""
    octets_offered: int = 0
    """Octets of Write and Reply chunks offered (client)."""
    octets_returned: int = 0
    """Octets of Write and Reply chunks that replies filled (client)."""
    reverse_calls: int = 0
    """Calls received in the reverse direction (client)."""
    messages_continued: int = 0
    """Messages that went out in several Sends."""
    pieces_sent: int = 0
    """Sends that did not end their message."""
    pieces_received: int = 0
    """Sends of the peer that did not end their message."""
    grants_sent: int = 0
    """Messages sent with nothing but credits."""
    grants_received: int = 0
    """Messages received with nothing but credits."""
    resent_long: int = 0
    """Calls that were refused and sent again with their arguments in one chunk (client)."""
    resent_without_chunks: int = 0
    """Calls that were refused and sent again without Write chunks (client)."""
    resent_in_segments: int = 0
    """Calls that were refused and sent again with fewer segments (client)."""
    resent_larger: int = 0
    """Calls that were refused and sent again with more memory for the results (client)."""
    resent_plain: int = 0
    """Calls that were refused and sent again without the extension in whose messages they had gone (client)."""
    calls_by_rdma: int = 0
    """Calls with an argument that the peer may have read by RDMA, or a result that it has written so (client)."""
    calls_by_send: int = 0
    """Calls with an argument or a result in placeable segments of receive buffers."""
    groups_sent: int = 0
    """Calls and replies sent in messages of the round-trip extension."""
    groups_received: int = 0
    """Calls and replies received in messages of the round-trip extension."""
    items_sent_in_segments: int = 0
    """Bulk items that were laid out for the segments of the peer's receive buffers."""
    items_in_segments: int = 0
    """Bulk items that arrived in segments of receive buffers; they are used there, except those in `items_joined`."""
    octets_in_segments: int = 0
    """Octets of the bulk items that arrived in segments of receive buffers."""
    items_joined: int = 0
    """Those of `items_in_segments` that had to be copied, since their segments do not follow each other in memory."""
    reports_sent: int = 0
    """Reports sent about refused transmissions of the round-trip extension."""
    reports_received: int = 0
    """Reports received about refused transmissions of the round-trip extension."""

    def counters(self) -> TransportStatistics:
        """Returns a copy of the counters alone, without what a subclass adds, such as the calls of a client."""
        return TransportStatistics(*_COUNTERS(self))


_COUNTERS: Final = attrgetter(*(field.name for field in fields(TransportStatistics)))
"""Returns all counters as a tuple; a server has thousands of them to add up in one step of its event loop."""

LINUX_CLIENT = {
    "sends": "sends",
    "recvs": "receives",
    "bad_xids": "bad_xids",
    "read_chunk": "segments_read",
    "write_chunk": "segments_write",
    "reply_chunk": "segments_reply",
    "total_rdma_request": "octets_offered",
    "total_rdma_reply": "octets_returned",
    "failed_marshal": "calls_unsendable",
    "bad_reply": "bad_replies",
    "nomsg_call": "calls_long",
    "mrs_allocated": "registrations",
    "bcall": "reverse_calls",
}
"""The names of Linux's xprtrdma (the "xprt: rdma" line of /proc/self/mountstats), and ours.

It has more (pullup_copy, hardway_register, mrs_recycled, empty_sendctx_q ...) that count what is not done here. Linux
takes memory regions from a pool, so that mrs_allocated there lags behind the number of registrations.
"""

LINUX_SERVER = {"rdma_stat_read": "rdma_reads", "rdma_stat_recv": "receives", "rdma_stat_write": "rdma_writes"}
"""The names of Linux's svcrdma (/proc/sys/sunrpc/svc_rdma), and ours."""


def linux_counters(statistics: TransportStatistics, *, server: bool = False) -> dict[str, int]:
    """Returns a dictionary of the counters that Linux has as well, by Linux's names for them.

    `statistics`: the counters. `server`: whether the names are those of svcrdma rather than of xprtrdma.
    """
    names = LINUX_SERVER if server else LINUX_CLIENT
    return {linux: getattr(statistics, own) for linux, own in names.items()}


def add_up(several: Iterable[TransportStatistics]) -> TransportStatistics:
    """Returns new statistics with the sum of each counter."""
    return TransportStatistics(*map(sum, zip(*map(_COUNTERS, several), strict=True)))
