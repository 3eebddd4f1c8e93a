"""Arguments and results under RPCSEC_GSS (RFC 2203): in clear, in clear behind a length, or private."""

from __future__ import annotations

import enum
from typing import NamedTuple

from rpcrdma.rpc import AuthFlavor
from rpcrdma_lab.dissect.fields import Field
from rpcrdma_lab.dissect.long_messages import Payload

__all__ = ["Clear", "Protection", "clear_body", "protection_of"]


class Protection(enum.Enum):
    """The protection of an RPC call's body by its credential.

    CONTEXT is a message that creates or ends an RPCSEC_GSS context.
    """

    NONE = "none"
    INTEGRITY = "integrity"
    PRIVACY = "privacy"
    CONTEXT = "context"


class Clear(NamedTuple):
    """Octets with arguments or results that begin at octet `start`; `whole` says that they end where `data` does."""

    data: bytes
    start: int
    whole: bool


_DATA = 0
_SERVICES = {1: Protection.NONE, 2: Protection.INTEGRITY, 3: Protection.PRIVACY}
_SEQUENCE_OCTETS = 4
_LENGTH_OCTETS = 4


def protection_of(credential: Field) -> Protection | None:
    """Returns the protection that `credential`, the decoded "cred" of a call, states; NONE unless it is RPCSEC_GSS.

    Returns None for a credential of RPCSEC_GSS that cannot be decoded or has an unknown service.
    """
    if credential.number("flavor") != AuthFlavor.RPCSEC_GSS:
        return Protection.NONE
    procedure, service = credential.number("body", "gss_proc"), credential.number("body", "service")
    if procedure is None or service is None:
        return None
    return _SERVICES.get(service) if procedure == _DATA else Protection.CONTEXT


def clear_body(protection: Protection, payload: Payload, start: int) -> Clear:
    """Returns octets of `payload`, an RPC message, where its arguments or results begin, and whether all are there.

    `start` is the octet of the message behind its RPC header, where the length of a protected body begins. A body with
    privacy (encryption) must not be passed.
    """
    if protection is not Protection.INTEGRITY:
        return Clear(payload.data, start, payload.whole)
    # A length, the sequence number, arguments or results, and a checksum (RFC 2203 section 5.3.2.2).
    body = start + _LENGTH_OCTETS
    end = body + int.from_bytes(payload.data[start:body])
    return Clear(payload.data[:end], body + _SEQUENCE_OCTETS, end <= len(payload.data))
