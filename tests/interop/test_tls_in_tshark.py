"""Wireshark's dissectors, which we did not write, understand the probe for TLS and the records that follow it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import rpcrdma
from rpcrdma import HostAuthentication
from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.server.tcp_server import TcpServerConfig
from rpcrdma.nfs.server import Export, build_services, open_state
from support.host_pair import Hosts

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark: make interop"),
]

PORT = 20049
CONTENT = b"a secret of many octets " * 4000


Passage = tuple[str, bytes]
"""Octets of one side: of the client "O", of the server "I"."""


async def relay(server: tuple[str, int], passages: list[Passage]) -> asyncio.Server:
    """A way to the server on which the octets of both sides are recorded."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, side: str) -> None:
        while octets := await reader.read(16_000):
            passages.append((side, octets))
            writer.write(octets)
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        of_server = await asyncio.open_connection(*server)
        await asyncio.gather(carry(reader, of_server[1], "O"), carry(of_server[0], writer, "I"))

    return await asyncio.start_server(connected, "127.0.0.1", 0)


def written(passages: list[Passage], path: Path) -> Path:
    """The octets as a capture of one TCP connection."""
    text = "".join(f"{side}\n0000 {octets.hex(' ')}\n" for side, octets in passages)
    path.with_suffix(".txt").write_text(text)
    command = ["text2pcap", "-q", "-D", "-T", f"40000,{PORT}", path.with_suffix(".txt"), path]
    subprocess.run(command, check=True, capture_output=True)
    return path


@pytest.fixture
def capture(hosts: Hosts, tmp_path: Path) -> Path:
    """A file read over TLS with the certificates of both hosts; MOUNT went another way."""
    passages: list[Passage] = []
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "a").write_bytes(CONTENT)

    async def work() -> None:
        services = build_services([Export(name="/", directory=directory)], state=open_state(tmp_path / "s", os.urandom))
        server_hosts = HostAuthentication(certificate=hosts.server, authorities=hosts.authority.path)
        config = TcpServerConfig(xprtsec="mtls", host_authentication=server_hosts)
        client_hosts = HostAuthentication(
            certificate=hosts.client, authorities=hosts.authority.path, names=["server.example"]
        )
        options = ConnectOptions(xprtsec="mtls", host_authentication=client_hosts)
        async with serve([*services], ["tcp://127.0.0.1:0"], options=ServeOptions(tcp=config)) as server:
            port = int(server.listening[0].rpartition(":")[2])
            between = await relay(("127.0.0.1", port), passages)
            url = f"tcp://127.0.0.1:{between.sockets[0].getsockname()[1]}/?mountport={port}"
            async with await rpcrdma.nfs_open(url, options=options) as fs:
                assert await fs.read_bytes("a") == CONTENT
            between.close()
        services.nfs.close()

    asyncio.run(work())
    # The probe and its answer are the first octets of each side.
    written(passages[2:], tmp_path / "records.pcap")
    return written(passages, tmp_path / "tls.pcap")


def shown(capture: Path, protocol: str, *fields: str) -> list[list[str]]:
    """The fields of each frame where the connection is dissected as `protocol`."""
    command = ["tshark", "-2", "-r", str(capture), "-d", f"tcp.port=={PORT},{protocol}", "-T", "fields"]
    done = subprocess.run(
        [*command, *(word for field in fields for word in ("-e", field))], capture_output=True, check=True, text=True
    )
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_the_probe_is_a_call_with_auth_tls(capture: Path) -> None:
    frames = [frame for frame in shown(capture, "rpc", "rpc.msgtyp", "rpc.auth.flavor", "rpc.procedure") if frame[0]]
    assert [frame[0] for frame in frames[:2]] == ["0", "1"], "a call and its reply"
    assert frames[0][1].split(",")[0] == "7"
    assert frames[0][2] == "0"
    assert b"STARTTLS" in capture.read_bytes()


def test_what_follows_is_tls_1_3_with_sunrpc(capture: Path) -> None:
    frames = shown(
        capture.with_name("records.pcap"),
        "tls",
        "tls.record.content_type",
        "tls.handshake.type",
        "tls.handshake.extensions_alpn_str",
        "tls.handshake.extensions.supported_version",
        "tls.record.opaque_type",
        "_ws.malformed",
    )
    types = ",".join(frame[1] for frame in frames if frame[1]).split(",")
    assert types[:2] == ["1", "2"], "ClientHello and ServerHello"
    hello = next(frame for frame in frames if frame[1].startswith("1"))
    assert hello[2] == "sunrpc"
    assert hello[3] == "0x0304", "TLS 1.3 alone"
    in_clear, encrypted = ([kind for frame in frames for kind in frame[at].split(",") if kind] for at in (0, 4))
    assert set(in_clear) == {"20", "22"}, "the hellos, and ChangeCipherSpec for the sake of firewalls"
    assert encrypted.count("23") > 10
    assert all(frame[5] == "" for frame in frames)


def test_nothing_of_the_file_is_in_the_clear(capture: Path) -> None:
    assert b"a secret of many octets" not in capture.read_bytes()
    assert b"client.example" not in capture.read_bytes(), "TLS 1.3 encrypts certificates"
