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
"""Octets, a number, a level by its name, or whether there is host authentication."""
ExtensionProperties: TypeAlias = dict[str, dict[str, int | str] | None]
"""What this end ("own") and the other one ("peer") told of themselves; None of an end that told nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Negotiated:
    """The terms on which both sides of a connection have agreed, as this side sees them now."""

    version: int
    """Of RPC-over-RDMA."""
    provider: str
    device: str | None
    """The RDMA device of this end; None of a provider without."""
    inline_send_octets: int
    inline_receive_octets: int
    credits_requested: int
    credits_granted: int
    remote_invalidation: bool
    crc: bool
    inbound_reads: int
    outbound_reads: int
    reverse_credits_granted: int
    """As `credits_granted`, of calls that the server makes; 0 where the client takes none."""
    own_properties: dict[str, PropertyValue] | None
    """The transport properties that this side told of, by their names; None in a version without."""
    peer_properties: dict[str, PropertyValue] | None
    """Those of the other side; None where it has told of none."""
    extensions: dict[str, ExtensionProperties]
    """Of each extension, by its name, the properties; none in a version without properties."""
    round_trip_s: float | None
    """How far the peer is, as the provider had measured it when the connection stood; None where it cannot tell."""
    host_identity: HostIdentity | None
    """Which host the peer has proved to be; None if it was not asked to."""


def negotiated(
    endpoint: Endpoint, terms: Terms, provider: str, round_trip_s: float | None, host_identity: HostIdentity | None
) -> Negotiated:
    """The present terms of the connection of `endpoint`."""
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
    """As `Negotiated` has them."""
    if properties is None:
        return None
    return properties._asdict() | {
        "reverse": properties.reverse.value,
        "host_authentication": properties.host_authentication is not None,
    }


def _of_extensions(links: Mapping[str, ExtensionLink]) -> dict[str, ExtensionProperties]:
    """As `Negotiated` has them."""
    return {name: {"own": _named(link.own_shown), "peer": _named(link.peer_shown)} for name, link in links.items()}


def _named(shown: dict[str, int | str]) -> dict[str, int | str] | None:
    return {name.lower().replace(" ", "_"): value for name, value in shown.items()} or None
