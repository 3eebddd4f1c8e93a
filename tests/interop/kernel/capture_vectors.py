"""Captures conversations with Linux kernels, and writes their messages to tests/vectors/linux/messages.toml.

`run.py capture-vectors` compares the messages of a new conversation with the vectors, by kind and order;
`RPCRDMA_WRITE_VECTORS=1 run.py capture-vectors` writes them anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from captured import Unit, read_units
from failures import CheckFailed
from guest import Guest
from kernel_export import connected_export, ok
from kernel_server import EXPORT, PORT
from lab import Lab, check
from patience import patience

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.drivers.capture import PacketCapture
from rpcrdma.nfs import v3
from rpcrdma.nfs.v3 import stable_how
from support import raw_calls
from support.raw_iwarp import startup_frame
from support.raw_socket import RawSocketPeer

__all__: list[str] = []

VECTORS = Path(__file__).parents[2] / "vectors/linux/messages.toml"
_WRITE_VARIABLE = "RPCRDMA_WRITE_VECTORS"
_WRITE, _READ_REQUEST, _SEND, _SEND_INVALIDATE, _TERMINATE = 0, 1, 3, 4, 7
_TAKE_UP_S = 0.05
_OCTETS_MAX = 512
"""Longer frames carry only data, and are left out."""
_NAMES = {0: "NULL", 1: "GETATTR", 3: "LOOKUP", 6: "READ", 7: "WRITE", 17: "READDIRPLUS", 19: "FSINFO"}
_WANTED = {
    "kernel client": ["NULL call", "FSINFO call", "READ call", "WRITE call", "READDIRPLUS call"],
    "kernel server": ["NULL reply", "FSINFO reply", "READ reply", "WRITE reply", "READDIRPLUS reply"],
}

Vector = tuple[str, str, bytes]
"""(name, who sent it, octets)."""


@check()
def capture_vectors(lab: Lab) -> None:
    with tempfile.TemporaryDirectory(prefix="rpcrdma-vectors-") as directory:
        vectors = [
            *_kernel_client(lab, Path(directory) / "client.pcap"),
            *_kernel_server(lab.server, Path(directory) / "server.pcap"),
            *asyncio.run(_refusals(lab.server)),
        ]
    if os.environ.get(_WRITE_VARIABLE):
        VECTORS.parent.mkdir(exist_ok=True)
        VECTORS.write_text(_toml(lab.image.release, lab.image.versions, vectors))
    elif missing := [name for name, _, _ in vectors if f'name = "{name}"' not in VECTORS.read_text()]:
        raise CheckFailed(f"{VECTORS.name} lacks {missing}")


def _kernel_client(lab: Lab, pcap: Path) -> list[Vector]:
    """The kernel's client mounts our server, reads, writes, and lists."""
    with lab.mounted(serve=("--pcap", str(pcap))) as server:
        (server.directory / "file").write_bytes(bytes(range(256)) * 40)
        names = server.directory / "names"
        names.mkdir()
        for number in range(3):
            (names / f"name {number}").touch()
        lab.client.run("set -e; cat /mnt/file >/dev/null; ls -l /mnt/names; head -c 5000 /dev/zero >/mnt/new; sync")
    return list(_chosen("client", read_units(pcap, PORT)))


def _kernel_server(server: Guest, pcap: Path) -> list[Vector]:
    """Our client reads, writes and lists at the kernel's server."""
    asyncio.run(_calls(server, pcap))
    return list(_chosen("server", read_units(pcap, PORT)))


async def _calls(server: Guest, pcap: Path) -> None:
    with contextlib.closing(PacketCapture(pcap)) as capture:
        async with connected_export(server, "vectors", ConnectOptions(capture=capture, rpcrdma_version=1)) as export:
            nfs = export.nfs
            await nfs.null()
            handle = await export.create("file")
            ok(await nfs.fsinfo(v3.FSINFO3args(export.directory)))
            data = bytes(range(256)) * 20
            ok(await nfs.write(v3.WRITE3args(handle, 0, len(data), stable_how.FILE_SYNC, data)))
            ok(await nfs.read(v3.READ3args(handle, 5000, 8192)))
            server.run(f"touch '{EXPORT}/vectors/name 1' '{EXPORT}/vectors/name 2'")
            ok(await nfs.readdirplus(v3.READDIRPLUS3args(export.directory, 0, bytes(8), 8192, 8192)))


