"""A call under RPCSEC_GSS that was refused in its form, and cannot be encoded again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from local_tcp import with_threads
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.security_options import Kerberos, KerberosKeys
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.errors import LocalProtocolError, OutOfMemory
from rpcrdma.rpc.gss.initiator import ProtectedCall
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.service import CallContext, Service
from rpcrdma.transport.refusals import ChunkRefused
from support.cases import each_case
from support.fake_gss import FakeMechanism
from support.programs import decode_word, encode_word, opaque_of

MIB = 1 << 20
# More than the client offers for.
GIVE = Procedure(0x20000009, 1, 1, "GIVE", "give", encode_word, decode_word, *opaque_of(2 * MIB))


class Giving(Service):
    PROGRAM = Program(0x20000009, 1, "GIVING", {1: GIVE})

    def give(self, args: int, context: CallContext) -> bytes:
        return bytes(args)


@each_case("failure", [OutOfMemory("5 octets"), MemoryError(), LocalProtocolError("no word"), TypeError("no word")])
@with_threads
async def test_the_call_fails_as_it_was_refused_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    begin, refused = ProtectedCall.begin, asyncio.Event()

    def failing_again(call: ProtectedCall, procedure: Procedure[Any, Any], args: Any) -> int:
        if call._sequence:
            refused.set()
            raise failure
        return begin(call, procedure, args)

    monkeypatch.setattr(ProtectedCall, "begin", failing_again)
    mechanism = FakeMechanism()
    serving = ServeOptions(security=("krb5i",), kerberos=KerberosKeys(mechanism=mechanism))
    calling = ConnectOptions(security=Kerberos("krb5i", mechanism=mechanism), rpcrdma_version="2", reconnect=False)
    async with (
        serve([Giving()], ["rdma://127.0.0.1:0"], options=serving) as server,
        connect(server.listening[0], Giving.PROGRAM, options=calling) as connection,
    ):
        with pytest.raises(ChunkRefused):
            await connection.call(GIVE, 2 * MIB)
        assert refused.is_set()
        assert bytes(await connection.call(GIVE, 5)) == bytes(5)
