"""A server on a socket against a client made of octets: the octets on the wire, for whole connections."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from rpcrdma.aio.server.serve import serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext
from support.cases import each_case
from support.raw_iwarp import fpdu, startup_frame, tagged, untagged

pytestmark = pytest.mark.thorough

XID = 0x0DEC0DED
HANDLE, OFFSET = 0x00C0FFEE, 0x1122334455667000
FILE = struct.pack(">I8s", 8, b"the file")


class Files(v3.NFS_V3_Service):
    """Notes which handlers ran."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def lookup(self, args: v3.LOOKUP3args, context: CallContext) -> v3.LOOKUP3res:
        self.ran.append(args.what.name)
        return v3.LOOKUP3res(v3.nfsstat3.NFS3ERR_NOENT, v3.LOOKUP3resfail(v3.post_op_attr(False, None)))

    def access(self, args: v3.ACCESS3args, context: CallContext) -> v3.ACCESS3res:
        self.ran.append(args.access)
        return v3.ACCESS3res(v3.nfsstat3.NFS3ERR_STALE, v3.ACCESS3resfail(v3.post_op_attr(False, None)))

    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        self.ran.append(bytes(args.data))
        wcc = v3.wcc_data(v3.pre_op_attr(False, None), v3.post_op_attr(False, None))
        return v3.WRITE3res(v3.nfsstat3.NFS3ERR_STALE, v3.WRITE3resfail(wcc))


class Read(NamedTuple):
    """An RDMA Read Request of the server."""

    sink_handle: int
    sink_offset: int
    length: int
    handle: int
    offset: int


