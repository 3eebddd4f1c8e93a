"""Decides how a call travels, and the memory that it offers to its reply (RFC 8166 sections 3.4, 3.5 and 4.3).

Reply space; the first match decides:

1. The largest reply fits one message: nothing is offered.
2. The reply may have items worth placing: a Write chunk for each of them.
3. The rest of the reply does not fit a message: a Reply chunk for the rest.

Call; the first match decides:

1. It fits inline: in one message, or in as many messages as cost less than RDMA.
2. It fits without its largest items: Read chunks for those.
3. Otherwise it is long: a Position-Zero Read chunk for the stream, further Read chunks for items worth it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma import limits
from rpcrdma.errors import LocalProtocolError
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.transport.chunks import segments_needed
from rpcrdma.transport.dialects.dialect import Geometry

__all__ = [
    "DIRECT_OCTETS_MIN",
    "PLAIN",
    "REPLY_ALLOWANCE_OCTETS",
    "CallPlan",
    "PlanLimits",
    "cheap_call_octets",
    "cheap_reply_octets",
    "check_one_message",
    "plan_call",
    "plan_far_call",
]

REPLY_ALLOWANCE_OCTETS = 32
"""The octets of a reply besides its results: the RPC reply header with an empty verifier, 24 octets (RFC 5531 section
9), and the two words that PROG_MISMATCH adds. Every refusal of RPC fits."""

_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""

DIRECT_OCTETS_MIN = 1024
"""Smaller items stay in the stream even where that travels in a chunk: a copy costs less than a registration."""

_CALL_MESSAGES_MAX = 3
"""The messages in which a call takes no more processor time than with an argument that is read by RDMA, also with other
calls in flight; in fewer messages it takes less, and it saves a round trip. In five messages it takes more. A reply in
two messages takes 5 to 20 % more than a result that is placed by RDMA Write. See docs/versions.md."""

_REPLY_MESSAGES_MAX = 2
"""The messages in which a reply whose items are not placed costs as much as in a Reply chunk, and half as much if it is
shorter than it could be, as most are: nothing is registered. See docs/versions.md."""

_REPLY_IN_MESSAGES_OCTETS = 12 << 10
"""The octets of a reply that cost no more in three messages of 4 KiB than in a Reply chunk."""

_CALL_IN_MESSAGES_OCTETS_MAX = (128 << 10) + 4096
"""A WRITE of 128 KiB. The cost of joining the pieces grows with the length of a call: at 256 KiB two large pieces cost
about as much as RDMA."""

_FURTHER_MESSAGE_S = 100e-6
"""The distance that pays for one more message. A message of 36 KiB takes a quarter of that in processor time, at both
ends together. A round trip within one machine is shorter, also on a slow and busy one."""

_FURTHER_MESSAGES_MAX = 5
"""With all of them a call has at most 288 KiB. As many of these as a server's credits allow fit into the message memory
of a connection (`limits.CONNECTION_MESSAGE_OCTETS_MAX`), beyond which calls are refused, not queued."""

_PLANS_KEPT = 512
"""Calls of one program have few different sizes, and a plan takes some hundred octets."""

_FURTHER_MESSAGE_OCTETS = 32_000
"""The octets of a call that each further message carries, independent of the message size."""


class PlanLimits(NamedTuple):
    """The limits by which a requester plans its calls. The lengths of messages are in octets and include headers.

    A reply without items that are worth a chunk needs no Reply chunk up to the largest of `receive_octets`,
    `reply_octets_max` and `reply_continued_octets_max`.

    Attributes:
        send_octets, receive_octets: the largest messages.
        segment_octets_max: the octets of the largest segment of a chunk.
        direct_octets_min: the octets from which on an item is worth a chunk.
        read_chunks_max: the most arguments of a call in Read chunks of their own; one more chunk may have the rest.
        geometry: the header sizes of the protocol version, from which the lengths of headers are computed.
        call_octets_max: the longest call that travels without chunks although RDMA could move its items; it is
            `send_octets` in a version that cannot continue a message in further Sends.
        reply_octets_max: the same for replies; it is `receive_octets` in such a version.
        segments_max: the most segments that the peer takes in one header.
        write_chunks_max: the most Write chunks of a call.
        reply_continued_octets_max: the longest reply that costs no more in further Sends than in a Reply chunk
            (`cheap_reply_octets`); 0 if the version cannot continue messages, or if
            `TransportConfig.in_messages_octets_max` is set.
    """

    send_octets: int
    receive_octets: int
    segment_octets_max: int
    direct_octets_min: int
    read_chunks_max: int
    geometry: Geometry
    call_octets_max: int
    reply_octets_max: int
    segments_max: int
    write_chunks_max: int = limits.WRITE_CHUNKS_MAX
    reply_continued_octets_max: int = 0


class CallPlan(NamedTuple):
    """The chunks of one call, as decided by `plan_call`; a call without RDMA has the plan PLAIN.

    `long`: a Position-Zero Read chunk has the whole stream. `read_items`: indices, ascending, of the argument items in
    Read chunks of their own. `write_chunks`: octets of each Write chunk, 0 for an empty one. `reply_chunk`: octets of
    the Reply chunk, 0 for none.
    """

    long: bool = False
    read_items: tuple[int, ...] = ()
    write_chunks: tuple[int, ...] = ()
    reply_chunk: int = 0


PLAIN = CallPlan()
"""The plan of every call that uses no RDMA."""


def cheap_call_octets(send_octets: int, geometry: Geometry, round_trip_s: float = 0.0) -> int:
    """Returns the octets of the longest call, headers included, that costs less in continued messages than by RDMA.

    `send_octets`: the largest message. `geometry`: the header sizes of the protocol version. `round_trip_s`: the
    seconds of a round trip to the peer, which an RDMA Read costs; 0 if unknown.
    """
    further = min(int(round_trip_s / _FURTHER_MESSAGE_S), _FURTHER_MESSAGES_MAX)
    more = (_CALL_MESSAGES_MAX + further - 1) * (send_octets - geometry.piece_header)
    return min(send_octets + more, _CALL_IN_MESSAGES_OCTETS_MAX + further * _FURTHER_MESSAGE_OCTETS)


def cheap_reply_octets(receive_octets: int, geometry: Geometry) -> int:
    """Returns the octets of the longest reply, headers included, that costs no more in continued messages than by RDMA.

    By RDMA means in a Reply chunk. draft-ietf-nfsv4-rpcrdma-version-two-00 appendix A.2 wants small and moderate
    replies to be continued. `receive_octets`: the largest message. `geometry`: the header sizes of the protocol
    version.
    """
    in_messages = receive_octets + (_REPLY_MESSAGES_MAX - 1) * (receive_octets - geometry.piece_header)
    return max(in_messages, _REPLY_IN_MESSAGES_OCTETS)


def check_one_message(octets: int, bound: ReplyBound, plan_limits: PlanLimits) -> None:
    """Checks that a call of `octets`, and its largest reply by `bound`, fit one message each, without chunks.

    Raises:
        LocalProtocolError: one of them does not.
    """
    most_sent, most_received = plan_limits.send_octets, plan_limits.receive_octets
    call_octets = plan_limits.geometry.call_header + octets
    reply_octets = plan_limits.geometry.reply_header + REPLY_ALLOWANCE_OCTETS + bound.results
    reply_octets += sum((length + 3) & ~3 for length in bound.items)
    if call_octets > most_sent or reply_octets > most_received:
        raise LocalProtocolError(
            f"a call of {call_octets} octets with a reply of up to {reply_octets} needs chunks: without them the "
            f"limits are {most_sent} and {most_received}"
        )


@functools.lru_cache(_PLANS_KEPT)
def plan_call(
    reduced: int, items: tuple[int, ...], results: int, result_items: tuple[int, ...], plan_limits: PlanLimits
) -> CallPlan:
    """Plans the chunks of a call; the plans for the sizes of recent calls are cached.

    Returns the plan, PLAIN if the call needs no chunk: the items in Read chunks, and the sizes of the other chunks. The
    chunks may have more segments than the peer takes in one header.

    Args:
        reduced: octets of the call without its bulk items.
        items: octets of each bulk item, without padding.
        results: the most octets of the encoded result without bulk items (`ReplyBound.results`).
        result_items: the most octets of each DDP-eligible result.
        plan_limits: the limits that the peers' agreement and the user's settings make.
    """
    writes, reply_chunk = _plan_reply_space(results, result_items, plan_limits)
    segment_max = plan_limits.segment_octets_max
    geometry = plan_limits.geometry
    header = geometry.call_header
    for size in writes:
        header += geometry.write_chunk + geometry.segment * segments_needed(size, segment_max)
    if reply_chunk:
        header += geometry.reply_chunk + geometry.segment * segments_needed(reply_chunk, segment_max)

    total = header + reduced
    for length in items:
        total += (length + 3) & ~3
    widest = plan_limits.call_octets_max
    worth_it: list[int] = []
    if total > widest:
        worth_it = [index for index, length in enumerate(items) if length and length >= plan_limits.direct_octets_min]
    widest = max(widest, plan_limits.send_octets)
    if total <= widest and not worth_it:
        return _tuple(CallPlan, (False, (), writes, reply_chunk)) if writes or reply_chunk else PLAIN

    if len(worth_it) > 1:
        worth_it.sort(key=items.__getitem__, reverse=True)
    del worth_it[plan_limits.read_chunks_max :]
    for count, index in enumerate(worth_it, 1):
        total -= (items[index] + 3) & ~3
        total += geometry.read_segment * segments_needed(items[index], segment_max)
        if total <= widest:
            return CallPlan(read_items=tuple(sorted(worth_it[:count])), write_chunks=writes, reply_chunk=reply_chunk)
    return CallPlan(long=True, read_items=tuple(sorted(worth_it)), write_chunks=writes, reply_chunk=reply_chunk)


def plan_far_call(
    plan: CallPlan,
    reduced: int,
    items: tuple[int, ...],
    results: int,
    result_items: tuple[int, ...],
    far_limits: PlanLimits,
    balance: int,
) -> CallPlan:
    """Returns the plan of a call to a peer so distant that an RDMA Read takes longer than a few further messages.

    It is the plan by `far_limits`, which permit longer calls in several messages, with two exceptions. It is `plan` if
    the plan by `far_limits` has a Position-Zero Read chunk; or if that has no Read chunk, and an upper estimate of its
    messages exceeds `balance`.

    `plan`: the plan of `plan_call` without regard to the distance. `reduced` to `result_items`: the same sizes, in
    octets, as given to `plan_call`. `far_limits`: the limits with regard to the distance. `balance`: the messages that
    credits allow at present.
    """
    better = plan_call(reduced, items, results, result_items, far_limits)
    if better.long:
        return plan
    if not better.read_items:
        # To wait for credits takes a round trip, too. With the header there may be a message more.
        octets = reduced
        for length in items:
            octets += (length + 3) & ~3
        if octets // (far_limits.send_octets - far_limits.geometry.piece_header) + 2 > balance:
            return plan
    return better


def _plan_reply_space(
    results: int, result_items: Sequence[int], plan_limits: PlanLimits
) -> tuple[tuple[int, ...], int]:
    geometry = plan_limits.geometry
    stream = whole = REPLY_ALLOWANCE_OCTETS + results
    for length in result_items:
        whole += (length + 3) & ~3
    widest = plan_limits.reply_octets_max
    if geometry.reply_header + whole <= widest:
        return (), 0
    widest = max(widest, plan_limits.receive_octets)
    # Chunks pair with items in order, so small items before the last large one get a chunk as well.
    direct = 0
    for index, length in enumerate(result_items[: plan_limits.write_chunks_max], 1):
        if length and length >= plan_limits.direct_octets_min:
            direct = index
    if not direct:
        widest = max(widest, plan_limits.reply_continued_octets_max)
        return (), whole if geometry.reply_header + whole > widest else 0
    writes = tuple(result_items[:direct])
    for length in result_items[direct:]:
        stream += (length + 3) & ~3
    echoed = 0
    for size in writes:
        echoed += geometry.write_chunk + geometry.segment * segments_needed(size, plan_limits.segment_octets_max)
    if geometry.reply_header + echoed + stream <= widest:
        return writes, 0
    return writes, stream
