"""Our client moves data to and from the kernel's server: all sizes, every form of call, many at once, whole trees."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from captured import read_units
from failures import CheckFailed
from guest import Guest
from kernel_export import KEEP, Export, connected_export, equal, ok, url_of
from kernel_server import EXPORT, PORT
from lab import Lab, check

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.drivers.capture import PacketCapture
from rpcrdma.nfs import v3
from rpcrdma.nfs.v3 import stable_how
from rpcrdma.rpc.auth import AuthSys
from rpcrdma.transport import TransportConfig

__all__ = ["command_of", "run_command", "sums_of"]

_SIZES = [
    1,
    2,
    3,
    4,
    5,
    7,
    1023,
    1025,
    3800,
    3905,
    4000,
    4095,
    4096,
    4097,
    8191,
    65535,
    65537,
    300_001,
    (1 << 20) - 1,
    1 << 20,
]
_SERVER_CREDITS = 64
_SENDS = (3, 4)
_COMMAND_S = 600.0
"""For a command that hangs: on a quiet machine the longest takes some seconds."""


@check(quick=True)
def reads_and_writes_of_all_sizes(lab: Lab) -> None:
    asyncio.run(_all_sizes(lab.server))


async def _all_sizes(server: Guest) -> None:
    """Pieces one after another and over each other, at offsets of all remainders, against a model in memory."""
    chance = random.Random(4)
    async with connected_export(server, "sizes") as export:
        handle = await export.create("file")
        model = bytearray()
        for number, size in enumerate(_SIZES):
            offset = chance.randrange(len(model) + 1) * (number % 3 > 0) + chance.randrange(1, 4)
            data = chance.randbytes(size)
            written = ok(await export.nfs.write(v3.WRITE3args(handle, offset, size, stable_how.UNSTABLE, data)))
            equal(f"count of a WRITE of {size}", written.count, size)
            model.extend(bytes(max(0, offset + size - len(model))))
            model[offset : offset + size] = data
        ok(await export.nfs.commit(v3.COMMIT3args(handle, 0, 0)))
        equal(
            "the file in the guest", await asyncio.to_thread(_sum, server, "sizes/file"), hashlib.md5(model).hexdigest()
        )
        for size in _SIZES:
            offset = chance.randrange(len(model))
            into = bytearray(size)
            read = ok(await export.nfs.read(v3.READ3args(handle, offset, size), into=into))
            wanted = bytes(model[offset : offset + size])
            if bytes(read.data) != wanted or into[: len(wanted)] != wanted or read.count != len(wanted):
                raise CheckFailed(f"READ of {size} at {offset} brought something else")
            equal(f"end of file after {size} at {offset}", read.eof, offset + size >= len(model))


def _sum(server: Guest, path: str) -> str:
    return server.run(f"md5sum {EXPORT}/{path}", 120).output.split()[0]


@contextlib.asynccontextmanager
async def _counted(export: Export, what: str, **wanted: int) -> AsyncIterator[None]:
    """Checks that the block changes the connection's counters of forms and Sends as `wanted`, and no others."""
    names = ("calls_short", "calls_read_chunk", "calls_write_chunk", "calls_long", "replies_long", "calls_failed")
    before = asdict(export.statistics)
    yield
    after = asdict(export.statistics)
    changes = {name: after[name] - before[name] for name in names if after[name] != before[name]}
    equal(f"forms of {what}", changes, wanted)


@check(quick=True)
def every_form_of_call(lab: Lab) -> None:
    asyncio.run(_plain_forms(lab.server))
    asyncio.run(_long_calls(lab.server))
    asyncio.run(_many_segments(lab.server))


