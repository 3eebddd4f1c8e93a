"""Plans how the responder must place the bulk results of a call: its directions, and the messages of the reply.

A reply is planned in as many messages as its largest size takes. So the responder does not refuse it after it has run
the call, which would then be sent again.
"""

from __future__ import annotations

from collections.abc import Sequence

from rpcrdma.rtr.config import Preference
from rpcrdma.rtr.layout import (
    CONTINUE_OCTETS,
    ITEM_OCTETS,
    LOCATION_OCTETS,
    RESPONSE_OCTETS,
    SEGMENT_OCTETS,
    GroupLayout,
    Peer,
    lay_out,
)
from rpcrdma.rtr.messages import ResultDirection, Way
from rpcrdma.transport import REPLY_ALLOWANCE_OCTETS, CallToCarry, ExtensionLink, segments_needed

__all__ = ["direct_results"]


def direct_results(
    link: ExtensionLink,
    own: Peer,
    peer: Peer,
    call: CallToCarry,
    sizes: Sequence[int],
    preference: Preference,
    promises_left: int,
) -> tuple[Sequence[ResultDirection] | None, int]:
    """Plans the directions for the results of a call: how the responder must place each bulk item of the reply.

    Returns the directions, and the most messages (transmissions) of the reply beyond the first one. The directions are
    None if the call should travel without the extension.

    Args:
        link: the extension on the connection.
        own: the abilities of this end.
        peer: the abilities of the other end.
        call: the call.
        sizes: the most octets of each result item that gets a direction; further items stay in the payload stream.
        preference: the placement.
        promises_left: the most credits that can be promised for further messages of the reply.
    """
    if not sizes:
        return (), 0
    if not own.takes_responses or not peer.responses_max:
        # A reply follows directions only in a Transmit Response.
        return None, 0
    limits = call.limits
    least, segment_max = limits.direct_octets_min, limits.segment_octets_max
    frames_max = min(peer.response_frames(own), 1 + max(0, promises_left))
    rest = REPLY_ALLOWANCE_OCTETS + call.results + sum((size + 3) & ~3 for size in call.result_items[len(sizes) :])

    def laid_out(items: tuple[int, ...], locations: int, stream: int = 0) -> GroupLayout | None:
        """Lays out a reply: `items` in segments, `locations` octets of locations, `stream` of others; None: no room."""
        return lay_out(
            link.prefix_octets + RESPONSE_OCTETS + ITEM_OCTETS * len(sizes) + locations,
            link.prefix_octets + CONTINUE_OCTETS,
            rest + stream,
            items,
            own.runs,
            min(link.receive_octets, own.octets),
            frames_max,
        )

    layout = None
    segments = sum(segments_needed(size, segment_max) for size in sizes)
    in_segments = LOCATION_OCTETS * len(sizes)
    if preference is not Preference.EXPLICIT and own.runs:
        layout = laid_out(tuple(size for size in sizes if size), in_segments)
        exposable = segments <= limits.segments_max
        if layout is not None and not (preference is Preference.BY_SIZE and exposable):
            way = Way.CHOICE if preference is Preference.CHOICE and exposable else Way.SEGMENTS
            return [ResultDirection(least, way)] * len(sizes), len(layout.frames) - 1
        if preference is Preference.AUTO:
            return None, 0
        # One buffer is left for the header and the rest of the reply.
        each = sum(run.octets * run.count for run in own.runs)
        threshold = each * max(1, frames_max - 1)
        one = len(sizes) == 1 and threshold > least
        if layout is not None or (one and laid_out((threshold - 1,), in_segments) is not None):
            most = [threshold] if layout is None else [min(threshold, size) for size in sizes]
            return [ResultDirection(least, Way.BY_SIZE, explicit_from=octets) for octets in most], frames_max - 1
    # Items that are too short for a direction stay in the stream.
    short = sum((min(size, least) + 3) & ~3 for size in sizes)
    layout = laid_out((), 4 * len(sizes) + SEGMENT_OCTETS * segments, short)
    if layout is None:
        return None, 0
    return [ResultDirection(least, Way.EXPLICIT)] * len(sizes), len(layout.frames) - 1
