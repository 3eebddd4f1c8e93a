"""Errors that each side reports to the other: our decoders read those of the kernel, and siw reads ours."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from dataclasses import replace
from unittest import mock

from failures import CheckFailed
from guest import Guest
from kernel_export import Export, connected_export, equal, ok
from kernel_server import EXPORT, PORT
from lab import Lab, check
from patience import patience

from rpcrdma.aio.client import connect
from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.client.known_servers import KnownServers
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.errors import TransportClosed
from rpcrdma.iwarp.terminate import Code, PeerTerminated, TerminateMessage, decode_terminate
from rpcrdma.nfs import v3
from rpcrdma.nfs.v3 import stable_how
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.transport import TransportConfig
from rpcrdma.transport.dialects.header_v1 import ERR_CHUNK, ERR_VERS, RdmaError, RdmaMsg, decode_header
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.transport.message import Outgoing
from rpcrdma.transport.private_data import PrivateData
from rpcrdma.transport.refusals import ChunkRefused, VersionRefused
from support import raw_calls
from support.raw_socket import HeardSegment, RawSocketPeer

__all__: list[str] = []

_TAKE_UP_S = 0.05
"""The time that siw needs until it reads a first message; see `IwarpConfig.first_send_pause_s`."""
_ANSWER_S = 10.0
_MARKER = "here-begins-the-check-of-our-terminate"


@contextlib.asynccontextmanager
async def _raw(server: Guest) -> AsyncIterator[RawSocketPeer]:
    """A connection on which octets are sent as they are."""
    peer = await RawSocketPeer.connected(server.address, PORT)
    try:
        await peer.start(raw_calls.BOTH_PRIVATE)
        await asyncio.sleep(_TAKE_UP_S)
        yield peer
    finally:
        peer.close()


async def _answer(server: Guest, message: bytes) -> HeardSegment:
    """The kernel's answer to one message."""
    async with _raw(server) as peer, patience(server, _ANSWER_S, "the kernel's answer to a message"):
        await peer.send_segments(raw_calls.send(message))
        return await peer.segment()


@check(quick=True)
def another_version_is_refused(lab: Lab) -> None:
    asyncio.run(_versions(lab.server))


async def _versions(server: Guest) -> None:
    null = raw_calls.rpc(0)
    for version in (0, 2, 7, 0xFFFFFFFF):
        heard = await _answer(server, raw_calls.header(version=version) + null)
        wanted = RdmaError(raw_calls.XID, 64, ERR_VERS, 1, 1, version)
        equal(f"answer to version {version}", decode_header(heard.payload), wanted)
    # A client that knows version 2 hears of version 1 in the answer to its first message, on the same connection.
    with mock.patch.object(connect, "_KNOWN_SERVERS", KnownServers()):
        async with connected_export(server, "versions") as export:
            agreed, counters = export.connection.negotiated, export.connection.statistics
            assert agreed is not None
            assert counters is not None
            equal("version", agreed.version, 1)
            equal("messages until the first reply", (counters.sends, counters.receives), (2, 2))
            equal("connections made again", export.connection.reconnects, 0)
    # All of our client takes part: only the version in its messages is changed.
    async with connected_export(server, "versions", ConnectOptions(rpcrdma_version=1)) as export:
        with mock.patch.object(Version1, "encode", _encode_as_version_2):
            try:
                await export.nfs.null()
            except VersionRefused as refused:
                equal("versions", (refused.low, refused.high), (1, 1))
            else:
                raise CheckFailed("a call of version 2 was answered")
        await export.nfs.null()


_encode = Version1.encode


def _encode_as_version_2(dialect: Version1, message: Outgoing, credit_word: int) -> bytes:
    octets = _encode(dialect, message, credit_word)
    return octets[:4] + struct.pack(">I", 2) + octets[8:]


@check(quick=True)
def bad_chunks_are_refused(lab: Lab) -> None:
    asyncio.run(_chunks(lab.server))