async def _plain_forms(server: Guest) -> None:
    """Without any setting: Short, Read chunk, Write chunk, Reply chunk."""
    async with connected_export(server, "forms") as export:
        nfs = export.nfs
        agreed = export.connection.negotiated
        assert agreed is not None
        equal("inline thresholds", (agreed.inline_send_octets, agreed.inline_receive_octets), (4096, 4096))
        handle = await export.create("file")
        data = random.Random(1).randbytes(100_003)
        async with _counted(export, "a small WRITE", calls_short=1):
            ok(await nfs.write(v3.WRITE3args(handle, 0, 3000, stable_how.FILE_SYNC, data[:3000])))
        async with _counted(export, "a small READ", calls_short=1):
            equal("READ", bytes(ok(await nfs.read(v3.READ3args(handle, 0, 3000))).data), data[:3000])
        invalidated = export.statistics.remote_invalidations
        async with _counted(export, "a large WRITE", calls_read_chunk=1):
            ok(await nfs.write(v3.WRITE3args(handle, 0, len(data), stable_how.FILE_SYNC, data)))
        async with _counted(export, "a large READ", calls_write_chunk=1):
            equal("READ", bytes(ok(await nfs.read(v3.READ3args(handle, 0, len(data)))).data), data)
        target = "/".join(["long"] * 700)
        async with _counted(export, "a long SYMLINK", calls_short=1):
            ok(await nfs.symlink(v3.SYMLINK3args(export.at("link"), v3.symlinkdata3(KEEP, target))))
        link = await export.lookup("link")
        async with _counted(export, "READLINK", calls_write_chunk=1):
            equal("target", ok(await nfs.readlink(v3.READLINK3args(link))).data, target)
        server.run(f"cd {EXPORT}/forms; seq 1 200 | sed s,^,name-, | xargs touch; test $(readlink link) = {target}")
        async with _counted(export, "READDIR", replies_long=1):
            names = ok(await nfs.readdir(v3.READDIR3args(export.directory, 0, bytes(8), 32768))).reply.entries
        equal("names", len(names), 204)
        async with _counted(export, "READDIRPLUS", replies_long=1):
            names = ok(
                await nfs.readdirplus(v3.READDIRPLUS3args(export.directory, 0, bytes(8), 8192, 65536))
            ).reply.entries
        equal("names of READDIRPLUS are there", bool(names), True)
        # The last five each had one handle, as the kernel wants it for a Send with Invalidate.
        equal("handles ended by the kernel", export.statistics.remote_invalidations - invalidated, 5)


def _tight(**more: Any) -> ConnectOptions:
    """Options with the smallest inline size that the protocol allows and the largest credential."""
    credential = AuthSys(machine="m" * 255, uid=0, gid=0, gids=tuple(range(1, 17)))
    transport = TransportConfig(inline_send_octets=1024, inline_receive_octets=1024)
    return ConnectOptions(transport=replace(transport, **more), credential=credential)


async def _long_calls(server: Guest) -> None:
    """Calls in Position-Zero Read chunks: alone, with a Write chunk, with a Reply chunk."""
    async with connected_export(server, "long", _tight()) as export:
        nfs = export.nfs
        async with _counted(export, "a SYMLINK in a Position-Zero chunk", calls_long=1):
            ok(await nfs.symlink(v3.SYMLINK3args(export.at("n" * 255), v3.symlinkdata3(KEEP, "t" * 1000))))
        async with _counted(export, "a SYMLINK with its target in a Read chunk", calls_read_chunk=1):
            ok(await nfs.symlink(v3.SYMLINK3args(export.at("two"), v3.symlinkdata3(KEEP, "T" * 3001))))
        said = server.run(f"cd {EXPORT}/long; readlink two | wc -c; readlink nnn* | wc -c; ls | wc -l").output.split()
        equal("what the calls have made", said, ["3002", "1001", "2"])

    # Not beside another Read chunk: Linux counts such lists wrongly, and loses the last segments.
    data = random.Random(2).randbytes((100 << 10) + 3)
    async with connected_export(server, "long-data", _tight(read_chunks_max=0)) as export:
        handle = await export.create("file")
        async with _counted(export, "WRITE in a Position-Zero chunk", calls_long=1):
            ok(await export.nfs.write(v3.WRITE3args(handle, 0, len(data), stable_how.FILE_SYNC, data)))
        found = await asyncio.to_thread(_sum, server, "long-data/file")
        equal("the file in the guest", found, hashlib.md5(data).hexdigest())
    options = _tight(segment_octets_max=1024)
    async with connected_export(server, "long-replies", options) as export:
        nfs = export.nfs
        handle = await export.create("file")
        for start in (0, 15_000):
            piece = data[start : start + 15_000]
            ok(await nfs.write(v3.WRITE3args(handle, start, 15_000, stable_how.FILE_SYNC, piece)))
        async with _counted(export, "a long READ", calls_long=1, calls_write_chunk=1):
            equal("READ", bytes(ok(await nfs.read(v3.READ3args(handle, 0, 40_001))).data), data[:30_000])
        server.run(f"cd {EXPORT}/long-replies; seq 1 200 | sed s,^,a-name-, | xargs touch")
        async with _counted(export, "a long READDIR", calls_long=1, replies_long=1):
            names = ok(await nfs.readdir(v3.READDIR3args(export.directory, 0, bytes(8), 40_000))).reply.entries
        equal("names", len(names), 203)


async def _many_segments(server: Guest) -> None:
    """Chunks of many segments; their lengths are no multiple of four, or of a page."""
    options = ConnectOptions(transport=TransportConfig(segment_octets_max=9001))
    async with connected_export(server, "segments", options) as export:
        handle = await export.create("file")
        data = random.Random(3).randbytes((1 << 20) - 5)
        async with _counted(export, "WRITE of 117 segments", calls_read_chunk=1):
            ok(await export.nfs.write(v3.WRITE3args(handle, 3, len(data), stable_how.FILE_SYNC, data)))
        async with _counted(export, "READ of 117 segments", calls_write_chunk=1):
            equal("READ", bytes(ok(await export.nfs.read(v3.READ3args(handle, 3, len(data)))).data) == data, True)
        equal(
            "the file", await asyncio.to_thread(_sum, server, "segments/file"), hashlib.md5(bytes(3) + data).hexdigest()
        )


