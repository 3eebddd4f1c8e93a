"""What a user may set for the round-trip extension."""

from __future__ import annotations

from dataclasses import dataclass, field

from rpcrdma.limits import RTR_TRANSMISSIONS_MAX
from rpcrdma.rtr.choice import Costs, Preference
from rpcrdma.rtr.code_points import Support
from rpcrdma.rtr.properties import BufferStructure, SegmentKind

__all__ = ["RoundTripConfig"]

_HEAD_OCTETS_MIN = 1024
"""Of the first segment: a header with many segments, and the payload of the usual call or reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTripConfig:
    """For all connections of a client or a server. `support` is what this side takes, and says that it takes."""

    preference: Preference = Preference.AUTO
    """Client: which way bulk data goes where a call does not say."""
    support: Support = Support.REQUEST | Support.RESPONSE | Support.CONTINUE
    segment_octets: int = 4096
    """Of a placeable segment: a page, so that what is in it can be handed on as pages. 0 for buffers without any."""
    requests_max: int = RTR_TRANSMISSIONS_MAX
    """Server: transmissions of the longest request that it takes."""
    responses_max: int = RTR_TRANSMISSIONS_MAX
    """Server: transmissions of the longest response that it sends."""
    promises_max: int = 256
    """Client: receives that replies may take beyond the first one of each, at once."""
    costs: Costs = field(default_factory=Costs)

    def __post_init__(self) -> None:
        if self.segment_octets & (self.segment_octets - 1):
            raise ValueError("segment_octets must be 0 or a power of two")
        for name in ("requests_max", "responses_max"):
            if not 1 <= getattr(self, name) <= RTR_TRANSMISSIONS_MAX:
                raise ValueError(f"{name} must be from 1 to {RTR_TRANSMISSIONS_MAX}")
        if not 0 <= self.promises_max <= 4096:
            raise ValueError("promises_max must be from 0 to 4096")

    def structure(self, octets: int) -> BufferStructure:
        """Receive buffers of so many octets: a segment for headers, the rest in pages."""
        count = max(0, octets - _HEAD_OCTETS_MIN) // self.segment_octets if self.segment_octets else 0
        if not count:
            return BufferStructure.plain(octets)
        head = octets - count * self.segment_octets
        return BufferStructure(
            octets,
            (
                (1, SegmentKind(head, 0, placeable=False)),
                (count, SegmentKind(self.segment_octets, self.segment_octets, placeable=True)),
            ),
        )
