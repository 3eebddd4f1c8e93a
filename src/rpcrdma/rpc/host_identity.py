"""How TLS protects a connection (RFC 9289), and which host a peer proves to be (RFC 9525)."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

from rpcrdma.wire.peer_text import printable

__all__ = [
    "TRANSPORTS",
    "XPRTSEC_CHOICES",
    "CallOrigin",
    "HostIdentity",
    "HostName",
    "Transport",
    "XprtSec",
    "host_identity",
    "host_name",
    "is_named",
    "protects",
]

XprtSec = Literal["none", "tls", "mtls"]
"""In the words of Linux's mount option `xprtsec`: no protection; TLS with the certificate of the server; TLS with the
certificates of both hosts."""
XPRTSEC_CHOICES: Final[tuple[XprtSec, ...]] = get_args(XprtSec)
"""From the weakest to the strongest."""

Transport = Literal["tcp", "rdma"]
"""The transports, by the names that URLs have for them."""
TRANSPORTS: Final[tuple[Transport, ...]] = get_args(Transport)

_WILDCARD: Final = "*."


@dataclass(frozen=True, slots=True, kw_only=True)
class HostIdentity:
    """The identity that a peer's host has proved by its certificate.

    The names are those of the certificate's subjectAltName, DNS names and URIs unchanged. `subject` and `issuer` are
    for people: characters that are not printable are escaped, and nothing checks them.
    """

    dns_names: tuple[str, ...]
    """DNS names; each may begin with a wildcard label."""
    addresses: tuple[str, ...]
    """IP addresses in their canonical form."""
    uris: tuple[str, ...]
    """URIs."""
    subject: str
    """The certificate's subject as text."""
    issuer: str
    """The certificate's issuer as text."""
    channel_binding: bytes
    """32 octets that are equal at both ends and differ for every other handshake; see docs/tls.md."""

    @property
    def names(self) -> tuple[str, ...]:
        """All DNS names, addresses and URIs."""
        return (*self.dns_names, *self.addresses, *self.uris)

    def as_json(self) -> dict[str, Any]:
        """Converts the identity to a dictionary for JSON.

        Returns:
            "names" (a list), "subject", "issuer", and "channel_binding" in hexadecimal.
        """
        return {
            "names": list(self.names),
            "subject": self.subject,
            "issuer": self.issuer,
            "channel_binding": self.channel_binding.hex(),
        }


class CallOrigin(NamedTuple):
    """The origin of the calls of a connection: the peer's host, and what is known of it.

    A connection keeps one object until its protection or the proof of its host changes; so a decision about one call
    holds for later calls with the same object (`is`).
    """

    host: str
    """The network address of the host, without port."""
    transport: Transport
    reserved_port: bool = False
    """Whether the peer's port is below 1024, which many hosts reserve for root; False over RDMA."""
    xprtsec: XprtSec = "none"
    """The protection by TLS; "none" over RDMA."""
    identity: HostIdentity | None = None
    """The identity that the host has proved; None without proof."""


class HostName(NamedTuple):
    """A name that a certificate must have: `kind` is "DNS", "IP Address" or "URI", `name` is in canonical form."""

    kind: str
    name: str


def host_name(text: str) -> HostName:
    """Parses the name of a host that a user has written: an IP address, a URI (with a colon), or a DNS name.

    Returns the kind and the name: an IP address in canonical form without zone, a URI as it is, a DNS name in lower
    case, in ASCII (IDNA) and without a final dot.

    Raises:
        ValueError: the text is none of these, or is a DNS name with a wildcard; the message names the remedy.
    """
    text = text.strip()
    address = _address(text)
    if address is not None:
        return HostName("IP Address", address)
    if ":" in text:
        return HostName("URI", text)
    if not text or "*" in text or any(not label for label in text.removesuffix(".").split(".")):
        raise ValueError(f"{text!r} is not the name of a host; write a whole DNS name, an IP address or a URI")
    try:
        return HostName("DNS", text.removesuffix(".").encode("idna").decode("ascii").lower())
    except UnicodeError:
        raise ValueError(f"{text!r} is not the name of a host; write it as it stands in the DNS") from None


def host_identity(certificate: Mapping[str, Any], channel_binding: bytes) -> HostIdentity:
    """Makes the identity of a host from its validated certificate.

    Args:
        certificate: the certificate as `ssl.SSLObject.getpeercert` returns it; names of its subjectAltName other than
            DNS names, IP addresses and URIs are left out.
        channel_binding: 32 octets that identify the TLS handshake.
    """
    names: Sequence[tuple[str, str]] = certificate.get("subjectAltName", ())
    addresses = [_address(name) for kind, name in names if kind == "IP Address"]
    return HostIdentity(
        dns_names=tuple(name for kind, name in names if kind == "DNS"),
        addresses=tuple(address for address in addresses if address is not None),
        uris=tuple(name for kind, name in names if kind == "URI"),
        subject=_distinguished(certificate.get("subject", ())),
        issuer=_distinguished(certificate.get("issuer", ())),
        channel_binding=channel_binding,
    )


def is_named(identity: HostIdentity, wanted: Collection[HostName], *, wildcards: bool = True) -> bool:
    """Returns whether a certificate has one of the wanted names (RFC 9525).

    Args:
        identity: the names of the certificate.
        wanted: the names of which one suffices.
        wildcards: whether a first label "*" in the certificate matches one label of any DNS name, if at least two
            labels follow it. False: no wildcard matches (RFC 9289 section 5.2.1).
    """
    names = {*wanted}
    if any(HostName("IP Address", address) in names for address in identity.addresses):
        return True
    if any(HostName("URI", uri) in names for uri in identity.uris):
        return True
    for presented in identity.dns_names:
        dns_name = presented.lower().removesuffix(".")
        if HostName("DNS", dns_name) in names:
            return True
        parent = dns_name.removeprefix(_WILDCARD)
        if wildcards and parent != dns_name and "." in parent and "*" not in parent:
            parents = (name.name.partition(".")[2] for name in names if name.kind == "DNS")
            if parent in parents:
                return True
    return False


def _address(text: str) -> str | None:
    """Returns the canonical form of an IP address without its zone; None if the text is no IP address."""
    try:
        return str(ipaddress.ip_address(text.strip().partition("%")[0]))
    except ValueError:
        return None


def _distinguished(name: Sequence[Sequence[tuple[str, str]]]) -> str:
    return printable(", ".join(f"{key}={value}" for part in name for key, value in part))


def protects(present: XprtSec, wanted: XprtSec) -> bool:
    """Returns whether protection `present` is at least as strong as `wanted`; the order is "none", "tls", "mtls"."""
    return XPRTSEC_CHOICES.index(present) >= XPRTSEC_CHOICES.index(wanted)
