"""Asks a port mapper for a program's TCP port: PMAPPROC_GETPORT of version 2 (RFC 1833 section 3)."""

from __future__ import annotations

import struct
from typing import NamedTuple

from rpcrdma.rpc.program import Procedure
from rpcrdma.xdr.codec import Decoder, Encoder

__all__ = ["GETPORT", "PORT_MAPPER_PORT", "Mapping"]

PORT_MAPPER_PORT = 111

_PROGRAM = 100000
_VERSION = 2
_TCP = 6
_MAPPING = struct.Struct(">4I")


class Mapping(NamedTuple):
    """pmap: the program that is looked for; the port is 0 in a question."""

    program: int
    version: int
    protocol: int = _TCP
    port: int = 0


def _encode_mapping(enc: Encoder, mapping: Mapping) -> None:
    enc.put(_MAPPING, *mapping)


def _decode_mapping(dec: Decoder) -> Mapping:
    return Mapping(*dec.take(_MAPPING, "pmap"))


def _encode_port(enc: Encoder, port: int) -> None:
    enc.u32(port, "port")


def _decode_port(dec: Decoder) -> int:
    return dec.u32("port")


GETPORT: Procedure[Mapping, int] = Procedure(
    program=_PROGRAM,
    version=_VERSION,
    number=3,
    name="PMAPPROC_GETPORT",
    method="getport",
    encode_args=_encode_mapping,
    decode_args=_decode_mapping,
    encode_result=_encode_port,
    decode_result=_decode_port,
)
"""The result is 0 where the program is not registered."""
