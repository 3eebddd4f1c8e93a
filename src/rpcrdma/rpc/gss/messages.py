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
    """rpc_gss_proc_t."""

    DATA = 0
    INIT = 1
    CONTINUE_INIT = 2
    DESTROY = 3


class GssCredential(NamedTuple):
    """rpc_gss_cred_vers_1_t behind its version; each field may have any number."""

    version: int
    procedure: int
    sequence: int
    service: int
    handle: bytes = b""


class InitResult(NamedTuple):
    """rpc_gss_init_res: `major` and `minor` are the mechanism's status, `window` counts sequence numbers."""

    handle: bytes
    major: int
    minor: int
    window: int
    token: bytes


def encode_gss_credential(enc: Encoder, credential: GssCredential) -> None:
    """Encodes the body of the credential: rpc_gss_cred_t (RFC 2203 section 5)."""
    enc.put(_FOUR, credential.version, credential.procedure, credential.sequence, credential.service)
    enc.opaque(credential.handle, HANDLE_OCTETS_MAX, "handle")


def encode_token(enc: Encoder, token: bytes) -> None:
    """Encodes rpc_gss_init_arg (RFC 2203 section 5.2.2)."""
    enc.opaque(token, GSS_TOKEN_OCTETS_MAX, "gss_token")


def encode_init_result(enc: Encoder, result: InitResult) -> None:
    """Encodes rpc_gss_init_res (RFC 2203 section 5.2.3.1)."""
    enc.opaque(result.handle, HANDLE_OCTETS_MAX, "handle")
    enc.put(_THREE, result.major, result.minor, result.window)
    enc.opaque(result.token, GSS_TOKEN_OCTETS_MAX, "gss_token")


def decode_gss_credential(body: bytes) -> GssCredential:
    """Decodes the body of a credential.

    Raises:
        DecodeError: the body is cut short, or goes on after its last field.
    """
    dec = Decoder(body)
    version, procedure, sequence, service = dec.take(_FOUR, "gss credential")
    handle = dec.opaque(HANDLE_OCTETS_MAX, "handle")
    dec.done("gss credential")
    return GssCredential(version, procedure, sequence, service, handle)


def decode_token(dec: Decoder) -> bytes:
    """Decodes the token of a call that makes a context.

    Raises:
        DecodeError: it is cut short, or over the bound.
    """
    return dec.opaque(GSS_TOKEN_OCTETS_MAX, "gss_token")


def decode_init_result(dec: Decoder) -> InitResult:
    """Decodes the result of a call that makes a context.

    Raises:
        DecodeError: it is cut short, or over a bound.
    """
    handle = dec.opaque(HANDLE_OCTETS_MAX, "handle")
    major, minor, window = dec.take(_THREE, "gss_major, gss_minor, seq_window")
    return InitResult(handle, major, minor, window, dec.opaque(GSS_TOKEN_OCTETS_MAX, "gss_token"))