@check(quick=True)
def calls_under_the_servers_credits(lab: Lab) -> None:
    with tempfile.TemporaryDirectory(prefix="rpcrdma-credits-") as directory:
        asyncio.run(_credits(lab.server, Path(directory) / "pcap"))


async def _credits(server: Guest, pcap: Path) -> None:
    with contextlib.closing(PacketCapture(pcap)) as capture:
        async with connected_export(server, "credits", ConnectOptions(capture=capture, rpcrdma_version=1)) as export:
            handle = await export.create("file")
            data = random.Random(5).randbytes(1 << 20)
            for count in (_SERVER_CREDITS, 300):
                size = len(data) // count
                pieces = [data[at * size : (at + 1) * size] for at in range(count)]
                writes = (
                    export.nfs.write(v3.WRITE3args(handle, at * size, size, stable_how.UNSTABLE, piece))
                    for at, piece in enumerate(pieces)
                )
                for written in await asyncio.gather(*writes):
                    ok(written)
                reads = (export.nfs.read(v3.READ3args(handle, at * size, size)) for at in range(count))
                for piece, reply in zip(pieces, await asyncio.gather(*reads), strict=True):
                    equal("READ", bytes(ok(reply).data) == piece, True)
                agreed = export.connection.negotiated
                assert agreed is not None
                equal("credits", agreed.credits_granted, _SERVER_CREDITS)
    equal("most calls in flight", _most_in_flight(pcap), _SERVER_CREDITS)


def _most_in_flight(pcap: Path) -> int:
    """Calls that were sent and not answered at the same time, by the capture."""
    most = now = 0
    for unit in read_units(pcap, PORT):
        if unit.opcode in _SENDS and unit.last:
            now += 1 if unit.by_client else -1
            most = max(most, now)
    return most


@check()
def put_and_get_trees(lab: Lab) -> None:
    """Copies trees with the commands `put` and `get`, as users do."""
    server = lab.server
    server.run(f"rm -rf {EXPORT}/trees; mkdir {EXPORT}/trees")
    with tempfile.TemporaryDirectory(prefix="rpcrdma-trees-", dir="/dev/shm") as directory:
        near = Path(directory) / "near"
        near.mkdir()
        subprocess.run(["tar", "-xf", lab.image.source_tree, "-C", near], check=True)
        (near / "large").write_bytes(random.Random(6).randbytes((8 << 20) + 5))
        (near / "empty").touch()
        (near / "second").hardlink_to(near / "large")
        run_command("put", "-r", str(near), url_of(server, "trees"))
        sums = sums_of(near)
        server.run(
            f"cd {EXPORT}/trees/near; md5sum -c --quiet - <<E\n{sums}\nE\n"
            f"test $(find . -type f | wc -l) = {len(sums.splitlines())}; test large -ef second",
            120,
        )
        server.run(f"cd {EXPORT}/trees; mv near far; echo more >far/more; ln -s large far/link; ln far/large far/third")
        run_command("get", "-r", url_of(server, "trees/far"), str(near.parent / "got"))
        got = near.parent / "got"
        equal("the link", str((got / "link").readlink()), "large")
        equal("names of one file", len({(got / name).stat().st_ino for name in ("large", "second", "third")}), 1)
        sums = server.run(f"cd {EXPORT}/trees/far; find . -type f | sort | xargs md5sum", 120).output.strip()
        equal("the tree", sums_of(got), sums)
        server.run(f"rm -rf {EXPORT}/trees")


def sums_of(tree: Path) -> str:
    """The output of md5sum for all files, in the order of their names."""
    files = sorted(
        f"./{path.relative_to(tree)}" for path in tree.rglob("*") if path.is_file() and not path.is_symlink()
    )
    return "\n".join(f"{hashlib.md5((tree / name).read_bytes()).hexdigest()}  {name}" for name in files)


def command_of(*arguments: str) -> list[str]:
    """The `rpcrdma` command of this environment."""
    return [str(Path(sys.executable).with_name("rpcrdma")), *arguments]


def run_command(*arguments: str, status: int = 0) -> str:
    """Runs `rpcrdma` and returns its output.

    Raises:
        CheckFailed: It ended with another status.
    """
    try:
        done = subprocess.run(command_of(*arguments), capture_output=True, text=True, check=False, timeout=_COMMAND_S)
    except subprocess.TimeoutExpired as late:
        raise CheckFailed(f"awaited the end of rpcrdma {arguments[0]} for {late.timeout:.0f} s") from None
    if done.returncode != status:
        raise CheckFailed(
            f"rpcrdma {arguments[0]} ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}"
        )
    return done.stdout + done.stderr
