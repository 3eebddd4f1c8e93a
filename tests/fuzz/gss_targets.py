"""Fuzz targets: the structures of RPCSEC_GSS, a server's checks of calls, and a client's of replies.

Cases change calls and replies of a context that both sides know, so that they come past the first check: the first two
octets say at which offset the rest of a case replaces octets.
"""

from __future__ import annotations

import functools
import itertools

from decoder_targets import DISPATCHER, FuzzTarget, octets_of, round_trip
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.errors import DecodeError, RemoteProtocolError, RpcError
from rpcrdma.nfs import v3
from rpcrdma.rpc.auth import AuthGss
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.gss.acceptor import Acceptor, GssCall
from rpcrdma.rpc.gss.flavors import GssService
from rpcrdma.rpc.gss.initiator import ContextCall, GssSession, ProtectedCall
from rpcrdma.rpc.gss.messages import (
    decode_gss_credential,
    decode_init_result,
    encode_gss_credential,
    encode_init_result,
)
from rpcrdma.rpc.gss.protection import CallDropped
from rpcrdma.rpc.program import null_procedure
from rpcrdma.xdr.codec import Decoder
from support.fake_gss import FakeMechanism

__all__ = ["GSS"]

NULL = null_procedure(v3.PROGRAM.number, v3.PROGRAM.version)


class _Source:
    host = "192.0.2.7"


class _World:
    """A server and a client with a context."""

    def __init__(self) -> None:
        self.mechanism = FakeMechanism()
        handles = itertools.count()
        acceptor = Acceptor(
            self.mechanism, clock=lambda: 0.0, random_octets=lambda length: next(handles).to_bytes(length, "big")
        )
        self.acceptor = acceptor
        self.dispatcher = Dispatcher(DISPATCHER.services, acceptor=acceptor)
        gss = self.mechanism.initiate("host")
        creation = ContextCall(gss.step(None) or b"")
        call = self.opened(octets_of(creation.encode(1, NULL, None)))
        assert call.protection is not None
        result = call.route.handler(call.args, call)
        call.protection.protect(call.success(result))
        gss.step(result.token)
        self.session = GssSession(gss, result.handle, 20, 20, [0])

    def opened(self, octets: bytes) -> ServerCall:
        call = ServerCall(0, Decoder(octets))
        call.source = _Source()
        call.refused = self.dispatcher.open_call(call)
        return call


@functools.cache
def _call(service: GssService) -> bytes:
    return octets_of(ProtectedCall(_World().session, service).encode(9, v3.GETATTR, v3.GETATTR3args(v3.nfs_fh3(b"h"))))


def _changed(octets: bytes, data: bytes) -> bytes:
    at = int.from_bytes(data[:2], "big") % (len(octets) + 1)
    return octets[:at] + data[2:] + octets[at + len(data) - 2 :]


def server(data: bytes) -> None:
    for service in GssService:
        octets = _changed(_call(service), data)
        world = _World()
        try:
            call = world.opened(octets)
        except (DecodeError, CallDropped):
            continue
        if isinstance(call.protection, GssCall):
            # Its header is unchanged.
            assert isinstance(call.credential, AuthGss)
        elif call.refused is None:
            # Others have no identity, or claim one without a proof.
            assert not isinstance(call.credential, AuthGss)
        assert len(world.acceptor) <= 1


def client(data: bytes) -> None:
    for service in GssService:
        world = _World()
        protected = ProtectedCall(world.session, service)
        call = world.opened(octets_of(protected.encode(9, NULL, None)))
        assert call.protection is not None
        reply = octets_of(call.protection.protect(call.success(None)))
        changed = _changed(reply, data)
        try:
            protected.decode(Decoder(changed), 9, NULL, ())
        except (RemoteProtocolError, RpcError):
            continue
        # No octet is without protection but the padding, which no receiver looks at.
        assert len(changed) == len(reply)


GSS = [
    FuzzTarget(
        "gss_credential",
        round_trip(decode_gss_credential, encode_gss_credential),
        [bytes.fromhex("00000001000000000000000700000003" + "00000001aa000000")],
    ),
    FuzzTarget(
        "gss_init_result",
        round_trip(lambda data: decode_init_result(Decoder(data)), encode_init_result),
        [bytes.fromhex("00000001aa000000") + bytes(12) + bytes(4)],
    ),
    FuzzTarget("gss_server", server, [b"\0\x20\0\0\0\1", b"\0\x50" + bytes(8), b"\xff\xff\0\0\0\0"]),
    FuzzTarget("gss_client", client, [b"\0\x0c\0\0\0\0", b"\0\x20" + bytes(8), b"\xff\xff\0\0\0\0"]),
]
