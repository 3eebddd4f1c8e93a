"""Two clients of one address whose calls have the same XID and the same stamp: each call is carried out."""

from __future__ import annotations

from typing import Any

import pytest

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.server.serve import serve
from rpcrdma.rpc.auth import AuthNone, AuthSys, Credential
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.service import CallContext, Service
from rpcrdma.xdr.codec import Decoder, Encoder
from support.cases import each_case
from support.programs import decode_word, encode_word

NUMBER = 0x20000032
XID = 77
OCTETS = 16384
MOST = 1 << 20


def encode_data(enc: Encoder, value: bytes) -> None:
    enc.bulk(value, MOST, "data")


def decode_data(dec: Decoder) -> bytes:
    return bytes(dec.bulk(MOST, "data"))


WRITE = Procedure(NUMBER, 1, 1, "WRITE", "write", encode_data, decode_data, encode_word, decode_word)


class Files(Service):
    """Answers each call that is carried out with its number."""

    PROGRAM = Program(NUMBER, 1, "FILES", {1: WRITE})

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, args: bytes, context: CallContext) -> int:
        self.written.append(args)
        return len(self.written)


# The octets that differ are in the argument: the way it takes is all that matters.
@pytest.mark.versions("1", "2-rtr")
@each_case(
    ("credential", "at"),
    [
        (AuthNone(), OCTETS // 4 - 1),
        (AuthNone(), OCTETS - 1),
        # Of a caller that draws its stamps, or takes the time for one.
        (AuthSys(stamp=1, machine="host", uid=0, gid=0), 0),
        (AuthSys(stamp=1, machine="host", uid=0, gid=0), OCTETS // 2),
        (AuthSys(stamp=1764000000, machine="host", uid=0, gid=0), OCTETS // 2),
        (AuthSys(stamp=1764000000, machine="host", uid=0, gid=0), OCTETS - 1),
    ],
)
async def test_calls_that_differ_in_an_octet_are_both_carried_out(scheme: str, credential: Credential, at: int) -> None:
    first = bytes(OCTETS)
    second = first[:at] + b"!" + first[at + 1 :]
    options = ConnectOptions(credential=credential, reconnect=False)
    service = Files()

    async def write(connection: Connection, data: bytes) -> Any:
        caller: Any = connection._present
        return await caller.call(WRITE, data, xid=XID)

    async with (
        serve([service], [f"{scheme}://127.0.0.1:0"]) as server,
        connect(server.listening[0], Files.PROGRAM, options=options) as one,
        connect(server.listening[0], Files.PROGRAM, options=options) as other,
    ):
        assert await write(one, first) == 1
        assert await write(other, second) == 2
        # A repeat is answered as the call that it repeats.
        assert await write(other, first) == 1
        assert await write(one, second) == 2
    assert service.written == [first, second]
