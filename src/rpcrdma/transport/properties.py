"""Stub until merge."""
from __future__ import annotations
from typing import NamedTuple
from rpcrdma.transport.config import ReverseSupport
from rpcrdma.transport.message import PropertySet

class Properties(NamedTuple):
    send_octets: int = 4096
    receive_octets: int = 4096
    segment_octets_max: int = 1 << 20
    segments_max: int = 16
    reverse: ReverseSupport = ReverseSupport.INLINE
    host_authentication: bytes | None = None

def decode_properties(p: PropertySet) -> Properties:
    return Properties()

def encode_properties(p: Properties) -> PropertySet:
    return ()