class RawClient:
    """An iWARP initiator of hand-made octets."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.sends = 0

    async def start(self) -> None:
        self.writer.write(startup_frame("Req", 0x50, 2, bytes.fromhex("00200020")))
        header = await self.reader.readexactly(20)
        assert header[:16] == b"MPA ID Rep Frame"
        await self.reader.readexactly(int.from_bytes(header[18:20], "big"))

    def send(self, message: bytes) -> None:
        self.sends += 1
        self.writer.write(fpdu(untagged(3, 0, self.sends, message)))

    async def receive(self) -> Read | bytes:
        """The next message: an RDMA Read Request, or the payload of a Send."""
        length = int.from_bytes(await self.reader.readexactly(2), "big")
        rest = await self.reader.readexactly((length + 5 & ~3) + 4 - 2)
        assert rest[0] == 0x41, "untagged, in one segment"
        opcode, payload = rest[1] & 0x0F, rest[18:length]
        if opcode == 1:
            return Read._make(struct.unpack(">IQIIQ", payload))
        assert opcode == 3
        return payload


def call(procedure: int, args: bytes, *, xid: int = XID, chunk: tuple[int, int] | None = None) -> bytes:
    """An RDMA_MSG with a call of NFS version 3; `chunk` is (Position, length) of the one Read chunk."""
    reads = b"" if chunk is None else struct.pack(">IIIIQ", 1, chunk[0], HANDLE, chunk[1], OFFSET)
    header = struct.pack(">IIII", xid, 1, 32, 0) + reads + struct.pack(">III", 0, 0, 0)
    return header + struct.pack(">10I", xid, 0, 2, 100003, 3, procedure, 0, 0, 0, 0) + args


async def talk(files: Files, conversation: Callable[[RawClient], Awaitable[None]]) -> None:
    async with serve([files], ["rdma://127.0.0.1:0"]) as server:
        url = parse_url(server.listening[0])
        client = RawClient(*await asyncio.open_connection(url.host, url.port))
        try:
            await client.start()
            await conversation(client)
        finally:
            client.writer.close()
            await client.writer.wait_closed()


async def answer_read(client: RawClient, data: bytes) -> None:
    """Lets the server read its Read chunk."""
    read = await client.receive()
    assert isinstance(read, Read)
    assert (read.length, read.handle, read.offset) == (len(data), HANDLE, OFFSET)
    client.writer.write(fpdu(tagged(2, read.sink_handle, read.sink_offset, data)))


# Procedure, arguments without the content of the chunk, Position, content of the chunk.
INELIGIBLE = {
    "a name": (3, FILE + struct.pack(">I", 8), 40 + 12 + 4, b"filename"),
    "a file handle": (4, struct.pack(">I", 8) + struct.pack(">I", 0x3F), 40 + 4, b"the file"),
    "a number": (4, FILE, 40 + 12, struct.pack(">I", 0x3F)),
    "the whole of the arguments": (4, b"", 40, FILE + struct.pack(">I", 0x3F)),
    "nothing that the arguments have": (4, FILE + struct.pack(">I", 0x3F), 40 + 16, b"octets"),
}


@pytest.mark.req("V1-62", "V1-60", "V1-57")
@each_case("what", INELIGIBLE)
def test_an_ineligible_argument_in_a_chunk_is_answered_with_err_chunk_and_not_run(what: str) -> None:
    procedure, args, position, content = INELIGIBLE[what]
    files = Files()

    async def conversation(client: RawClient) -> None:
        client.send(call(procedure, args, chunk=(position, len(content))))
        await answer_read(client, content)
        answer = await client.receive()
        assert isinstance(answer, bytes)
        xid, version, granted, kind, error = struct.unpack(">IIIII", answer)
        assert (xid, version, kind, error) == (XID, 1, 4, 2)
        assert granted >= 1
        assert files.ran == []
        # The connection goes on, and the same call without a chunk is run.
        client.send(call(4, FILE + struct.pack(">I", 0x3F), xid=XID + 1))
        reply = await client.receive()
        assert isinstance(reply, bytes)
        assert reply[28:36] == struct.pack(">II", XID + 1, 1)
        assert files.ran == [0x3F]

    asyncio.run(talk(files, conversation))


def test_an_eligible_argument_in_a_chunk_is_run() -> None:
    """The refused segment of the test above is refused for its place alone."""
    files = Files()

    async def conversation(client: RawClient) -> None:
        args = FILE + struct.pack(">QIII", 0, 11, 2, 11)
        client.send(call(7, args, chunk=(40 + 12 + 20, 11)))
        await answer_read(client, b"hello world")
        reply = await client.receive()
        assert isinstance(reply, bytes)
        assert reply[28:36] == struct.pack(">II", XID, 1)
        assert files.ran == [b"hello world"]

    asyncio.run(talk(files, conversation))


# Procedure, arguments, Position and content of the chunk if there is one.
UNDECODABLE: dict[str, tuple[int, bytes, int, bytes]] = {
    "none": (4, b"", 0, b""),
    "cut short": (4, FILE, 0, b""),
    "too much": (4, FILE + struct.pack(">II", 0x3F, 0), 0, b""),
    "a file handle over its limit": (4, struct.pack(">I", 65) + bytes(72), 0, b""),
    "a chunk of another length": (7, FILE + struct.pack(">QIII", 0, 11, 2, 11), 40 + 12 + 20, b"hello"),
    "an enum that there is not": (7, FILE + struct.pack(">QIII", 0, 11, 3, 11), 40 + 12 + 20, b"hello world"),
}


@pytest.mark.req("V1-61")
@each_case("what", UNDECODABLE)
def test_arguments_that_do_not_decode_are_answered_by_rpc_and_not_run(what: str) -> None:
    procedure, args, position, content = UNDECODABLE[what]
    files = Files()

    async def conversation(client: RawClient) -> None:
        client.send(call(procedure, args, chunk=(position, len(content)) if content else None))
        if content:
            await answer_read(client, content)
        answer = await client.receive()
        assert isinstance(answer, bytes)
        # RDMA_MSG without chunks; REPLY, accepted, no verifier, GARBAGE_ARGS.
        assert answer[:8] + answer[12:28] == struct.pack(">IIIIII", XID, 1, 0, 0, 0, 0)
        assert answer[28:] == struct.pack(">IIIIII", XID, 1, 0, 0, 0, 4)
        client.send(call(4, FILE + struct.pack(">I", 0x3F), xid=XID + 1))
        reply = await client.receive()
        assert isinstance(reply, bytes)
        assert reply[28:36] == struct.pack(">II", XID + 1, 1)
        assert files.ran == [0x3F]

    asyncio.run(talk(files, conversation))
