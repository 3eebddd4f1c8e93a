"""The reasons for which hosts refuse each other: words with the remedy, and TLS alerts (RFC 8446 section 6)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from rpcrdma.errors import HostAuthenticationFailed

__all__ = ["REFUSALS", "HostCause", "HostRefusal", "alert_in", "cause_of", "refused", "refused_by_peer"]

_PREFIX: Final = "host authentication failed: "
_CERTIFICATE: Final = "HostAuthentication(certificate=...)"
_AUTHORITIES: Final = "HostAuthentication(authorities=...)"
_NAMES: Final = "HostAuthentication(names=...)"
_OPTIONAL: Final = 'HostAuthentication(policy="optional")'


class HostCause(enum.Enum):
    """The reason for which one host refuses the other, in words in `REFUSALS`; REFUSED if the peer has refused."""

    ABSENT = "absent"
    """The peer takes no part in host authentication, which is required here."""
    REFUSED = "refused"
    NO_CERTIFICATE = "no certificate"
    EXPIRED = "expired"
    NOT_YET_VALID = "not yet valid"
    REVOKED = "revoked"
    UNKNOWN_ISSUER = "unknown issuer"
    UNFIT = "unfit certificate"
    WRONG_NAME = "wrong name"
    VERSION = "version"
    OTHER_USE = "other use"
    """The handshake was begun for another protocol."""
    NOT_TLS = "not TLS"
    HANDSHAKE = "handshake"
    UNEXPECTED = "unexpected"
    """A value of host authentication that may not arrive at this point."""
    TOO_LONG = "too long"
    """The peer has sent more values or octets of host authentication than the limits allow."""


class HostRefusal(NamedTuple):
    """The alert and the words for one `HostCause`, the reason for which this side refuses the peer's host (`REFUSALS`).

    `alert`: the TLS alert description for the peer (RFC 8446 section 6). `words`: the fault. `remedy`: its correction.
    """

    alert: int
    words: str
    remedy: str


REFUSALS: Mapping[HostCause, HostRefusal] = {
    HostCause.ABSENT: HostRefusal(
        116,
        "it is required here, and the peer takes no part in it",
        f"give the peer a certificate ({_CERTIFICATE}), or make it optional here ({_OPTIONAL})",
    ),
    HostCause.NO_CERTIFICATE: HostRefusal(
        116, "the peer has sent no certificate", f"give the peer a certificate ({_CERTIFICATE})"
    ),
    HostCause.EXPIRED: HostRefusal(
        45, "the peer's certificate has expired", "renew the peer's certificate, and compare the clocks of both hosts"
    ),
    HostCause.NOT_YET_VALID: HostRefusal(
        45, "the peer's certificate is not valid yet", "compare the clocks of both hosts"
    ),
    HostCause.REVOKED: HostRefusal(44, "the peer's certificate is revoked", "issue the peer another one"),
    HostCause.UNKNOWN_ISSUER: HostRefusal(
        48,
        "the peer's certificate is of no authority that is trusted here",
        f"if it is the right peer, add the certificate of its authority to the file of {_AUTHORITIES}",
    ),
    HostCause.UNFIT: HostRefusal(
        43,
        "the peer's certificate does not serve to authenticate it",
        "issue one for its use (extendedKeyUsage has serverAuth for servers, clientAuth for clients)",
    ),
    HostCause.WRONG_NAME: HostRefusal(
        49,
        "the peer is another host",
        f"check the address, or, if it is the right host, allow one of its names ({_NAMES})",
    ),
    HostCause.VERSION: HostRefusal(70, "the peer does not speak TLS 1.3", "update the peer's TLS library"),
    HostCause.OTHER_USE: HostRefusal(
        120, "the peer's handshake was begun for another protocol", "check that the peer is an RPC-over-RDMA host"
    ),
    HostCause.NOT_TLS: HostRefusal(
        50, "the peer has sent what is no TLS handshake", "check that both sides use the same mechanism"
    ),
    HostCause.HANDSHAKE: HostRefusal(
        40, "the handshake cannot be completed", "check both certificates and the settings of TLS"
    ),
    HostCause.UNEXPECTED: HostRefusal(
        10, "the peer has sent a value that cannot come here", "check that both sides use the same mechanism"
    ),
    HostCause.TOO_LONG: HostRefusal(
        40, "the peer's part does not come to an end", "check that its file of certificates has no more than its chain"
    ),
}

_OWN_CERTIFICATE: Final = f"check the file of {_CERTIFICATE} on this side, and {_AUTHORITIES} on the peer's"
_ALERTS: Mapping[int, tuple[str, str, str]] = {
    10: ("UNEXPECTED_MESSAGE", "it did not expect what it was sent", ""),
    40: ("HANDSHAKE_FAILURE", "the handshake cannot be completed", ""),
    42: ("BAD_CERTIFICATE", "it does not accept the certificate of this side", _OWN_CERTIFICATE),
    43: (
        "UNSUPPORTED_CERTIFICATE",
        "the certificate of this side does not serve to authenticate it",
        "issue one for its use (extendedKeyUsage has serverAuth for servers, clientAuth for clients)",
    ),
    44: ("CERTIFICATE_REVOKED", "the certificate of this side is revoked", f"get another one ({_CERTIFICATE})"),
    45: (
        "CERTIFICATE_EXPIRED",
        "the certificate of this side has expired, or is not valid yet",
        f"renew it ({_CERTIFICATE}), and compare the clocks of both hosts",
    ),
    46: ("CERTIFICATE_UNKNOWN", "it does not accept the certificate of this side", _OWN_CERTIFICATE),
    48: (
        "UNKNOWN_CA",
        "it does not know the authority that issued the certificate of this side",
        f"add the authority to the file of {_AUTHORITIES} on the peer's side",
    ),
    49: (
        "ACCESS_DENIED",
        "it expects another host than the certificate of this side names",
        f"connect to the host by a name in its certificate, or allow this side's name on the peer's ({_NAMES})",
    ),
    50: ("DECODE_ERROR", "it cannot read what it was sent", ""),
    51: ("DECRYPT_ERROR", "it found a signature or a digest to be wrong", ""),
    70: ("PROTOCOL_VERSION", "the two sides have no version of TLS in common", "allow TLS 1.3 on both sides"),
    116: (
        "CERTIFICATE_REQUIRED",
        "it wants a certificate of this side",
        f"give this side one ({_CERTIFICATE}, HostAuthentication(key=...) and {_AUTHORITIES})",
    ),
    120: ("NO_APPLICATION_PROTOCOL", "the handshake was begun for another protocol", ""),
}
_REMEDY: Final = "the peer's log says more"

_VERIFICATION: Mapping[int, HostCause] = {
    9: HostCause.NOT_YET_VALID,
    10: HostCause.EXPIRED,
    23: HostCause.REVOKED,
    **dict.fromkeys((2, 18, 19, 20, 21, 27, 29, 30, 31), HostCause.UNKNOWN_ISSUER),
}
"""OpenSSL's results of a verification (X509_V_ERR_CERT_HAS_EXPIRED and so on); others are the certificate's faults."""
_REASONS: Mapping[str, HostCause] = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": HostCause.NO_CERTIFICATE,
    "UNSUPPORTED_PROTOCOL": HostCause.VERSION,
    "WRONG_SSL_VERSION": HostCause.VERSION,
    "VERSION_TOO_LOW": HostCause.VERSION,
    "NO_APPLICATION_PROTOCOL": HostCause.OTHER_USE,
    "WRONG_VERSION_NUMBER": HostCause.NOT_TLS,
    "UNKNOWN_PROTOCOL": HostCause.NOT_TLS,
    "HTTP_REQUEST": HostCause.NOT_TLS,
    "HTTPS_PROXY_REQUEST": HostCause.NOT_TLS,
    "BAD_RECORD_TYPE": HostCause.NOT_TLS,
    "PACKET_LENGTH_TOO_LONG": HostCause.NOT_TLS,
    "UNEXPECTED_MESSAGE": HostCause.UNEXPECTED,
    "UNEXPECTED_RECORD": HostCause.UNEXPECTED,
}

_ALERT_RECORD_OCTETS: Final = 7
_ALERT_START: Final = b"\x15\x03\x03\x00\x02\x02"
"""A TLS record in the clear: type alert, version, length 2, level fatal; the description follows."""


def refused(cause: HostCause, detail: str = "") -> HostAuthenticationFailed:
    """Returns, and does not raise, the exception with which this side refuses the peer.

    Its `alert` is the TLS alert record to send to the peer. `cause`: a reason in `REFUSALS`, any but REFUSED. `detail`:
    further words for the error message, shown in parentheses with commas in place of semicolons; "" for none.
    """
    alert, words, remedy = REFUSALS[cause]
    said = f"{words} ({detail.replace(';', ',')})" if detail else words
    return HostAuthenticationFailed(
        f"{_PREFIX}{said}; {remedy}", cause=cause.value, alert=_ALERT_START + bytes((alert,))
    )


def refused_by_peer(alert: int | str) -> HostAuthenticationFailed:
    """Returns, and does not raise, the exception for a refusal by the peer; the message has the remedy.

    `alert`: the TLS alert description as a number, or OpenSSL's name for it, such as "UNKNOWN_CA".
    """
    found = next((row for code, row in _ALERTS.items() if alert in {code, row[0]}), None)
    words, remedy = found[1:] if found is not None else (f"TLS alert {alert}", "")
    return HostAuthenticationFailed(
        f"{_PREFIX}the peer refuses: {words}; {remedy or _REMEDY}", cause=HostCause.REFUSED.value
    )


def alert_in(value: bytes) -> int | None:
    """Returns the TLS alert description (0 to 255) if `value` is an unencrypted alert record; None otherwise."""
    if len(value) == _ALERT_RECORD_OCTETS and value[0] == _ALERT_START[0] and value[3:5] == _ALERT_START[3:5]:
        return value[-1]
    return None


def cause_of(reason: str, verify_code: int | None) -> HostCause:
    """Returns the cause for an error of OpenSSL.

    `reason`: OpenSSL's name of the error, such as "WRONG_VERSION_NUMBER". `verify_code`: the result of the
    certificate's verification (X509_V_ERR_...); None if the error is not about that. Returns `HANDSHAKE` for an unknown
    reason, `UNFIT` for an unknown code.
    """
    if verify_code is None:
        return _REASONS.get(reason, HostCause.HANDSHAKE)
    return _VERIFICATION.get(verify_code, HostCause.UNFIT)
