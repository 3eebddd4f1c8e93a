"""Fuzz targets of NFS version 4: the calls and replies of COMPOUND, and attributes to be set."""

from __future__ import annotations

import struct

from decoder_targets import FuzzTarget
from rpcrdma.errors import DecodeError
from rpcrdma.nfs.v4.attributes import wanted_of
from rpcrdma.nfs.v4.compounds import CompoundCall, decode_call, decode_compound_reply, encode_call
from rpcrdma.nfs.v4.nfs4 import decode_fattr4, nfs_opnum4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.xdr.codec import Decoder, Encoder

__all__ = ["NFS4"]


def compound_call(data: bytes) -> None:
    """A call decodes up to an operation that cannot be run; what has decoded survives encoding and decoding."""
    dec = Decoder(data)
    try:
        call = decode_call(dec)
    except DecodeError:
        return
    operations = list(zip(call.shape.kinds, call.args, strict=True))
    if call.shape.fault is not None:
        operations.pop()
    enc = Encoder()
    encode_call(enc, CompoundCall.of(operations, minor_version=call.minor_version, tag=call.tag))
    again = decode_call(Decoder(b"".join(enc.gather())))
    assert list(zip(again.shape.kinds, again.args, strict=True)) == operations


def compound_reply(data: bytes) -> None:
    """A reply decodes, or is refused as a whole."""
    try:
        decode_compound_reply(Decoder(data))
    except DecodeError:
        return


def attributes(data: bytes) -> None:
    """Attributes are taken, or refused with a status."""
    try:
        wanted_of(decode_fattr4(Decoder(data)))
    except (DecodeError, Refused):
        return


_HEAD = struct.pack(">I4sII", 3, b"tag", 2, 3)
_SEQUENCE = struct.pack(">I16sIIII", nfs_opnum4.OP_SEQUENCE, bytes(16), 1, 0, 0, 1)
_PUTFH = struct.pack(">II4s", nfs_opnum4.OP_PUTFH, 4, b"file")
_OPEN = struct.pack(">5IQI4sIII4s", nfs_opnum4.OP_OPEN, 0, 1, 0, 0, 1, 4, b"mine", 0, 0, 4, b"name")
_WRITE = struct.pack(">IIQIQII4s", nfs_opnum4.OP_WRITE, 0, 0, 0, 0, 0, 4, b"data")
_LOCK = struct.pack(">4IQQ8IQI4s", nfs_opnum4.OP_LOCK, 1, 0, 0, 0, 1, 1, *[0] * 7, 0, 4, b"mine")
_RESULTS = struct.pack(">II4sI", 0, 3, b"tag", 2) + struct.pack(">II16s5I", 53, 0, bytes(16), 1, 0, 0, 0, 0)

NFS4 = [
    FuzzTarget(
        "nfs4_compound_call", compound_call, [_HEAD + _SEQUENCE + _PUTFH + last for last in (_OPEN, _WRITE, _LOCK)]
    ),
    FuzzTarget("nfs4_compound_reply", compound_reply, [_RESULTS + struct.pack(">III4s", 25, 0, 1, b"\0\0\0\0")]),
    FuzzTarget("nfs4_attributes", attributes, [struct.pack(">3IIQI", 2, 16, 2, 12, 5, 0o644)]),
]
