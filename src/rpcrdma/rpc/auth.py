"""Authentication flavors AUTH_NONE and AUTH_SYS (RFC 5531 sections 8.2 and appendix A).

A responder's answers to a credential (RFC 5531 section 9 names the codes, not the cases; this follows the custom of the
Sun RPC family):

- a body over 400 octets, or an AUTH_SYS body that does not decode to its end: AUTH_BADCRED;
- a flavor that is not offered, AUTH_SHORT among them as no shorthand is ever issued: AUTH_REJECTEDCRED;
- AUTH_TLS, unless it asks a server for TLS: AUTH_BADCRED (RFC 9289 section 4.1);
- a verifier over 400 octets, or of a flavor other than AUTH_NONE: AUTH_BADVERF.

A body under AUTH_NONE is ignored.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from rpcrdma.errors import LocalProtocolError
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.xdr.codec import Decoder, Encoder

__all__ = [
    "AUTH_BODY_MAX",
    "NO_AUTH",
    "AuthFlavor",
    "AuthGss",
    "AuthNone",
    "AuthStat",
    "AuthSys",
    "Credential",
    "LocalUser",
    "OpaqueAuth",
    "decode_auth_sys",
    "encode_auth_sys",
    "opaque_auth",
]

AUTH_BODY_MAX = 400
"""Octets of a credential's or verifier's body (RFC 5531 section 8.2)."""

MACHINE_NAME_MAX = 255
"""Octets of `AuthSys.machine` (RFC 5531 appendix A)."""

GIDS_MAX = 16
"""Supplementary groups of `AuthSys` (RFC 5531 appendix A)."""

_THREE = struct.Struct(">3I")
_GIDS = tuple(struct.Struct(f">{count}I") for count in range(GIDS_MAX + 1))


class AuthFlavor(enum.IntEnum):
    """The authentication flavors auth_flavor of RFC 5531 section 8.2 and RFC 9289 section 7.1."""

    AUTH_NONE = 0
    AUTH_SYS = 1
    AUTH_SHORT = 2
    AUTH_DH = 3
    RPCSEC_GSS = 6
    AUTH_TLS = 7


class AuthStat(enum.IntEnum):
    """The codes auth_stat of a refused credential or verifier (RFC 5531 section 9, RFC 2203 section 5.3.3.3)."""

    AUTH_OK = 0
    AUTH_BADCRED = 1
    AUTH_REJECTEDCRED = 2
    AUTH_BADVERF = 3
    AUTH_REJECTEDVERF = 4
    AUTH_TOOWEAK = 5
    AUTH_INVALIDRESP = 6
    AUTH_FAILED = 7
    AUTH_KERB_GENERIC = 8
    AUTH_TIMEEXPIRE = 9
    AUTH_TKT_FILE = 10
    AUTH_DECODE = 11
    AUTH_NET_ADDR = 12
    RPCSEC_GSS_CREDPROBLEM = 13
    RPCSEC_GSS_CTXPROBLEM = 14


class OpaqueAuth(NamedTuple):
    """opaque_auth (RFC 5531 section 8.2): an encoded credential or verifier.

    `flavor` may be a number that `AuthFlavor` lacks; `body` is without its length word and padding.
    """

    flavor: int
    body: bytes


NO_AUTH = OpaqueAuth(AuthFlavor.AUTH_NONE, b"")
"""The empty credential, and the empty verifier."""


@dataclass(frozen=True, slots=True)
class AuthNone:
    """The credential AUTH_NONE: no identity (RFC 5531 section 8.2)."""

    flavor: ClassVar = SecurityFlavor.NONE
    principal: ClassVar[None] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSys:
    """The credential AUTH_SYS: a Unix identity that the caller states without proof (RFC 5531 appendix A)."""

    flavor: ClassVar = SecurityFlavor.SYS
    principal: ClassVar[None] = None
    stamp: int = 0
    """An arbitrary number; `connect` replaces 0 by a random one, which the `Connection` then keeps."""
    machine: str = ""
    """The caller's host name, at most 255 octets."""
    uid: int
    """Effective user number, 0 to 2^32 - 1."""
    gid: int
    """Effective group number, 0 to 2^32 - 1."""
    gids: tuple[int, ...] = ()
    """Numbers of supplementary groups, at most 16."""


class LocalUser(NamedTuple):
    """A user of this machine: user number, primary group and supplementary groups of this machine's user database."""

    uid: int
    gid: int
    gids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthGss:
    """An identity that an RPCSEC_GSS context has proved; all calls of one context and service share the object.

    Args:
        principal: the proved name, such as "alice@EXAMPLE.ORG".
        flavor: KRB5, KRB5I or KRB5P, by the service of the calls.
        user: the local user that the principal maps to; None for principals of services and unknown users.
    """

    principal: str
    flavor: SecurityFlavor
    user: LocalUser | None = None


Credential: TypeAlias = AuthNone | AuthSys | AuthGss


def encode_auth_sys(enc: Encoder, credential: AuthSys) -> None:
    """Appends the body of an AUTH_SYS credential, authsys_parms, to `enc` (RFC 5531 appendix A).

    Raises:
        LocalProtocolError: the host name is over 255 octets or cannot be encoded, there are over 16 supplementary
            groups, or a number is no unsigned 32-bit integer.
    """
    gids = credential.gids
    if len(gids) > GIDS_MAX:
        raise LocalProtocolError(f"gids: {len(gids)} groups given, AUTH_SYS carries {GIDS_MAX}")
    enc.u32(credential.stamp, "stamp")
    enc.string(credential.machine, MACHINE_NAME_MAX, "machinename")
    enc.put(_THREE, credential.uid, credential.gid, len(gids))
    enc.put(_GIDS[len(gids)], *gids)


def decode_auth_sys(body: bytes) -> AuthSys:
    """Decodes the body of an AUTH_SYS credential, which is without its length word.

    Raises:
        DecodeError: the body is cut short, has a host name over 255 octets, over 16 groups, or octets after its last
            field.
    """
    dec = Decoder(body)
    stamp = dec.u32("stamp")
    machine = dec.string(MACHINE_NAME_MAX, "machinename")
    uid = dec.u32("uid")
    gid = dec.u32("gid")
    gids = dec.take(_GIDS[dec.count(GIDS_MAX, "gids")], "gids")
    dec.done("AUTH_SYS credential")
    return AuthSys(stamp=stamp, machine=machine, uid=uid, gid=gid, gids=gids)


def opaque_auth(credential: Credential) -> OpaqueAuth:
    """Returns the flavor and the encoded body of a credential as a call header carries them.

    Raises:
        LocalProtocolError: a field of an `AuthSys` is out of its bounds, or the credential is an `AuthGss`.
    """
    if isinstance(credential, AuthNone):
        return NO_AUTH
    if isinstance(credential, AuthGss):
        raise LocalProtocolError("an identity of RPCSEC_GSS has to be proved: use ConnectOptions(security=...)")
    enc = Encoder()
    encode_auth_sys(enc, credential)
    return OpaqueAuth(AuthFlavor.AUTH_SYS, bytes(enc.reduced))