async def _chunks(server: Guest) -> None:
    null = raw_calls.rpc(0)
    refused = RdmaError(raw_calls.XID, 64, ERR_CHUNK)
    bad = {
        "a position within a word": raw_calls.header(reads=raw_calls.read_segment(5, 1, 8)) + null,
        "a Write chunk without segments": raw_calls.header(writes=raw_calls.chunk()) + null,
        "a Write list that has no end": raw_calls.header()[:20] + struct.pack(">II", 1, 1),
        "RDMA_MSGP": raw_calls.header(kind=2) + null,
    }
    for what, message in bad.items():
        equal(f"answer to {what}", decode_header((await _answer(server, message)).payload), refused)
    # In between, the same connection goes on.
    async with _raw(server) as peer, patience(server, _ANSWER_S, "the kernel's answers to RDMA_MSGP and to NULL"):
        await peer.send_segments(raw_calls.send(bad["RDMA_MSGP"], 1))
        equal("answer", decode_header((await peer.segment()).payload), refused)
        await peer.send_segments(raw_calls.send(raw_calls.NULL_CALL, 2))
        equal("answer to NULL", isinstance(decode_header((await peer.segment()).payload), RdmaMsg), True)

    async with connected_export(server, "chunks") as export:
        handle = await export.create("file")
        large = bytes((1 << 20) + (1 << 16))
        await _refused(export, v3.WRITE, v3.WRITE3args(handle, 0, len(large), stable_how.UNSTABLE, large))
        server.run(f"cd {EXPORT}/chunks; seq 1 200 | sed s,^,a-long-name-, | xargs touch")
        small = replace(v3.READDIR, bound=ReplyBound(5000))
        await _refused(export, small, v3.READDIR3args(export.directory, 0, bytes(8), 32768))
        equal("refused calls", export.statistics.calls_failed, 2)
        ok(await export.nfs.getattr(v3.GETATTR3args(handle)))


async def _refused(export: Export, procedure: object, args: object) -> None:
    try:
        await export.connection.call(procedure, args)  # type: ignore[arg-type]
    except ChunkRefused:
        return
    raise CheckFailed("a call was answered whose chunks do not do")


@check(quick=True)
def siw_terminates_and_we_say_why(lab: Lab) -> None:
    asyncio.run(_terminated(lab.server))


async def _terminated(server: Guest) -> None:
    longest = raw_calls.header() + raw_calls.rpc(0)
    async with _raw(server) as peer, patience(server, _ANSWER_S, "the kernel's answer to 4096 octets"):
        await peer.send_segments(raw_calls.send(longest.ljust(4096, b"\0")))
        equal("opcode of the answer to 4096 octets", (await peer.segment()).opcode, raw_calls.SEND)
    async with _raw(server) as peer, patience(server, _ANSWER_S, "the kernel's Terminate after 4097 octets"):
        await peer.send_segments(raw_calls.send(longest.ljust(4097, b"\0")))
        heard = await peer.segment()
        equal("opcode of the answer to 4097 octets", heard.opcode, raw_calls.TERMINATE)
        told = decode_terminate(heard.payload)
        # siw may report a message that is too long with the code for a missing buffer.
        equal("code of the Terminate", told.code in {Code.UNTAGGED_NO_BUFFER, Code.UNTAGGED_TOO_LONG}, True)
        words = str(PeerTerminated(told))
    # The whole of our client, which believes that the kernel takes 8 KiB.
    generous = PrivateData(remote_invalidation=True, send_octets=8192, receive_octets=8192)
    options = ConnectOptions(transport=TransportConfig(inline_send_octets=8192))
    with mock.patch("rpcrdma.transport.endpoint.decode_private_data", return_value=generous):
        async with connected_export(server, "terminated", options) as export:
            data = bytes(6000)
            try:
                await export.nfs.write(v3.WRITE3args(export.directory, 0, len(data), stable_how.UNSTABLE, data))
            except TransportClosed as closed:
                equal("what our client says", str(closed), f"rdma://{server.address}:20049: {words}")
            else:
                raise CheckFailed("a message of more than 4096 octets was answered")


@check(quick=True)
def siw_understands_our_terminate(lab: Lab) -> None:
    asyncio.run(_terminate(lab.server))


async def _terminate(server: Guest) -> None:
    """A WRITE that is given up: its memory is withdrawn before the kernel has read it."""
    async with connected_export(server, "terminate") as export:
        handle = await export.create("file")
        data = bytes(1 << 20)
        server.run(f"echo {_MARKER} >/dev/kmsg")
        call = asyncio.ensure_future(export.nfs.write(v3.WRITE3args(handle, 0, len(data), stable_how.UNSTABLE, data)))
        await asyncio.sleep(0)
        call.cancel()
        connection = export.connection._present
        assert isinstance(connection, RdmaConnection)
        async with patience(server, _ANSWER_S, "the end of a connection whose call was given up"):
            await connection.wait_closed()
        assert connection.end_reason is not None
        if TerminateMessage(code=Code.PROTECTION_STAG).words not in connection.end_reason.reason:
            raise CheckFailed(f"our side says: {connection.end_reason.reason}")
    said = server.run("dmesg").output.rpartition(_MARKER)[2]
    # siw swaps the nibbles of layer and type.
    if not any(f"got TERMINATE. layer {pair}, code 0" in said for pair in ("0, type 1", "1, type 0")):
        raise CheckFailed(f"siw says nothing of the Terminate: {said}")
    async with connected_export(server, "terminate") as export:
        await export.nfs.null()
