"""The credential of RPCSEC_GSS, and the results of the calls that make a context (RFC 2203 section 5)."""

from __future__ import annotations

import enum
import struct
from typing import Final, NamedTuple

from rpcrdma.limits import GSS_TOKEN_OCTETS_MAX
from rpcrdma.xdr.codec import Decoder, Encoder

__all__ = [
    "GSS_VERSION",
    "HANDLE_OCTETS_MAX",
    "SEQUENCE_MAX",
    "GssCredential",
    "GssProcedure",
    "InitResult",
    "decode_gss_credential",
    "decode_init_result",
    "decode_token",
    "encode_gss_credential",
    "encode_init_result",
    "encode_token",
]

GSS_VERSION: Final = 1
SEQUENCE_MAX: Final = 0x80000000
"""MAXSEQ: sequence numbers are below it (RFC 2203 section 5.3.1)."""
HANDLE_OCTETS_MAX: Final = 380
"""A handle that fits into a credential of 400 octets."""

_FOUR = struct.Struct(">4I")
_THREE = struct.Struct(">3I")


class GssProcedure(enum.IntEnum):
    """rpc_gss_proc_t: the purpose of a call under RPCSEC_GSS (RFC 2203 section 5)."""

    DATA = 0
    INIT = 1
    CONTINUE_INIT = 2
    DESTROY = 3


class GssCredential(NamedTuple):
    """The fields of rpc_gss_cred_t, version 1 (RFC 2203 section 5); a decoded one may have unknown numbers."""

    version: int
    procedure: int
    sequence: int
    service: int
    handle: bytes = b""


class InitResult(NamedTuple):
    """rpc_gss_init_res, the result of a call that makes a context (RFC 2203 section 5.2.3.1).

    `major` and `minor` are the mechanism's status, `window` is the length of the sequence window in numbers.
    """

    handle: bytes
    major: int
    minor: int
    window: int
    token: bytes


def encode_gss_credential(enc: Encoder, credential: GssCredential) -> None:
    """Appends rpc_gss_cred_t, the body of the credential, to `enc` (RFC 2203 section 5).

    Raises:
        LocalProtocolError: the handle is over `HANDLE_OCTETS_MAX`, or a number does not fit into 32 bits.
    """
    enc.put(_FOUR, credential.version, credential.procedure, credential.sequence, credential.service)
    enc.opaque(credential.handle, HANDLE_OCTETS_MAX, "handle")


def encode_token(enc: Encoder, token: bytes) -> None:
    """Appends a token as rpc_gss_init_arg to `enc` (RFC 2203 section 5.2.2).

    Raises:
        LocalProtocolError: the token is over `GSS_TOKEN_OCTETS_MAX`.
    """
    enc.opaque(token, GSS_TOKEN_OCTETS_MAX, "gss_token")


def encode_init_result(enc: Encoder, result: InitResult) -> None:
    """Appends rpc_gss_init_res to `enc` (RFC 2203 section 5.2.3.1).

    Raises:
        LocalProtocolError: handle or token is too long, or a number does not fit into 32 bits.
    """
    enc.opaque(result.handle, HANDLE_OCTETS_MAX, "handle")
    enc.put(_THREE, result.major, result.minor, result.window)
    enc.opaque(result.token, GSS_TOKEN_OCTETS_MAX, "gss_token")


def decode_gss_credential(body: bytes) -> GssCredential:
    """Decodes rpc_gss_cred_t, the body of a credential; numbers are not checked.

    Raises:
        DecodeError: the body is cut short, has too long a handle, or octets after its last field.
    """
    dec = Decoder(body)
    version, procedure, sequence, service = dec.take(_FOUR, "gss credential")
    handle = dec.opaque(HANDLE_OCTETS_MAX, "handle")
    dec.done("gss credential")
    return GssCredential(version, procedure, sequence, service, handle)


def decode_token(dec: Decoder) -> bytes:
    """Decodes rpc_gss_init_arg, the token of a call that makes a context.

    Raises:
        DecodeError: the token is cut short, or over `GSS_TOKEN_OCTETS_MAX`.
    """
    return dec.opaque(GSS_TOKEN_OCTETS_MAX, "gss_token")


def decode_init_result(dec: Decoder) -> InitResult:
    """Decodes rpc_gss_init_res, the result of a call that makes a context.

    Raises:
        DecodeError: the result is cut short, or handle or token is over its bound.
    """
    handle = dec.opaque(HANDLE_OCTETS_MAX, "handle")
    major, minor, window = dec.take(_THREE, "gss_major, gss_minor, seq_window")
    return InitResult(handle, major, minor, window, dec.opaque(GSS_TOKEN_OCTETS_MAX, "gss_token"))
