"""The distance of a peer is the round trip that the network has measured; the work of either process does not count."""

from __future__ import annotations

import hashlib
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.drivers.provider import Provider
from rpcrdma.aio.drivers.sockets import shortest_round_trip_s
from rpcrdma.aio.drivers.software_rnic import SoftwareRnic
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext
from rpcrdma.testing.far_provider import FarProvider
from support.cases import each_case

HANDLE = v3.nfs_fh3(data=b"handle")
NO_ATTRIBUTES = v3.post_op_attr(False, None)
LONG = 192 << 10
WORK = bytes(4 << 20)


class BusyFiles(v3.NFS_V3_Service):
    """A server that takes its time for each call."""

    def null(self, args: None, context: CallContext) -> None:
        hashlib.sha256(WORK).digest()

    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        wcc = v3.wcc_data(v3.pre_op_attr(False, None), NO_ATTRIBUTES)
        return v3.WRITE3res(v3.nfsstat3.NFS3_OK, v3.WRITE3resok(wcc, len(args.data), v3.stable_how.FILE_SYNC, bytes(8)))


@asynccontextmanager
async def connected(provider: Provider, extension: str) -> AsyncIterator[Connection]:
    served = ServeOptions(rdma=RdmaServerConfig(provider=provider))
    options = ConnectOptions(rpcrdma_version=2, provider=provider, extension=extension)
    async with (
        serve([BusyFiles()], ["rdma://127.0.0.1:0"], options=served) as server,
        connect(server.listening[0], v3.PROGRAM, options=options) as connection,
    ):
        yield connection


async def write_of(connection: Connection) -> tuple[int, int, int]:
    """The Read chunks, groups of Sends and continued messages that a WRITE of 192 KiB takes."""
    before = connection.statistics
    assert before is not None
    first = (before.calls_read_chunk, before.groups_sent, before.messages_continued)
    args = v3.WRITE3args(HANDLE, 0, LONG, v3.stable_how.FILE_SYNC, bytes(LONG))
    reply = await connection.call(v3.WRITE, args)
    assert isinstance(reply.value, v3.WRITE3resok)
    after = connection.statistics
    assert after is not None
    return (after.calls_read_chunk - first[0], after.groups_sent - first[1], after.messages_continued - first[2])


@pytest.mark.thorough
@each_case(
    ("round_trip_s", "extension", "takes"),
    [
        (None, "auto", (1, 0, 0)),
        (100e-6, "auto", (1, 0, 0)),
        (20e-3, "auto", (0, 1, 0)),
        (None, "off", (1, 0, 0)),
        (100e-6, "off", (1, 0, 0)),
        (20e-3, "off", (0, 0, 1)),
    ],
)
async def test_what_the_driver_tells_decides_how_a_long_argument_goes(
    round_trip_s: float | None, extension: str, takes: tuple[int, int, int]
) -> None:
    async with connected(FarProvider(SoftwareRnic(), round_trip_s), extension) as connection:
        assert connection.negotiated is not None
        assert connection.negotiated.round_trip_s == round_trip_s
        assert await write_of(connection) == takes


@pytest.mark.thorough
def test_the_kernel_measures_connections_of_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as sock:
        accepted, _ = listener.accept()
        with accepted:
            for end in (sock, accepted):
                measured_s = shortest_round_trip_s(end)
                assert measured_s is not None
                assert 0 < measured_s < 1
    assert shortest_round_trip_s(sock) is None, "closed"


def test_a_connection_without_a_measured_round_trip_is_of_unknown_distance() -> None:
    ends = socket.socketpair()
    for end in ends:
        with end:
            assert shortest_round_trip_s(end) is None


class Told:
    """Stands for a socket of which Linux tells these octets, as many as are asked for."""

    def __init__(self, told: bytes) -> None:
        self._told = told

    def getsockopt(self, level: int, option: int, octets: int) -> bytes:
        assert (level, option) == (socket.IPPROTO_TCP, socket.TCP_INFO)
        return self._told[:octets]


TCP_INFO = bytes(8) + struct.pack("=24I4Q3I", *range(1, 29), 40, 41, 0)
"""`struct tcp_info` of Linux up to `tcpi_notsent_bytes`, each word another number; `tcpi_min_rtt` follows."""


@pytest.mark.parametrize(
    ("octets", "told_s"),
    [
        (TCP_INFO + struct.pack("=I", 20_137), 20_137e-6),
        (TCP_INFO + struct.pack("=I", 0xFFFFFFFF), None),
        (TCP_INFO, None),
        (b"", None),
    ],
    ids=["measured", "not measured yet", "an older kernel", "nothing"],
)
def test_the_round_trip_is_read_where_linux_has_it(octets: bytes, told_s: float | None) -> None:
    assert shortest_round_trip_s(cast("socket.socket", Told(octets))) == told_s