def _chosen(kernel: str, units: Iterable[Unit]) -> Iterable[Vector]:
    """The first message of each kind that the kernel sent, and its other frames between them."""
    by_client = kernel == "client"
    procedures: dict[bytes, str] = {}
    seen: set[str] = set()
    for unit in units:
        name = ""
        if unit.opcode < 0:
            name = "MPA Request" if unit.by_client else "MPA Reply"
        elif unit.opcode in {_SEND, _SEND_INVALIDATE} and unit.by_client:
            procedures[unit.payload[:4]] = _procedure(unit.payload)
            name = f"{procedures[unit.payload[:4]]} call"
        elif unit.opcode in {_SEND, _SEND_INVALIDATE}:
            name = f"{procedures.get(unit.payload[:4], 'unknown')} reply"
        elif unit.opcode == _READ_REQUEST:
            name = "RDMA Read Request"
        elif unit.opcode == _WRITE and 18 < len(unit.octets) < _OCTETS_MAX:
            name = "RDMA Write"
        elif unit.opcode == _TERMINATE:
            name = "Terminate"
        if name and unit.by_client == by_client and name not in seen and "unknown" not in name:
            seen.add(name)
            yield f"kernel {kernel}: {name}", kernel, unit.octets
    if missing := [name for name in _WANTED[f"kernel {kernel}"] if name not in seen]:
        raise CheckFailed(f"the {kernel} did not say {missing}, but {sorted(seen)}")


def _procedure(message: bytes) -> str:
    """The procedure of a call, found behind the three lists of its header."""
    at = 16
    while message[at + 3]:
        at += 24
    at += 4
    while message[at + 3]:
        at += 8 + 16 * int.from_bytes(message[at + 4 : at + 8])
    at += 4
    if message[at + 3]:
        at += 4 + 16 * int.from_bytes(message[at + 4 : at + 8])
    at += 4
    return _NAMES.get(int.from_bytes(message[at + 20 : at + 24]), "unknown")


async def _refusals(server: Guest) -> list[Vector]:
    """ERR_VERS, ERR_CHUNK, Terminates and a rejected Request, provoked by octets."""
    null = raw_calls.rpc(0)
    messages = {
        "ERR_VERS": raw_calls.header(version=2) + null,
        "ERR_CHUNK": raw_calls.header(kind=2) + null,
        "Terminate of a Send of 4097 octets": (raw_calls.header() + null).ljust(4097, b"\0"),
    }
    vectors = []
    for name, message in messages.items():
        async with patience(server, 20, f"the kernel's {name}"):
            peer = await RawSocketPeer.connected(server.address, PORT)
            await peer.start(raw_calls.BOTH_PRIVATE)
            await asyncio.sleep(_TAKE_UP_S)
            await peer.send_segments(raw_calls.send(message))
            start = await peer.receive(2)
            octets = start + await peer.receive((int.from_bytes(start) + 5 & ~3) + 2)
            vectors.append((f"kernel server: {name}", "server", octets))
            peer.close()
    async with patience(server, 20, "the kernel's MPA Reply that rejects"):
        peer = await RawSocketPeer.connected(server.address, PORT)
        # An IRD of 0, which nfsd does not take.
        await peer.send(startup_frame("Req", 0x50, 2, bytes(4) + raw_calls.BOTH_PRIVATE))
        vectors.append(("kernel server: MPA Reply that rejects", "server", await peer.startup_frame()))
        peer.close()
    return vectors


def _toml(release: str, versions: dict[str, str], vectors: list[Vector]) -> str:
    source = versions.get(next(name for name in versions if name.startswith("linux-image-")), "")
    lines = [
        "# Start-up frames and FPDUs as Linux kernels sent them, over siw in an emulated guest.",
        f"# Provenance: Linux {release} ({source}), captured by tests/interop/kernel/capture_vectors.py.",
        "# The client had our server mounted (cat, ls -l, head); the server was called by our client or by octets.",
    ]
    for name, kernel, octets in vectors:
        text = octets.hex(" ", 4)
        rows = [text[at : at + 72].strip() for at in range(0, len(text), 72)]
        lines += ["", "[[message]]", f'name = "{name}"', f'sender = "{kernel}"', 'hex = """', *rows, '"""']
    return "\n".join(lines) + "\n"
