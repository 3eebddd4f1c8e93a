"""READ and WRITE of files by the round-trip extension: one round trip, nothing registered, data where it arrived."""

from __future__ import annotations

import mmap
import os
import random
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.nfs import v3
from rpcrdma.nfs.client import MountedFilesystem, nfs_open
from rpcrdma.nfs.server import Export, build_services, open_state
from rpcrdma.rtr import RoundTrip
from rpcrdma.rtr.extension import NAME
from rpcrdma.rtr.receive_slabs import SlabReceives
from rpcrdma.transport import TransportStatistics
from rtr_pair import address_of, slab_addresses, slab_memory

pytestmark = pytest.mark.thorough

KIB = 1 << 10
COUNTED = (
    *("calls", "calls_by_send", "sends", "receives", "registrations", "octets_offered", "segments_read"),
    *("rdma_reads", "rdma_writes", "items_joined"),
)
SIZES = pytest.mark.parametrize(("octets", "transmissions"), [(8 * KIB, 1), (64 * KIB, 2)])


@asynccontextmanager
async def mounted(tmp_path: Path, extension: RoundTrip) -> AsyncIterator[tuple[Server, MountedFilesystem]]:
    """An export with the file `data` of 64 KiB, used by a client that moves data by Send wherever it can."""
    directory = tmp_path / "export"
    directory.mkdir()
    (directory / "data").write_bytes(random.Random(3).randbytes(64 * KIB))
    state = open_state(tmp_path / "state", secrets.token_bytes)
    services = build_services(
        [Export(name="/", directory=directory, root_squash=False, synchronous=False)], state=state
    )
    rdma = RdmaServerConfig(extensions=[extension.extension])
    async with serve(services, ["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"], options=ServeOptions(rdma=rdma)) as server:
        url, tcp = server.listening
        options = ConnectOptions(extension="rtr", rpcrdma_version="2")
        async with nfs_open(f"{url}/?mountport={parse_url(tcp).port}", options=options) as fs:
            # Credits are settled after these.
            for _ in range(4):
                await fs.connection.call(v3.NULL, None)
            yield server, fs
    services.nfs.close()
    state.close()


class Meter:
    """The counts of calls at both ends from here on."""

    def __init__(self, server: Server, fs: MountedFilesystem) -> None:
        self._server = server
        self._fs = fs
        self._before = self._now()

    def _now(self) -> tuple[TransportStatistics, TransportStatistics]:
        client = self._fs.connection.statistics
        assert client is not None
        return replace(client), self._server.statistics().counters

    def check(self, *, sends: int, receives: int) -> None:
        """One call, in so many Sends each way; nothing else, at either end."""
        now = self._now()
        client, server = (
            {name: getattr(end, name) - getattr(start, name) for name in COUNTED}
            for start, end in zip(self._before, now, strict=True)
        )
        assert client["calls"] == server["calls"] == client["calls_by_send"] == 1
        assert (client["sends"], client["receives"]) == (sends, receives) == (server["receives"], server["sends"])
        assert client["registrations"] == client["octets_offered"] == client["segments_read"] == 0
        assert server["registrations"] == server["rdma_reads"] == server["rdma_writes"] == 0
        assert server["items_joined"] == client["items_joined"] == 0


@SIZES
async def test_a_read_takes_one_round_trip_and_no_registration(tmp_path: Path, octets: int, transmissions: int) -> None:
    async with mounted(tmp_path, RoundTrip()) as (server, fs):
        expected = (tmp_path / "export" / "data").read_bytes()[:octets]
        async with await fs.open("data") as file:
            into = bytearray(octets)
            meter = Meter(server, fs)
            assert await file.preadinto(into, 0) == octets
            meter.check(sends=1, receives=transmissions)
            assert into == expected
        # Without memory of the caller the result is used where it arrived.
        handle, _ = await fs.handle_of("data")
        meter = Meter(server, fs)
        reply = await fs.connection.call(v3.READ, v3.READ3args(v3.nfs_fh3(handle), 0, octets))
        meter.check(sends=1, receives=transmissions)
        assert isinstance(reply.value, v3.READ3resok)
        data = memoryview(reply.value.data)
        assert data == expected
        assert isinstance(data.obj, mmap.mmap), "the memory of a receive buffer"
        assert address_of(data) % 4096 == 0
        link = fs.connection.extension(NAME)
        assert link is not None
        assert isinstance(link.receives, SlabReceives)
        slabs = slab_addresses(link.receives._store)
        assert transmissions == 1 or any(address_of(data) in memory for memory in slabs)


@SIZES
async def test_a_write_takes_one_round_trip_and_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, octets: int, transmissions: int
) -> None:
    taken: list[memoryview] = []
    write = os.pwrite

    def noting(fd: int, data: memoryview, offset: int) -> int:
        taken.append(data)
        return write(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", noting)
    extension = RoundTrip()
    async with mounted(tmp_path, extension) as (server, fs), await fs.open("data", "r+b") as file:
        data = random.Random(octets).randbytes(octets)
        meter = Meter(server, fs)
        assert await file.pwrite(data, 0) == octets
        await file.flush()
        meter.check(sends=transmissions, receives=1)
        (came,) = taken
        assert isinstance(came.obj, mmap.mmap), "the memory of a receive buffer"
        assert address_of(came) % 4096 == 0
        assert transmissions == 1 or any(address_of(came) in memory for memory in slab_memory(extension))
    assert (tmp_path / "export" / "data").read_bytes()[:octets] == data
