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
    """Octets of an RPC message: arguments or results begin at octet `start` of `data` and end with `data`.

    `whole` is False if the end of the arguments or results is missing in `data`.
    """

    data: bytes
    start: int
    whole: bool


_DATA = 0
_SERVICES = {1: Protection.NONE, 2: Protection.INTEGRITY, 3: Protection.PRIVACY}
_SEQUENCE_OCTETS = 4
_LENGTH_OCTETS = 4


def protection_of(credential: Field) -> Protection | None:
    """Returns the protection of a call and its reply by `credential`, the decoded field "cred" of the call.

    Other flavors than RPCSEC_GSS have `Protection.NONE`. Returns None for a credential of RPCSEC_GSS that was not
    decoded or has an unknown service.
    """
    if credential.number("flavor") != AuthFlavor.RPCSEC_GSS:
        return Protection.NONE
    procedure, service = credential.number("body", "gss_proc"), credential.number("body", "service")
    if procedure is None or service is None:
        return None
    return _SERVICES.get(service) if procedure == _DATA else Protection.CONTEXT


def clear_body(protection: Protection, payload: Payload, start: int) -> Clear:
    """Finds the arguments or results in an RPC message: behind length and sequence number if protected by INTEGRITY.

    Args:
        protection: the protection of the message; a body with PRIVACY (encryption) must not be passed.
        payload: the RPC message, or its first octets.
        start: the octet of the message after its RPC header.
    """
    if protection is not Protection.INTEGRITY:
        return Clear(payload.data, start, payload.whole)
    # A length, the sequence number, arguments or results, and a checksum (RFC 2203 section 5.3.2.2).
    body = start + _LENGTH_OCTETS
    end = body + int.from_bytes(payload.data[start:body])
    return Clear(payload.data[:end], body + _SEQUENCE_OCTETS, end <= len(payload.data))
