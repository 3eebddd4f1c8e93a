"""What the two sides of an RDMA connection have agreed on."""

from __future__ import annotations

from dataclasses import dataclass

from rpcrdma.rpc.host_identity import HostIdentity

__all__ = ["Negotiated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Negotiated:
    """What the two sides of a connection have agreed on, as this side sees it now."""

    version: int
    """Of RPC-over-RDMA."""
    dialect: str
    """Its name, which tells drafts of one version apart."""
    provider: str
    inline_send_octets: int
    inline_receive_octets: int
    credits_requested: int
    credits_granted: int
    remote_invalidation: bool
    crc: bool
    inbound_reads: int
    outbound_reads: int
    host_identity: HostIdentity | None
    """Which host the peer has proved to be; None if it was not asked to."""
