"""A pair of joined queue pairs for the suite of providers, and the rules that a provider of hardware cannot keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rpcrdma.verbs.memory import ProtectionDomain
from rpcrdma.verbs.queue_pair import QueuePair

__all__ = ["Deviations", "MakePair", "PairParts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviations:
    """The rules that a provider cannot keep, each with the reason. An empty reason means that the rule is kept.

    The suite then checks the statement of the field in place of the rule.
    """

    pads_private_data: str = ""
    """Zeros follow the private data that the peer gave."""
    hides_faults: str = ""
    """The connection ends at both ends, and one of them may be told of no protocol error: the receiver for which no
    receive was posted, and the sender that names a handle to be invalidated in vain."""
    tells_of_no_fault: str = ""
    """A broken rule ends the connection at one end at least, and neither of them may be told of a protocol error."""
    reads_without_right: str = ""
    """Memory that may only be written can be read as well, until it ends."""
    cannot_invalidate_remotely: str = ""
    """A Send with Invalidate is not delivered, and ends the connection."""
    hides_invalidation: str = ""
    """The completion of a Send with Invalidate names no handle, which has ended all the same."""
    cannot_abandon: str = ""
    """`abandon` ends the region for good: a Write to it ends the connection."""


class PairParts(NamedTuple):
    """Two joined queue pairs that have not connected yet."""

    initiator: QueuePair
    initiator_domain: ProtectionDomain
    responder: QueuePair
    responder_domain: ProtectionDomain
    progress: Callable[[], object]
    """Moves data in both directions until neither side has any left to send."""
    deviations: Deviations = Deviations()


class MakePair(Protocol):
    """Makes a fresh pair.

    `private_data` is the initiator's; the limits of outstanding RDMA Reads are those of (initiator, responder).
    """

    def __call__(
        self,
        *,
        private_data: bytes = b"",
        inbound_reads: tuple[int, int] = (32, 32),
        outbound_reads: tuple[int, int] = (32, 32),
    ) -> PairParts: ...
