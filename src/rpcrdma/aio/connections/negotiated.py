"""The terms on which both sides of an RDMA connection have agreed, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rpcrdma.aio.drivers.provider import Terms
from rpcrdma.rpc.host_identity import HostIdentity
from rpcrdma.transport import Endpoint, ExtensionLink, Properties

__all__ = ["ExtensionProperties", "Negotiated", "PropertyValue", "by_name", "negotiated"]

PropertyValue: TypeAlias = int | str | bool
"""Value of a transport property: octets or a count, the name of a level, or whether host authentication is offered."""
ExtensionProperties: TypeAlias = dict[str, dict[str, int | str] | None]
"""The properties of an extension that this end ("own") and the peer ("peer") sent; None for an end that sent none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Negotiated:
    """The terms on which both sides of an RDMA connection agreed, as this side knew them when it made this object."""

    version: int
    """Version of RPC-over-RDMA."""
    provider: str
    """Name of the provider, such as "iwarp"."""
    device: str | None
    """The RDMA device of this end; None for providers without devices."""
    inline_send_octets: int
    """Octets of the largest message that this side sends."""
    inline_receive_octets: int
    """Octets of the largest message that this side receives."""
    credits_requested: int
    """Calls in flight that this side, as a client, asks for (`TransportConfig`); says nothing at a server."""
    credits_granted: int
    """Calls in flight that the server permitted when this object was made; later replies may permit other numbers."""
    remote_invalidation: bool
    """Whether both sides permit remote invalidation (RFC 8797 section 4.1); in version 2, whether this side does."""
    crc: bool
    """Whether CRCs protect the octets on the wire."""
    inbound_reads: int
    """RDMA Reads that the peer may have outstanding (IRD)."""
    outbound_reads: int
    """RDMA Reads that this side may have outstanding (ORD)."""
    reverse_credits_granted: int
    """Calls of the server in flight that the client permits; 0 if the client takes none."""
    own_properties: dict[str, PropertyValue] | None
    """The transport properties that this side sent, by name; None in versions without properties."""
    peer_properties: dict[str, PropertyValue] | None
    """The transport properties that the peer sent, by name; None if it sent none."""
    extensions: dict[str, ExtensionProperties]
    """By extension: the properties of both ends; empty in versions without properties."""
    round_trip_s: float | None
    """Seconds of the round trip to the peer, as the provider measured it at set-up; None if it cannot measure it."""
    host_identity: HostIdentity | None
    """The host identity that the peer has proved; None without a proof."""


def negotiated(
    endpoint: Endpoint, terms: Terms, provider: str, round_trip_s: float | None, host_identity: HostIdentity | None
) -> Negotiated:
    """Returns the present version, message sizes, credits, properties and other terms of the connection of `endpoint`.

    Args:
        endpoint: this end of the RPC-over-RDMA protocol.
        terms: checksum, limits of RDMA Reads and device, as the providers of both ends have agreed.
        provider: the provider's name.
        round_trip_s: the shortest round trip in seconds; None: unknown.
        host_identity: the host identity that the peer has proved; None: none.
    """
    return Negotiated(
        version=endpoint.version,
        provider=provider,
        device=terms.device,
        inline_send_octets=endpoint.inline_send_octets,
        inline_receive_octets=endpoint.inline_receive_octets,
        credits_requested=endpoint.credits_requested,
        credits_granted=endpoint.credits_granted,
        remote_invalidation=endpoint.remote_invalidation,
        crc=terms.crc,
        inbound_reads=terms.inbound_reads,
        outbound_reads=terms.outbound_reads,
        reverse_credits_granted=endpoint.reverse_credits_granted,
        own_properties=by_name(endpoint.own_properties),
        peer_properties=by_name(endpoint.peer_properties),
        extensions={} if endpoint.own_properties is None else _of_extensions(endpoint.extensions),
        round_trip_s=round_trip_s,
        host_identity=host_identity,
    )


def by_name(properties: Properties | None) -> dict[str, PropertyValue] | None:
    """Returns transport properties by field name; None for None.

    `reverse` is given as text, and `host_authentication` as a bool: whether it is offered.
    """
    if properties is None:
        return None
    return properties._asdict() | {
        "reverse": properties.reverse.value,
        "host_authentication": properties.host_authentication is not None,
    }


def _of_extensions(links: Mapping[str, ExtensionLink]) -> dict[str, ExtensionProperties]:
    """Returns, by extension name, the properties that this end ("own") and the peer ("peer") sent.

    The properties of an end are a dictionary by name, or None if it sent none.
    """
    return {name: {"own": _named(link.own_shown), "peer": _named(link.peer_shown)} for name, link in links.items()}


def _named(shown: dict[str, int | str]) -> dict[str, int | str] | None:
    return {name.lower().replace(" ", "_"): value for name, value in shown.items()} or None
