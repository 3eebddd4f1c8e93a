"""A pair of joined queue pairs for the suite of providers, and the rules that a provider of hardware cannot keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rpcrdma.verbs.protection_domain import ProtectionDomain
from rpcrdma.verbs.queue_pair import QueuePair

__all__ = ["Deviations", "MakePair", "PairParts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviations:
    """The rules of the suite that a provider cannot keep, each with the reason; "": the provider keeps the rule.

    Where a field has a reason, the suite checks the statement under that field instead of the rule.
    """

    pads_private_data: str = ""
    """Zeros follow the peer's private data."""
    hides_faults: str = ""
    """The connection ends at both ends, each with a protocol error, except that the receiver without a posted receive,
    and the sender of an unknown handle to invalidate, may see none."""
    tells_of_no_fault: str = ""
    """A broken rule ends the connection at one end at least, and neither end need see a protocol error."""
    reads_without_right: str = ""
    """Memory that is exposed for writing can be read as well, until the exposure ends."""
    cannot_invalidate_remotely: str = ""
    """A Send with Invalidate is not delivered, and ends the connection."""
    hides_invalidation: str = ""
    """The completion of a Send with Invalidate lacks the handle, whose exposure has still ended."""
    cannot_abandon: str = ""
    """`ProtectionDomain.abandon` ends the region for good: a late Write is not discarded, but ends the connection."""


class PairParts(NamedTuple):
    """Two joined queue pairs that have not connected yet, as `MakePair` returns them for one check."""

    initiator: QueuePair
    """The queue pair that connects."""
    initiator_domain: ProtectionDomain
    """Its protection domain."""
    responder: QueuePair
    """The queue pair that is connected to."""
    responder_domain: ProtectionDomain
    """Its protection domain."""
    progress: Callable[[], object]
    """Moves data in both directions until neither side has more to send."""
    deviations: Deviations = Deviations()
    """The rules that the provider cannot keep."""


class MakePair(Protocol):
    """A function that makes a new pair of joined queue pairs, not yet connected, for one check of the suite.

    Authors of providers write such a function for their provider.

    Args:
        private_data: the initiator's octets for the responder.
        inbound_reads: the most inbound RDMA Reads of (initiator, responder).
        outbound_reads: the most outbound RDMA Reads of (initiator, responder).
    """

    def __call__(
        self,
        *,
        private_data: bytes = b"",
        inbound_reads: tuple[int, int] = (32, 32),
        outbound_reads: tuple[int, int] = (32, 32),
    ) -> PairParts: ...
