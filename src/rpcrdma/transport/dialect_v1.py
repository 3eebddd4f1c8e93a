"""Version 1 of the protocol: what a received message means, and how messages are made (RFC 8166 section 4.5).

The version is looked at before anything but the first four words. Direction follows from the RPC message: CALL goes to
the responder, REPLY to the requester (RFC 8167); an RDMA_ERROR always answers a call of this side. Where the direction
cannot be told, a server answers as a responder must, and a client discards as a requester must.
"""

from __future__ import annotations

import struct

from rpcrdma.errors import DecodeError, RpcRdmaError
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists
from rpcrdma.transport.header_v1 import (
    ERR_VERS,
    FIXED_OCTETS,
    RDMA_DONE,
    RDMA_ERROR,
    RDMA_MSG,
    RDMA_NOMSG,
    SHORT_HEADER_OCTETS,
    VERSION,
    RdmaError,
    RdmaMsg,
    RdmaNoMsg,
    decode_header,
    encode_chunk_refused,
    encode_message,
    encode_version_refused,
)
from rpcrdma.transport.refusals import ChunkRefused, VersionRefused
from rpcrdma.transport.requester import Requester
from rpcrdma.transport.responder import Responder
from rpcrdma.wire.buffers import Buffer

__all__ = ["Version1"]

_CALL = 0
_REPLY = 1

_FIXED = struct.Struct(">IIII")
_SHORT_MESSAGE = struct.Struct(">IIIIIIIII")
"""A header without chunks, and the XID and direction of the RPC message after it."""
_RPC_START = struct.Struct(">II")


class Version1:
    """The dialect object of a connection."""

    __slots__ = ()
    version = VERSION

    def encode_message(self, xid: int, credits_: int, chunks: ChunkLists, *, long: bool) -> bytes:
        return encode_message(RDMA_NOMSG if long else RDMA_MSG, xid, credits_, chunks)

    def encode_chunk_refused(self, xid: int, credits_: int) -> bytes:
        return encode_chunk_refused(xid, VERSION, credits_)

    def on_message(
        self, data: Buffer, invalidated: int | None, requester: Requester | None, responder: Responder | None
    ) -> bool:
        """Acts on one received message; False if it was silently discarded."""
        if len(data) >= _SHORT_MESSAGE.size:
            xid, version, credits_, procedure, reads, writes, reply, rpc_xid, direction = _SHORT_MESSAGE.unpack_from(
                data
            )
            if version == VERSION and not (procedure or reads or writes or reply) and rpc_xid == xid:
                if direction == _REPLY and requester is not None:
                    return requester.on_reply(
                        xid, credits_, NO_CHUNKS, data, SHORT_HEADER_OCTETS, long=False, invalidated=invalidated
                    )
                if direction == _CALL and responder is not None and invalidated is None:
                    responder.on_call(xid, NO_CHUNKS, data, SHORT_HEADER_OCTETS, long=False)
                    return True
        return self._on_other(data, invalidated, requester, responder)

    def _on_other(
        self, data: Buffer, invalidated: int | None, requester: Requester | None, responder: Responder | None
    ) -> bool:
        length = len(data)
        if length < FIXED_OCTETS:
            return False
        xid, version, _, procedure = _FIXED.unpack_from(data)
        if procedure == RDMA_ERROR:
            return requester is not None and self._on_error(data, invalidated, requester)
        if length < SHORT_HEADER_OCTETS or (procedure == RDMA_DONE and version == VERSION):
            return False
        if version != VERSION:
            if responder is None or responder.reverse:
                return False
            responder.refuse(encode_version_refused(xid, version, responder.credits.granted))
            return True
        try:
            header = decode_header(data)
        except DecodeError:
            header = None
        if isinstance(header, RdmaMsg):
            return self._on_msg(header, data, invalidated, requester, responder)
        if isinstance(header, RdmaNoMsg):
            return self._on_nomsg(header, data, invalidated, requester, responder)
        # Not decodable, or RDMA_MSGP.
        return self._refuse(xid, responder)

    def _on_msg(
        self,
        header: RdmaMsg,
        data: Buffer,
        invalidated: int | None,
        requester: Requester | None,
        responder: Responder | None,
    ) -> bool:
        if len(data) < header.size + _RPC_START.size:
            return self._refuse(header.xid, responder)
        xid, direction = _RPC_START.unpack_from(data, header.size)
        if direction > _REPLY or (xid != header.xid and direction == _CALL):
            return self._refuse(header.xid, responder)
        if xid != header.xid:
            # A faulty reply is dropped (RFC 8166 section 4.5); an error could end a call of the peer's instead.
            return False
        if direction == _CALL:
            if responder is None or invalidated is not None:
                return False
            responder.on_call(xid, header.chunks, data, header.size, long=False)
            return True
        if requester is None:
            return False
        return requester.on_reply(
            xid, header.credits, header.chunks, data, header.size, long=False, invalidated=invalidated
        )

    def _on_nomsg(
        self,
        header: RdmaNoMsg,
        data: Buffer,
        invalidated: int | None,
        requester: Requester | None,
        responder: Responder | None,
    ) -> bool:
        if any(chunk.position == 0 for chunk in header.chunks.reads):
            if responder is None or invalidated is not None:
                return False
            responder.on_call(header.xid, header.chunks, b"", 0, long=True)
            return True
        # Without a Position-Zero chunk it is a reply, if anything (RFC 8166 sections 4.2.4 and 4.3.1).
        taken = (
            requester is not None
            and header.chunks is not NO_CHUNKS
            and requester.on_reply(
                header.xid, header.credits, header.chunks, data, len(data), long=True, invalidated=invalidated
            )
        )
        return taken or self._refuse(header.xid, responder)

    def _on_error(self, data: Buffer, invalidated: int | None, requester: Requester) -> bool:
        try:
            header = decode_header(data)
        except DecodeError:
            return False
        assert isinstance(header, RdmaError)
        error: RpcRdmaError = VersionRefused(header.low, header.high) if header.code == ERR_VERS else ChunkRefused()
        return requester.on_refused(header.xid, error, invalidated=invalidated)

    def _refuse(self, xid: int, responder: Responder | None) -> bool:
        """A message of no direction, which a responder answers with ERR_CHUNK and a requester discards."""
        if responder is None or responder.reverse:
            return False
        responder.refuse(encode_chunk_refused(xid, VERSION, responder.credits.granted))
        return True
