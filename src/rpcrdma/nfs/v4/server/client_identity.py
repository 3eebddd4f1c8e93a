"""The identity of a client of NFS version 4.1: that by which it introduces itself, and the principal of a call."""

from __future__ import annotations

from typing import NamedTuple

from rpcrdma.rpc.auth import AuthGss, AuthSys, Credential

__all__ = ["ClientIdentity", "principal_of"]


def principal_of(credential: Credential) -> str:
    """Returns a text that identifies the principal of a call.

    It is "sys:1000" for a uid of AUTH_SYS, "gss:alice@EXAMPLE.ORG" with RPCSEC_GSS, and "none" for other credentials.
    """
    if isinstance(credential, AuthGss):
        return f"gss:{credential.principal}"
    return f"sys:{credential.uid}" if isinstance(credential, AuthSys) else "none"


class ClientIdentity(NamedTuple):
    """The identity of a client, from its EXCHANGE_ID: the owner string, the verifier, and the principal of the call."""

    owner: bytes
    verifier: bytes
    principal: str
    address: str = ""
    """The network address from which the client sent its EXCHANGE_ID, without a port."""
    enforced: int = 0
    """The operations, as a set of bits by operation number, that only the principal of the client's machine may call
    (SP4_MACH_CRED); 0 with SP4_NONE."""
    allowed: int | None = None
    """The operations, as a set of bits by operation number, that this principal may call for every user; None with
    SP4_NONE."""
    protected: bool = False
    """Whether the EXCHANGE_ID came with integrity or privacy of RPCSEC_GSS."""
