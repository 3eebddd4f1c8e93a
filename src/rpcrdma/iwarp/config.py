"""Settings of the software RNIC."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["READS_MAX", "ULPDU_OCTETS_MAX", "ULPDU_OCTETS_MIN", "IwarpConfig", "MpaRole", "ReadyFrame"]

READS_MAX = 0x3FFE
"""The largest read queue depth that enhanced set-up can name; 0x3FFF means "not negotiated" (RFC 6581 section 9.1)."""

ULPDU_OCTETS_MIN = 128
ULPDU_OCTETS_MAX = 64768
"""The range of MULPDU (RFC 5044 section 3)."""


class MpaRole(enum.Enum):
    """The role in MPA start-up (RFC 5044 section 7.1.2): the initiator sends the Request, the responder the Reply.

    The role does not depend on which end opened the TCP connection.
    """

    INITIATOR = "initiator"
    RESPONDER = "responder"


class ReadyFrame(enum.IntFlag):
    """The kinds of ready-to-receive (RTR) frame of the peer-to-peer model (RFC 6581 section 9.2)."""

    SEND = 1
    WRITE = 2
    READ = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class IwarpConfig:
    """Settings of the software RNIC, for one end of a connection.

    Raises:
        ValueError: a setting is out of its range, or contradicts another.

    Args:
        crc: demand CRC-32C. Turn it off only where another layer protects the octets as well (RFC 5044 section 4.4);
            the peer can still demand it.
        enhanced: use enhanced set-up (RFC 6581), which agrees on read queue depths; without it an initiator speaks
            revision 1, and a responder ends the connection at an enhanced Request.
        inbound_reads: RDMA Reads that the peer may have outstanding (IRD), 0 to 16382.
        outbound_reads: RDMA Reads that this side may have outstanding (ORD), 0 to 16382.
        peer_to_peer: as initiator, ask for the model in which the responder may send first; needs `enhanced`.
        ready_frames: the RTR frames supported, at least one (RFC 6581 section 9.2).
        flush_each_message: send octets of one message alone in each system call, so that a capture shows messages one
            by one; the native module then neither sends nor receives.
        startup_timeout_s: time limit of the whole start-up, in seconds, the time until `accept` and that of the Reply
            included.
        first_send_pause_s: pause of an initiator, in seconds, between the peer's Reply and its own first message; 0 for
            none. Linux siw may overlook a message that arrives before it has taken up the connection, until another one
            arrives: every tenth first call would hang. The pause is for all peers, as siw looks like any other RNIC.
            2 ms were enough in every trial; the default of 3 ms allows for coarse timers.
        nudge_after_s: seconds without an answer to its first message after which an initiator sends an RDMA Write of no
            octets, and again after each doubling of that time; 0 for never. On a loaded machine no pause is always
            long enough; when such a Write arrives, siw reads the message before it, too.
    """

    crc: bool = True
    enhanced: bool = True
    inbound_reads: int = 32
    outbound_reads: int = 32
    peer_to_peer: bool = False
    ready_frames: ReadyFrame = ReadyFrame.SEND | ReadyFrame.WRITE | ReadyFrame.READ
    flush_each_message: bool = False
    startup_timeout_s: float = 10.0
    first_send_pause_s: float = 0.003
    nudge_after_s: float = 0.03

    def __post_init__(self) -> None:
        for name, depth in (("inbound_reads", self.inbound_reads), ("outbound_reads", self.outbound_reads)):
            if not 0 <= depth <= READS_MAX:
                raise ValueError(f"{name} is {depth}, not within 0 to {READS_MAX}")
        if not self.startup_timeout_s > 0:
            raise ValueError(f"startup_timeout_s is {self.startup_timeout_s}, not above 0")
        if not 0 <= self.first_send_pause_s < self.startup_timeout_s:
            raise ValueError(f"first_send_pause_s is {self.first_send_pause_s}, not within 0 to startup_timeout_s")
        if not self.nudge_after_s >= 0:
            raise ValueError(f"nudge_after_s is {self.nudge_after_s}, below 0")
        if not self.ready_frames:
            raise ValueError("ready_frames is empty: peer-to-peer set-up needs at least one (RFC 6581 section 9.2)")
        if self.peer_to_peer and not self.enhanced:
            raise ValueError("peer_to_peer needs enhanced set-up (RFC 6581 section 9.2)")
