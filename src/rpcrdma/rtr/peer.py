"""The abilities of both ends: the messages that they may send each other (sections 5 and 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rpcrdma.limits import RTR_TRANSMISSIONS_MAX
from rpcrdma.rtr.layout import Run, runs_of
from rpcrdma.rtr.properties import (
    RECEIVE_STRUCTURE,
    REQUEST_RECEIVE_LIMIT,
    REQUEST_RECEIVE_LIMIT_DEFAULT,
    RESPONSE_SEND_LIMIT,
    RESPONSE_SEND_LIMIT_DEFAULT,
    RTR_SUPPORT,
    SUPPORT_DEFAULT,
    Support,
)

__all__ = ["Peer", "peer_of"]

_UNTOLD_OCTETS = (1 << 32) - 1
"""Without a structure only the receive buffer size of version 2 bounds a transmission."""


class Peer(NamedTuple):
    """The abilities of one end.

    `octets` is the length of its receive buffers by their structure, `runs` are their placeable segments. It takes
    requests of up to `requests_max` transmissions and sends responses of up to `responses_max`.
    """

    support: Support
    octets: int
    runs: tuple[Run, ...]
    requests_max: int
    responses_max: int

    @property
    def takes_requests(self) -> bool:
        """Whether it takes Transmit Request, and answers it as directed."""
        return Support.REQUEST in self.support and self.requests_max > 0

    @property
    def takes_responses(self) -> bool:
        """Whether it takes Transmit Response."""
        return Support.RESPONSE in self.support

    @property
    def request_frames(self) -> int:
        """The transmissions of the longest request that it takes."""
        return self.requests_max if Support.CONTINUE in self.support else 1

    def response_frames(self, receiver: Peer) -> int:
        """The transmissions of the longest response that it sends and `receiver` takes; 0 if it sends none."""
        return self.responses_max if Support.CONTINUE in receiver.support else min(1, self.responses_max)


def peer_of(told: Mapping[int, Any]) -> Peer:
    """Derives the abilities of a peer from its properties."""
    structure = told.get(RECEIVE_STRUCTURE)
    return Peer(
        told.get(RTR_SUPPORT, SUPPORT_DEFAULT),
        _UNTOLD_OCTETS if structure is None else structure.octets,
        () if structure is None else runs_of(structure),
        min(told.get(REQUEST_RECEIVE_LIMIT, REQUEST_RECEIVE_LIMIT_DEFAULT), RTR_TRANSMISSIONS_MAX),
        min(told.get(RESPONSE_SEND_LIMIT, RESPONSE_SEND_LIMIT_DEFAULT), RTR_TRANSMISSIONS_MAX),
    )
